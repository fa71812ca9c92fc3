//! What a board holds, and how it is read.

use crate::content::Content;
use placet_core::Timestamp;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How many entries a page has where the reader says nothing.
pub const DEFAULT_PAGE: usize = 100;

/// The most entries of one page, whatever the reader asks for.
pub const MAX_PAGE: usize = 1000;

/// Which of the two kinds a region is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RegionKind {
    /// Accumulates contributions in the order of their arrival.
    Level,
    /// Holds one value under a version.
    Premise,
}

impl RegionKind {
    /// The word that the wire has for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            RegionKind::Level => "level",
            RegionKind::Premise => "premise",
        }
    }
}

impl fmt::Display for RegionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A region of a board.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// Its name, unique on its board across both kinds.
    pub name: Arc<str>,
    /// Its kind.
    pub kind: RegionKind,
    /// How long after its first change its subscribers are told, all changes until then at once. Zero tells them at once.
    pub window: Duration,
}

impl Region {
    /// A level.
    pub fn level(name: impl Into<Arc<str>>) -> Self {
        Region { name: name.into(), kind: RegionKind::Level, window: Duration::ZERO }
    }

    /// A premise.
    pub fn premise(name: impl Into<Arc<str>>) -> Self {
        Region { name: name.into(), kind: RegionKind::Premise, window: Duration::ZERO }
    }

    /// Sets the batch window.
    #[must_use]
    pub fn window(mut self, window: Duration) -> Self {
        self.window = window;
        self
    }
}

/// What was written to a level, at its place. Serialised as it travels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contribution {
    /// Its place in the order of everything that was written to the board, from 1.
    pub sequence: u64,
    /// What was written.
    pub content: Content,
    /// Who wrote it.
    #[serde(default)]
    pub writer: Option<Arc<str>>,
    /// When, on the store's clock.
    #[serde(default, with = "crate::wire::instant")]
    pub written_at: Option<Timestamp>,
}

/// A write to any region, at its place. Serialised as it travels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Its place in the order of everything that was written to the board, from 1.
    pub sequence: u64,
    /// Which region.
    pub region: Arc<str>,
    /// The region's kind, where it is known: the wire does not carry it.
    #[serde(skip)]
    pub kind: Option<RegionKind>,
    /// The version that it gave a premise, where it is known: the wire does not carry it.
    #[serde(skip)]
    pub version: Option<u64>,
    /// What was written.
    pub content: Content,
    /// Who wrote it; nobody for an opening value.
    #[serde(default)]
    pub writer: Option<Arc<str>>,
    /// When, on the store's clock.
    #[serde(default, with = "crate::wire::instant")]
    pub written_at: Option<Timestamp>,
}

/// What a premise holds. Serialised as it travels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PremiseState {
    /// How often it was set.
    pub version: u64,
    /// The value. `null` is one.
    pub value: Content,
    /// Who set it last; nobody for an opening value.
    #[serde(default)]
    pub writer: Option<Arc<str>>,
    /// When, on the store's clock.
    #[serde(default, with = "crate::wire::instant")]
    pub written_at: Option<Timestamp>,
}

/// Which part of a region or of a board is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// The first sequence number that may be given. A reader goes on from one more than the last it was given.
    pub from_sequence: u64,
    /// How many entries at most: [`DEFAULT_PAGE`] where it is not said, at most [`MAX_PAGE`], and 0 is nothing.
    pub limit: Option<usize>,
}

impl Bounds {
    /// From that sequence number on, a page.
    #[must_use]
    pub fn from(from_sequence: u64) -> Self {
        Bounds { from_sequence, limit: None }
    }

    /// At most that many.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = Some(limit);
        self
    }

    /// How many entries a page has.
    #[must_use]
    pub fn page(&self) -> usize {
        self.limit.unwrap_or(DEFAULT_PAGE).min(MAX_PAGE)
    }
}

/// A part of something ordered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// The entries, in order.
    pub items: Vec<T>,
    /// Whether there is more after them.
    pub has_more: bool,
}
