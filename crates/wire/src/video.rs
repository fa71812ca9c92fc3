//! Which media are films, for protocols that take documents and no films.

use placet_core::part::{Media, MediaSource};

/// What the address of a film ends with.
const ENDINGS: [&str; 8] = ["mp4", "mov", "webm", "mkv", "avi", "mpeg", "mpg", "3gp"];
/// Where nothing but films is.
const PLACES: [&str; 3] = ["https://www.youtube.com/", "https://youtube.com/", "https://youtu.be/"];

/// Whether some media are a film, as far as anything says so.
pub(crate) fn is_video(media: &Media) -> bool {
    if let Some(mime) = &media.mime_type {
        return mime.starts_with("video/");
    }
    let MediaSource::Url(url) = &media.source else { return false };
    let path = url.url.split(['?', '#']).next().unwrap_or_default();
    let ending = path.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
    PLACES.iter().any(|place| url.url.starts_with(place))
        || ending.is_some_and(|ending| ENDINGS.contains(&ending.as_str()))
}
