//! How long the other side asks to wait, in every form in which it is said.

use http::HeaderMap;
use placet_core::Timestamp;
use std::time::{Duration, UNIX_EPOCH};

/// How much of a body is searched.
pub(super) const DESCRIBED_BYTES: usize = 16 * 1024;

/// Longer waits than this are mistakes; they count as this much.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

/// How long the other side asks to wait. The first of these that is there and makes sense:
///
/// 1. `retry-after-ms`: milliseconds.
/// 2. `retry-after`: seconds (a fraction is allowed), or an HTTP date, counted from `now`; a past one is no wait.
/// 3. `retryDelay` of Google's `RetryInfo` in the body: `"retryDelay": "34.07s"`.
/// 4. The words "try again in …", "retry in …" or "retry after …" in the body, followed by a time: `20ms`, `1.5s`, `6m0s`,
///    `20 seconds`.
/// 5. `x-ratelimit-reset-requests` and `x-ratelimit-reset-tokens` (`1s`, `6m0s`), each only where its
///    `x-ratelimit-remaining-…` is 0; the longer of the two.
///
/// `body` is the beginning of the error's body, if it was read.
#[must_use]
pub fn retry_after(headers: &HeaderMap, body: Option<&[u8]>, now: Timestamp) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let by_milliseconds = || seconds(text("retry-after-ms")?.parse::<f64>().ok()? / 1000.0);
    let by_header = || {
        let value = text("retry-after")?;
        match value.parse::<f64>() {
            Ok(number) => seconds(number),
            Err(_) => until(value, now),
        }
    };
    let by_body = || {
        let bytes = body?;
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(DESCRIBED_BYTES)]).to_ascii_lowercase();
        retry_delay(&text).or_else(|| by_words(&text))
    };
    let by_reset = || {
        ["requests", "tokens"]
            .into_iter()
            .filter(|what| text(&format!("x-ratelimit-remaining-{what}")) == Some("0"))
            .filter_map(|what| span(text(&format!("x-ratelimit-reset-{what}"))?))
            .max()
    };
    by_milliseconds().or_else(by_header).or_else(by_body).or_else(by_reset).map(|wait| wait.min(LONGEST))
}

fn seconds(number: f64) -> Option<Duration> {
    // Infinity and numbers beyond the range are long waits; negative ones and NaN are nonsense.
    if number >= LONGEST.as_secs_f64() { Some(LONGEST) } else { Duration::try_from_secs_f64(number).ok() }
}

fn until(date: &str, now: Timestamp) -> Option<Duration> {
    let at = httpdate::parse_http_date(date).ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(Timestamp::EPOCH.plus(at).since(now))
}

/// `text` is in small letters.
fn retry_delay(text: &str) -> Option<Duration> {
    let (_, rest) = text.split_once("\"retrydelay\"")?;
    let value = rest.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
    span(value.split_once('"')?.0)
}

/// `text` is in small letters.
fn by_words(text: &str) -> Option<Duration> {
    ["try again in ", "retry in ", "retry after "]
        .into_iter()
        .flat_map(|words| text.match_indices(words).map(|(at, found)| &text[at + found.len()..]))
        .find_map(span)
}

/// Reads the time at the beginning of a text: numbers with units, one after the other (`1h2m3.5s`, `20 seconds`). A number
/// needs a unit.
fn span(text: &str) -> Option<Duration> {
    let mut rest = text.trim_start();
    let mut total: Option<Duration> = None;
    loop {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        let after = after.strip_prefix(' ').unwrap_or(after);
        let letters = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        // A full stop that ends a sentence is no part of a number.
        let Some(part) = number.trim_end_matches('.').parse::<f64>().ok().zip(unit_seconds(unit)) else { return total };
        total = Some(total.unwrap_or_default().saturating_add(seconds(part.0 * part.1)?));
        rest = after;
    }
}

fn unit_seconds(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" => 1e-9,
        "us" => 1e-6,
        "ms" | "millisecond" | "milliseconds" => 1e-3,
        "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
        "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3600.0,
        "d" | "day" | "days" => 86_400.0,
        _ => return None,
    })
}
