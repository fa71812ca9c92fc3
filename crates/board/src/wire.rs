//! The bodies that travel between a board's server and its clients.
//!
//! They are those of the seven operations that existing clients in other languages speak. Whoever reads one passes over
//! fields that it does not know, and takes an absent one as its default; content is never looked into.

use crate::content::Content;
use crate::error::{BoardError, Result};
use crate::model::{Change, Contribution, Region, RegionKind};
use crate::request::{Cause, Conflict, Rejected, WriteResult, Written};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
pub(crate) struct RegionsBody {
    pub(crate) regions: Vec<RegionBody>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct RegionBody {
    pub(crate) name: String,
    pub(crate) kind: RegionKind,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct LevelBody {
    pub(crate) contributions: Vec<Contribution>,
    #[serde(default)]
    pub(crate) has_more: bool,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct ChangesBody {
    pub(crate) changes: Vec<Change>,
    #[serde(default)]
    pub(crate) has_more: bool,
}

/// What a client sends to write to a level. The region stands in the path; the body repeats it for those who read bodies.
#[derive(Serialize)]
pub(crate) struct WriteBody<'a> {
    pub(crate) writer: &'a str,
    pub(crate) content: &'a Content,
    pub(crate) level: &'a str,
    pub(crate) idempotency_key: Option<&'a str>,
}

/// What a client sends to set a premise.
#[derive(Serialize)]
pub(crate) struct SetBody<'a> {
    pub(crate) writer: &'a str,
    pub(crate) value: &'a Content,
    pub(crate) expected_version: u64,
    pub(crate) premise: &'a str,
    pub(crate) idempotency_key: Option<&'a str>,
}

/// What a client sends to acknowledge.
#[derive(Serialize)]
pub(crate) struct AckBody<'a> {
    pub(crate) agent: &'a str,
    pub(crate) notification_id: u64,
}

/// The body of every answer that is an error.
#[derive(Serialize, Deserialize)]
pub(crate) struct ErrorBody {
    pub(crate) error: String,
    #[serde(default)]
    pub(crate) detail: String,
}

/// Instants as text, with an offset.
pub(crate) mod instant {
    use placet_core::Timestamp;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(at: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
        match at {
            Some(at) => serializer.collect_str(at),
            None => serializer.serialize_none(),
        }
    }

    /// An instant that cannot be read is none: what was written does not depend on it.
    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        Ok(text.as_deref().and_then(Timestamp::parse))
    }
}

impl RegionsBody {
    pub(crate) fn new(regions: &[Region]) -> Self {
        let body = |region: &Region| RegionBody { name: region.name.to_string(), kind: region.kind };
        RegionsBody { regions: regions.iter().map(body).collect() }
    }

    /// The wire does not carry batch windows.
    pub(crate) fn into_regions(self) -> Vec<Region> {
        let region = |body: RegionBody| match body.kind {
            RegionKind::Level => Region::level(body.name),
            RegionKind::Premise => Region::premise(body.name),
        };
        self.regions.into_iter().map(region).collect()
    }
}

/// How a proposed write is answered on the wire: the status and the body.
pub(crate) fn write_answer(result: &WriteResult) -> (u16, Vec<u8>) {
    // Numbers and texts in fields always have a form in JSON.
    fn json(body: &impl Serialize) -> Vec<u8> {
        serde_json::to_vec(body).unwrap_or_default()
    }
    match result {
        WriteResult::Written(written) => (if written.repeated { 200 } else { 201 }, json(written)),
        WriteResult::Conflict(conflict) => (409, json(conflict)),
        WriteResult::Rejected(rejected) if rejected.cause == Cause::RunClosed => {
            (410, json(&ErrorBody { error: Cause::RunClosed.as_str().to_owned(), detail: rejected.reason.clone() }))
        }
        WriteResult::Rejected(rejected) => (422, json(rejected)),
    }
}

/// Reads how a proposed write was answered.
///
/// # Errors
/// The [`BoardError`] that the answer tells, and [`BoardError::Protocol`] for one that no board gives.
pub(crate) fn read_write_answer(status: u16, body: &Bytes, asked: &Asked<'_>) -> Result<WriteResult> {
    match status {
        200 | 201 => read::<Written>(status, body).map(WriteResult::Written),
        409 if asked.is_set && serde_json::from_slice::<Conflict>(body).is_ok() => {
            read::<Conflict>(status, body).map(WriteResult::Conflict)
        }
        410 => {
            let told = read::<ErrorBody>(status, body)?;
            Ok(WriteResult::rejected(Cause::RunClosed, told.detail))
        }
        422 => read::<Rejected>(status, body).map(WriteResult::Rejected),
        _ => Err(read_error(status, body, asked)),
    }
}

/// What was asked, for the errors that the wire tells by a word alone.
#[derive(Default)]
pub(crate) struct Asked<'a> {
    pub(crate) region: &'a str,
    pub(crate) kind: Option<RegionKind>,
    pub(crate) key: &'a str,
    pub(crate) agent: &'a str,
    pub(crate) notification: u64,
    pub(crate) board: &'a str,
    /// Whether a premise was to be set, the one operation that a conflict answers.
    pub(crate) is_set: bool,
}

/// The body of an answer that went well.
///
/// # Errors
/// [`BoardError::Protocol`] where it is none.
pub(crate) fn read<'a, T: Deserialize<'a>>(status: u16, body: &'a [u8]) -> Result<T> {
    serde_json::from_slice(body)
        .map_err(|error| BoardError::Protocol { problem: format!("status {status} with a body that is none: {error}") })
}

/// The error that an answer tells.
pub(crate) fn read_error(status: u16, body: &[u8], asked: &Asked<'_>) -> BoardError {
    let told = match serde_json::from_slice::<ErrorBody>(body) {
        Ok(told) => told,
        Err(_) => {
            let begins: String = String::from_utf8_lossy(body).chars().take(120).collect();
            return BoardError::Protocol { problem: format!("status {status}: {begins}") };
        }
    };
    let region = asked.region.to_owned();
    match (status, told.error.as_str()) {
        (404, "unknown_board") => match crate::name::BoardId::new(asked.board) {
            Ok(board) => BoardError::UnknownBoard { board },
            Err(error) => error,
        },
        (404, "unknown_region") => BoardError::UnknownRegion { region },
        (404, "wrong_region_kind") => {
            let found = match asked.kind {
                Some(RegionKind::Level) => RegionKind::Premise,
                _ => RegionKind::Level,
            };
            BoardError::WrongRegionKind { region, found }
        }
        (404, "unset_premise") => BoardError::UnsetPremise { premise: region },
        (404, "unknown_notification") => {
            BoardError::UnknownNotification { agent: asked.agent.to_owned(), id: asked.notification }
        }
        (409, "idempotency_key_reused") => {
            // Only the text says which region the key named first.
            let first = told.detail.split('\'').nth(3).unwrap_or_default().to_owned();
            BoardError::KeyReused { key: asked.key.to_owned(), first, now: region }
        }
        _ => BoardError::Protocol { problem: format!("status {status}, {}: {}", told.error, told.detail) },
    }
}
