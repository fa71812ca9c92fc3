//! Whether a journal is whole: its chain, its numbers, and that everything that started has exactly one end.

use crate::error::Result;
use crate::journal::{RECORD_FORMAT, sealed};
use crate::layout;
use crate::runs::{self, LastRecord, Lines, RunEntry};
use placet_core::event::{EventBody, RunEnd};
use placet_core::record::{Chain, Record};
use placet_core::{ApprovalId, CallId, RunId};
use placet_store::{LogName, Store, StoreError, Tenant};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::fmt;

const PAGE: usize = 500;

/// What was found in the journal of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verification {
    /// The run, as its journal is named.
    pub run: String,
    /// How many records were read.
    pub records: u64,
    /// The last record; absent where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<LastRecord>,
    /// Whether it has ended. One that has not may have calls without an answer.
    pub ended: bool,
    /// What is wrong, in the order of the records.
    pub problems: Vec<AuditProblem>,
}

impl Verification {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }
}

/// Something that is wrong with a journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditProblem {
    /// The number of the record; 0 where it is about the journal as a whole.
    pub number: u64,
    /// What is wrong.
    pub problem: String,
}

impl fmt::Display for AuditProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number {
            0 => f.write_str(&self.problem),
            number => write!(f, "record {number}: {}", self.problem),
        }
    }
}

/// Verifies the journal of one run, and that it ends where the list of runs remembers.
///
/// # Errors
/// [`ObserveError::Store`](crate::ObserveError::Store) where the store fails. What is wrong with the journal is a result,
/// not an error; a run without a journal has the problem that it has none.
pub async fn verify(store: &dyn Store, tenant: &Tenant, run: &RunId) -> Result<Verification> {
    let log = layout::journal(tenant, run);
    let first = match store.log(&log, 0, 1).await {
        // It is told below which record it is.
        Err(StoreError::Corrupt { .. }) => Vec::new(),
        first => first?,
    };
    let started = first.first().and_then(|entry| Some(sealed(run, entry).ok()?.open().ok()?.at));
    // Read before the journal: a run that ends in between is then not taken for one that lost its end.
    let line = runs::line_of(store, tenant, run, started).await?;
    let mut verification = verify_log(store, &log, run.as_str()).await?;
    match line {
        Some(line) => verification.compare(&line.entry),
        None if verification.records > 0 || verification.problems.iter().any(|problem| problem.number > 0) => {
            verification.report(0, "the list of runs has no line of it that can be read".to_owned());
        }
        None => {}
    }
    Ok(verification)
}

/// Verifies every journal of a tenant, and that no run of the list lost its journal or the tail of it.
///
/// # Errors
/// [`ObserveError`](crate::ObserveError) where the store fails. A line of the list that cannot be read is a
/// problem of its run.
pub async fn verify_all(store: &dyn Store, tenant: &Tenant) -> Result<Vec<Verification>> {
    let mut found = Vec::new();
    let prefix = layout::journals(tenant);
    let mut beyond: Option<LogName> = None;
    loop {
        let logs = match store.logs(&prefix, beyond.as_ref(), PAGE).await {
            Err(StoreError::Corrupt { what }) => {
                found.push(Verification::of_the_store(format!("the journals there are cannot all be told: {what}")));
                break;
            }
            logs => logs?,
        };
        for (log, _) in &logs {
            let run = match log.key().parts()?.pop() {
                Some(placet_store::KeyPart::Text(run)) => run,
                _ => log.to_string(),
            };
            found.push(verify_log(store, log, &run).await?);
        }
        if logs.len() < PAGE {
            break;
        }
        beyond = logs.into_iter().next_back().map(|(log, _)| log);
    }
    compare_with_list(store, tenant, &mut found).await?;
    Ok(found)
}

