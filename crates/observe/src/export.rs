//! Journals as JSON lines, and back.
//!
//! One line a record: `{"hash": …, "record": …}`, where `record` is the exact text that is stored, so that the chain can
//! be checked without a store and by anybody who has SHA-256.

use crate::error::{ObserveError, Result};
use crate::journal::{Journal, KeptRecord};
use placet_core::RunId;
use placet_core::record::{Chain, Digest, Sealed};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

#[derive(Serialize, Deserialize)]
struct Line<'a> {
    hash: Digest,
    #[serde(borrow)]
    record: &'a RawValue,
}

impl Journal {
    /// The lines of its export, without line ends.
    pub fn export(&self) -> impl Iterator<Item = String> + '_ {
        self.records().iter().map(|kept| export_line(&kept.sealed))
    }

    /// Reads an export, and checks its chain.
    ///
    /// # Errors
    /// [`ObserveError::Line`] for the first line that is none, [`ObserveError::Record`] for the first record that does
    /// not fit the chain.
    pub fn import(text: &str) -> Result<Self> {
        let mut chain = Chain::new();
        let mut records: Vec<KeptRecord> = Vec::new();
        for (place, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let problem = |problem: String| ObserveError::Line { line: place + 1, problem };
            let line: Line<'_> = serde_json::from_str(line).map_err(|error| problem(error.to_string()))?;
            let sealed = Sealed { hash: line.hash, text: line.record.get().to_owned() };
            let record = chain.check(&sealed).map_err(|error| problem(error.to_string()))?;
            if records.first().is_some_and(|first| first.record.run != record.run) {
                return Err(problem("it belongs to another run than the lines before it".to_owned()));
            }
            records.push(KeptRecord { record, sealed });
        }
        let run: RunId = match records.first() {
            Some(first) => first.record.run.clone(),
            None => return Err(ObserveError::Line { line: 1, problem: "there are no records".to_owned() }),
        };
        Ok(Journal::of(run, records, chain))
    }
}

/// The text of a record is JSON already, so the line is put together around it.
fn export_line(sealed: &Sealed) -> String {
    let mut line = String::with_capacity(sealed.text.len() + 96);
    line.push_str("{\"hash\":\"");
    line.push_str(&sealed.hash.to_hex());
    line.push_str("\",\"record\":");
    line.push_str(&sealed.text);
    line.push('}');
    line
}
