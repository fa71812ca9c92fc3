//! The control component: everything that changes a board passes it.

pub(crate) mod agents;
pub(crate) mod pull;
pub(crate) mod run;
mod spec;
pub(crate) mod write;

use crate::agent_board::AgentBoard;
use crate::boards::Handle;
use crate::decision::DecisionRecord;
use crate::error::Result;
use crate::model::{Bounds, Change, Contribution, Page, PremiseState, Region};
use crate::name::BoardId;
use crate::reader::Reader;
use crate::request::{SetRequest, WriteRequest, WriteResult};
use async_trait::async_trait;
use std::fmt;
use std::sync::Arc;

pub use agents::AgentProgress;
pub use spec::BoardSpec;

/// The control component of one board. A handle: cheap to clone, made anywhere at any time, and nothing happens by making or
/// dropping one. What it says holds in every process at once, because it is decided where it is stored.
#[derive(Clone)]
pub struct Control(pub(crate) Handle);

impl Control {
    pub(crate) fn new(handle: Handle) -> Self {
        Control(handle)
    }

    /// The board.
    #[must_use]
    pub fn board_id(&self) -> &BoardId {
        &self.0.state.id
    }

    /// Whose board it is.
    #[must_use]
    pub fn tenant(&self) -> &placet_store::Tenant {
        &self.0.state.tenant
    }

    /// The board, to be read.
    #[must_use]
    pub fn reader(&self) -> Reader {
        Reader::new(self.0.clone())
    }

    /// The board as that agent sees it. The agent need not be registered: that decides what wakes it, this under which name it
    /// writes.
    pub fn as_agent(&self, name: impl Into<String>) -> Arc<dyn AgentBoard> {
        Arc::new(Bound { control: self.clone(), reader: self.reader(), agent: name.into() })
    }

    /// What was decided, after the decision of that number: [`Reader::decisions`].
    ///
    /// # Errors
    /// What the store says.
    pub async fn decisions(&self, after: u64, limit: usize) -> Result<Vec<DecisionRecord>> {
        self.reader().decisions(after, limit).await
    }

    pub(crate) fn is_of(&self, handle: &Handle) -> bool {
        self.0.state.tenant == handle.state.tenant && self.0.state.id == handle.state.id
    }
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Control").field(self.board_id()).finish()
    }
}

/// A board under one agent's name.
struct Bound {
    control: Control,
    reader: Reader,
    agent: String,
}

#[async_trait]
impl AgentBoard for Bound {
    fn board_id(&self) -> &BoardId {
        self.control.board_id()
    }

    fn agent(&self) -> &str {
        &self.agent
    }

    async fn read_regions(&self) -> Result<Vec<Region>> {
        self.reader.read_regions().await
    }

    async fn read_level(&self, level: &str, bounds: Bounds) -> Result<Page<Contribution>> {
        self.reader.read_level(level, bounds).await
    }

    async fn read_premise(&self, premise: &str) -> Result<PremiseState> {
        self.reader.read_premise(premise).await
    }

    async fn read_board(&self, bounds: Bounds) -> Result<Page<Change>> {
        self.reader.read_board(bounds).await
    }

    async fn write(&self, request: WriteRequest) -> Result<WriteResult> {
        self.control.write(&self.agent, &request).await
    }

    async fn set_premise(&self, request: SetRequest) -> Result<WriteResult> {
        self.control.set_premise(&self.agent, &request).await
    }

    async fn ack(&self, notification_id: u64) -> Result<()> {
        self.control.ack(&self.agent, notification_id).await
    }
}