/// The chain shows every change but one: records cut off at the end. The list of runs remembers the last record.
async fn compare_with_list(store: &dyn Store, tenant: &Tenant, found: &mut Vec<Verification>) -> Result<()> {
    let places: HashMap<String, usize> =
        found.iter().enumerate().map(|(place, one)| (one.run.clone(), place)).collect();
    let journals = found.len();
    let mut listed = HashSet::new();
    let mut lines = Lines::new(store, tenant);
    while let Some(page) = lines.next().await? {
        for line in &page {
            listed.extend(line.run.clone());
            let known = line.run.as_ref().and_then(|run| found.get_mut(*places.get(run)?));
            let Some(run) = line.run.as_deref().and_then(|run| RunId::parse(run).ok()) else {
                let problem = format!("the list of runs has a line with the key {}, which names no run", line.key);
                found.push(Verification::of_the_store(problem));
                continue;
            };
            match known {
                Some(verification) if verification.agrees(&line.entry) => {}
                // The run may have ended, or begun, since its journal was read.
                Some(verification) => *verification = verify(store, tenant, &run).await?,
                None => found.push(verify(store, tenant, &run).await?),
            }
        }
    }
    if let Some(problem) = lines.problem {
        found.push(Verification::of_the_store(format!("a line of the list of runs cannot be read: {problem}")));
    }
    let mut gone = Vec::new();
    for (place, verification) in found.iter_mut().enumerate().take(journals) {
        if !listed.contains(&verification.run)
            && let Ok(run) = RunId::parse(&verification.run)
        {
            *verification = verify(store, tenant, &run).await?;
            // It was deleted since its journal was read.
            if verification.records == 0 && verification.problems.iter().all(|problem| problem.number == 0) {
                gone.push(place);
            }
        }
    }
    for place in gone.into_iter().rev() {
        found.remove(place);
    }
    Ok(())
}

async fn verify_log(store: &dyn Store, log: &LogName, run: &str) -> Result<Verification> {
    let mut audit = Audit::new(run);
    let mut step = PAGE;
    loop {
        let page = match store.log(log, audit.read, step).await {
            // One by one up to the record that the store cannot give.
            Err(StoreError::Corrupt { .. }) if step > 1 => {
                step = 1;
                continue;
            }
            Err(StoreError::Corrupt { what }) => {
                audit.verification.report(audit.read + 1, format!("it cannot be read: {what}"));
                return Ok(audit.verification);
            }
            page => page?,
        };
        for entry in &page {
            audit.read = entry.number;
            if entry.value.format > RECORD_FORMAT {
                let problem = format!("it has format {}, which a newer program wrote", entry.value.format);
                audit.verification.report(entry.number, problem);
                return Ok(audit.verification);
            }
            let record = match RunId::parse(run) {
                Ok(run) => sealed(&run, entry).map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            };
            let checked = record.and_then(|sealed| {
                let record = audit.chain.check(&sealed).map_err(|error| error.to_string())?;
                audit.verification.last = Some(LastRecord { number: record.number, hash: sealed.hash });
                Ok(record)
            });
            match checked {
                Ok(record) => audit.take(&record),
                Err(problem) => {
                    // Whatever follows a broken link cannot be told from what was put in.
                    audit.verification.report(entry.number, problem);
                    return Ok(audit.verification);
                }
            }
        }
        if page.len() < step {
            return Ok(audit.close());
        }
    }
}

impl Verification {
    fn empty(run: &str) -> Self {
        Verification { run: run.to_owned(), records: 0, last: None, ended: false, problems: Vec::new() }
    }

    /// Of no run that could be named.
    fn of_the_store(problem: String) -> Self {
        let mut unknown = Verification::empty("unknown run");
        unknown.report(0, problem);
        unknown
    }

    /// Whether the run's line in the list can be read and fits what was found.
    fn agrees(&self, entry: &Result<RunEntry, StoreError>) -> bool {
        entry.as_ref().is_ok_and(|entry| self.records > 0 && (entry.last.is_none() || entry.last == self.last))
    }

    fn compare(&mut self, entry: &Result<RunEntry, StoreError>) {
        match entry {
            _ if self.agrees(entry) => {}
            Err(error) => self.report(0, format!("its line in the list of runs cannot be read: {error}")),
            Ok(_) if self.last.is_none() && self.problems.iter().all(|problem| problem.number == 0) => {
                self.report(0, "the list of runs names it, but it has no records".to_owned());
            }
            Ok(entry) if entry.last.is_some() && entry.last != self.last => {
                let problem = "its last record is not the one that the list of runs remembers: records are missing at the end, or were changed";
                self.report(0, problem.to_owned());
            }
            Ok(_) => {}
        }
    }

    fn report(&mut self, number: u64, problem: String) {
        self.problems.push(AuditProblem { number, problem });
    }
}

