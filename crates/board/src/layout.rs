//! Where a board stands in the store.
//!
//! | under | what | who changes it |
//! |---|---|---|
//! | tenant, `boards`, board, `run` | the wall deadline, whether the run is open, how it ended | opening, closing, deleting |
//! | …, `mark` | nothing: its version counts the changes of the roster | with the roster |
//! | …, `roster` | regions, agents, rules | declarations, registrations |
//! | tenant, `board`, board, `idle` | the idle deadline | everything that happens |
//! | …, `level`, level, number | that this number is in the level | writes |
//! | …, `premise`, premise | value, number, writer; its version is the premise's | writes |
//! | …, `key`, key | what the key wrote | writes |
//! | …, `agent`, agent | how far it was told and has answered | dispatches, acknowledgements |
//! | …, `agent`, agent, `sent` | through which number it was told for sure | deliveries, registrations |
//! | log tenant, `board`, board | every write, its number being the sequence number | writes |
//! | log …, `decisions` | what was decided | everything |
//! | across tenants, `board`, `owed`, tenant, board, number | who is owed a word of this number, from when on | writes; settled once all are told |
//! | …, agent | that the agent is owed a word of much at once, through which number | registrations; merging of old rows; settled once told |
//!
//! A board that was deleted leaves its `run` cell behind, so that its version is never met again.

use crate::name::BoardId;
use placet_store::{Key, KeyPart, LogName, Tenant};
use sha2::{Digest as _, Sha256};

/// Keys longer than this stand under their hash.
const LITERAL_KEY: usize = 200;

/// The keys of one board, encoded once.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) conf: Key,
    pub(crate) run: Key,
    pub(crate) mark: Key,
    pub(crate) roster: Key,
    pub(crate) data: Key,
    pub(crate) idle: Key,
    pub(crate) log: LogName,
    pub(crate) decisions: LogName,
    pub(crate) owed: Key,
    levels: Key,
    premises: Key,
    keys: Key,
    pub(crate) agents: Key,
}

/// All boards of a tenant.
pub(crate) fn boards(tenant: &Tenant) -> Key {
    Key::new(tenant).text("boards")
}

/// Everything that is owed to anybody.
pub(crate) fn all_owed() -> Key {
    Key::new(&Tenant::ACROSS).text("board").text("owed")
}

impl Layout {
    pub(crate) fn new(tenant: &Tenant, board: &BoardId) -> Self {
        let conf = boards(tenant).text(board.as_str());
        let data = Key::new(tenant).text("board").text(board.as_str());
        Layout {
            run: conf.clone().text("run"),
            mark: conf.clone().text("mark"),
            roster: conf.clone().text("roster"),
            conf,
            idle: data.clone().text("idle"),
            log: data.clone().into(),
            decisions: data.clone().text("decisions").into(),
            owed: all_owed().text(tenant.name().unwrap_or_default()).text(board.as_str()),
            levels: data.clone().text("level"),
            premises: data.clone().text("premise"),
            keys: data.clone().text("key"),
            agents: data.clone().text("agent"),
            data,
        }
    }

    /// The index of a level.
    pub(crate) fn level(&self, level: &str) -> Key {
        self.levels.clone().text(level)
    }

    pub(crate) fn premise(&self, premise: &str) -> Key {
        self.premises.clone().text(premise)
    }

    /// The record of an idempotency key.
    pub(crate) fn key(&self, key: &str) -> Key {
        if key.len() <= LITERAL_KEY && !key.contains('\0') {
            self.keys.clone().text(key)
        } else {
            self.keys.clone().bytes(Sha256::digest(key.as_bytes()))
        }
    }

    /// How far an agent is.
    pub(crate) fn agent(&self, agent: &str) -> Key {
        self.agents.clone().text(agent)
    }

    /// Through which number an agent was told for sure.
    pub(crate) fn sent(&self, agent: &str) -> Key {
        self.agent(agent).text("sent")
    }

    /// That an agent is owed a word of much at once: since it was registered, or since so much was owed that it was merged.
    pub(crate) fn merged(&self, agent: &str) -> Key {
        self.owed.clone().text(agent)
    }
}

/// The board of a key that begins with a board's configuration, with its tenant.
pub(crate) fn board_of(key: &Key) -> Option<(Tenant, BoardId)> {
    match key.parts().ok()?.get(1)? {
        KeyPart::Text(name) => Some((key.tenant().ok()?, BoardId::new(name).ok()?)),
        _ => None,
    }
}

/// What a row of the owed belongs to: tenant and board; with the agent, where it is that of a registration.
pub(crate) fn owed_row(key: &Key) -> Option<(Tenant, BoardId, Option<String>)> {
    let mut parts = key.parts().ok()?.into_iter().skip(2);
    match (parts.next()?, parts.next()?, parts.next()?) {
        (KeyPart::Text(tenant), KeyPart::Text(board), last) => {
            let agent = match last {
                KeyPart::Text(agent) => Some(agent),
                _ => None,
            };
            Some((Tenant::new(tenant), BoardId::new(board).ok()?, agent))
        }
        _ => None,
    }
}

/// The number that an index entry, or the row of a write, ends with.
pub(crate) fn last_number(key: &Key) -> Option<u64> {
    // A whole number is the last eight bytes of its key.
    key.as_bytes().last_chunk::<8>().map(|bytes| u64::from_be_bytes(*bytes))
}
