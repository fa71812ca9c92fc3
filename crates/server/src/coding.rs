//! Bodies that come packed.

use crate::body::too_large;
use crate::refusal::Refusal;
use bytes::Bytes;
use http::HeaderValue;
use placet_core::ErrorKind;
use std::io::Read;

/// How many codings may lie over each other.
const MOST: usize = 3;

/// Unpacks a body, to at most `limit` bytes: a small body that unpacks without end is refused when it reaches it.
pub(crate) fn unpack(body: Bytes, coding: &HeaderValue, limit: usize) -> Result<Bytes, Refusal> {
    let names = coding.to_str().unwrap_or("?").to_ascii_lowercase();
    let names: Vec<&str> = names.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    if names.len() > MOST {
        return Err(unknown());
    }
    let mut body = body;
    // The last one named was put on last.
    for name in names.iter().rev() {
        body = match *name {
            "identity" => body,
            "gzip" | "x-gzip" => whole(flate2::read::MultiGzDecoder::new(&*body), limit)?,
            "deflate" => match whole(flate2::read::ZlibDecoder::new(&*body), limit) {
                Err(refusal) if refusal.status == 400 => whole(flate2::read::DeflateDecoder::new(&*body), limit)?,
                unpacked => unpacked?,
            },
            "br" => whole(brotli_decompressor::Decompressor::new(&*body, 4096), limit)?,
            "zstd" => {
                let decoder = ruzstd::decoding::StreamingDecoder::new(&*body).map_err(|_| broken())?;
                whole(decoder, limit)?
            }
            _ => return Err(unknown()),
        };
    }
    Ok(body)
}

fn whole(packed: impl Read, limit: usize) -> Result<Bytes, Refusal> {
    let mut unpacked = Vec::new();
    let more = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    packed.take(more).read_to_end(&mut unpacked).map_err(|_| broken())?;
    if unpacked.len() > limit { Err(too_large(limit)) } else { Ok(unpacked.into()) }
}

fn broken() -> Refusal {
    Refusal::new(400, ErrorKind::InvalidRequest, "the body is not packed as `content-encoding` says")
}

fn unknown() -> Refusal {
    let message = "the body is packed in a way that is not known here; known are gzip, deflate, br and zstd";
    Refusal::new(415, ErrorKind::Unsupported, message)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use flate2::Compression;
    use std::io::Write as _;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), Compression::fast());
        packer.write_all(bytes).unwrap();
        packer.finish().unwrap()
    }

    fn unpacked(bytes: Vec<u8>, coding: &'static str) -> Result<Vec<u8>, u16> {
        let result = unpack(bytes.into(), &HeaderValue::from_static(coding), 1 << 20);
        result.map(|bytes| bytes.to_vec()).map_err(|refusal| refusal.status)
    }

    #[test]
    fn what_is_packed_is_unpacked_and_no_further_than_the_limit() {
        let text = b"{\"model\":\"a\"}".to_vec();
        assert_eq!(unpacked(gzip(&text), "gzip"), Ok(text.clone()));
        assert_eq!(unpacked(gzip(&gzip(&text)), "gzip, GZIP"), Ok(text.clone()));
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), Compression::fast());
        zlib.write_all(&text).unwrap();
        assert_eq!(unpacked(zlib.finish().unwrap(), "deflate"), Ok(text.clone()));
        let mut raw = flate2::write::DeflateEncoder::new(Vec::new(), Compression::fast());
        raw.write_all(&text).unwrap();
        assert_eq!(unpacked(raw.finish().unwrap(), "deflate"), Ok(text.clone()));
        let zstd = ruzstd::encoding::compress_to_vec(&*text, ruzstd::encoding::CompressionLevel::Fastest);
        assert_eq!(unpacked(zstd, "zstd"), Ok(text.clone()));
        // `{"model":"a"}` as brotli's own program packs it.
        let brotli = vec![11, 6, 128, 123, 34, 109, 111, 100, 101, 108, 34, 58, 34, 97, 34, 125, 3];
        assert_eq!(unpacked(brotli, "br"), Ok(text.clone()));
        assert_eq!(unpacked(gzip(&vec![0; 2 << 20]), "gzip"), Err(413));
        for coding in ["gzip", "deflate", "br", "zstd"] {
            assert_eq!(unpacked(b"no such thing at all".to_vec(), coding), Err(400), "{coding}");
        }
        assert_eq!(unpacked(text, "rot13"), Err(415));
    }
}
