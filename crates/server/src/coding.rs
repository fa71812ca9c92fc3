//! Bodies that come packed.

use crate::refusal::Refusal;
use bytes::Bytes;
use http::HeaderValue;
use placet_core::ErrorKind;

/// Unpacks a body, to at most `limit` bytes.
pub(crate) fn unpack(body: Bytes, coding: &HeaderValue, _limit: usize) -> Result<Bytes, Refusal> {
    match coding.as_bytes() {
        b"" | b"identity" => Ok(body),
        _ => {
            let message = "the body is packed in a way that is not taken; send it as it is";
            Err(Refusal::new(415, ErrorKind::Unsupported, message))
        }
    }
}