/// The rules of starts and ends, record by record.
struct Audit {
    verification: Verification,
    chain: Chain,
    /// The number of the last entry that was read.
    read: u64,
    started: bool,
    /// Calls that finished turns ask for.
    asked: HashSet<CallId>,
    requested: HashSet<CallId>,
    answered: HashSet<CallId>,
    questions: HashSet<ApprovalId>,
    decided: HashSet<ApprovalId>,
    turns: u32,
    handed_back: bool,
}

impl Audit {
    fn new(run: &str) -> Self {
        Audit {
            verification: Verification::empty(run),
            chain: Chain::new(),
            read: 0,
            started: false,
            asked: HashSet::new(),
            requested: HashSet::new(),
            answered: HashSet::new(),
            questions: HashSet::new(),
            decided: HashSet::new(),
            turns: 0,
            handed_back: false,
        }
    }

    fn take(&mut self, record: &Record) {
        let number = record.number;
        self.verification.records += 1;
        if record.run.as_str() != self.verification.run {
            self.report(number, format!("it belongs to {}", record.run));
        }
        if self.verification.ended {
            self.report(number, format!("{} comes after the end of the run", record.event.kind()));
        }
        if !self.started && !matches!(record.event, EventBody::RunStarted(_)) {
            self.report(number, format!("{} comes before the start of the run", record.event.kind()));
        }
        match &record.event {
            EventBody::RunStarted(_) => {
                let first = !std::mem::replace(&mut self.started, true);
                self.require(first, number, || "the run starts a second time".to_owned());
            }
            EventBody::TurnCompleted(completed) => {
                self.turns += 1;
                if completed.number != self.turns {
                    self.report(number, format!("expected turn {} and found turn {}", self.turns, completed.number));
                }
                for call in completed.turn.calls() {
                    if !self.asked.insert(call.id.clone()) {
                        self.report(number, format!("{} is asked for a second time", call.id));
                    }
                }
            }
            EventBody::CallRequested(requested) => {
                let call = &requested.call.id;
                let asked = self.asked.contains(call);
                self.require(asked, number, || format!("no turn asked for {call}"));
                let first = self.requested.insert(call.clone());
                self.require(first, number, || format!("{call} is requested a second time"));
            }
            EventBody::CallCompleted(ended) | EventBody::CallFailed(ended) => {
                let call = &ended.result.call;
                let requested = self.requested.contains(call);
                self.require(requested, number, || format!("{call} has an end and was never requested"));
                let first = self.answered.insert(call.clone());
                self.require(first, number, || format!("{call} has a second end"));
            }
            EventBody::ApprovalRequested(asked) => {
                let first = self.questions.insert(asked.approval.clone());
                self.require(first, number, || format!("{} is asked a second time", asked.approval));
            }
            EventBody::ApprovalApproved(decided) | EventBody::ApprovalDenied(decided) => {
                let asked = self.questions.contains(&decided.approval);
                self.require(asked, number, || format!("{} is decided and was never asked", decided.approval));
                let first = self.decided.insert(decided.approval.clone());
                self.require(first, number, || format!("{} is decided a second time", decided.approval));
            }
            EventBody::RunCompleted(completed) => {
                self.verification.ended = true;
                self.handed_back = completed.end == RunEnd::HandedBack;
            }
            EventBody::RunFailed(_) => self.verification.ended = true,
            _ => {}
        }
    }

    fn report(&mut self, number: u64, problem: String) {
        self.verification.report(number, problem);
    }

    fn require(&mut self, holds: bool, number: u64, problem: impl FnOnce() -> String) {
        if !holds {
            self.report(number, problem());
        }
    }

    fn close(mut self) -> Verification {
        if self.verification.records == 0 {
            self.report(0, "it has no records".to_owned());
        }
        if self.verification.ended {
            let open = |calls: &HashSet<CallId>, answered: &HashSet<CallId>| {
                let mut open: Vec<String> = calls.difference(answered).map(ToString::to_string).collect();
                open.sort();
                open
            };
            for call in open(&self.requested, &self.answered) {
                self.report(0, format!("{call} was requested and has no end, though the run has ended"));
            }
            // A round that is handed back is answered by whoever declared its tools.
            if !self.handed_back {
                for call in open(&self.asked, &self.requested) {
                    self.report(0, format!("{call} was asked for and never requested, though the run has ended"));
                }
            }
        }
        self.verification
    }
}
