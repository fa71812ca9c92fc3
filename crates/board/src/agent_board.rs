//! A board as one agent sees it: what an agent is written against.

use crate::error::Result;
use crate::model::{Bounds, Change, Contribution, Page, PremiseState, Region};
use crate::name::BoardId;
use crate::request::{SetRequest, WriteRequest, WriteResult};
use async_trait::async_trait;

/// The seven operations of a board, under one agent's name. In this process a control component gives it, across HTTP the
/// client: an agent that is written against this runs on both.
#[async_trait]
pub trait AgentBoard: Send + Sync {
    /// The board.
    fn board_id(&self) -> &BoardId;

    /// Under whose name it writes and acknowledges.
    fn agent(&self) -> &str;

    /// The regions, ordered by name. Their batch windows are not told.
    ///
    /// # Errors
    /// [`BoardError::UnknownBoard`](crate::BoardError::UnknownBoard), or that the board cannot be reached.
    async fn read_regions(&self) -> Result<Vec<Region>>;

    /// A page of a level.
    ///
    /// # Errors
    /// [`BoardError::UnknownRegion`](crate::BoardError::UnknownRegion) and
    /// [`BoardError::WrongRegionKind`](crate::BoardError::WrongRegionKind); as [`AgentBoard::read_regions`].
    async fn read_level(&self, level: &str, bounds: Bounds) -> Result<Page<Contribution>>;

    /// What a premise holds.
    ///
    /// # Errors
    /// [`BoardError::UnsetPremise`](crate::BoardError::UnsetPremise) before its first value; as
    /// [`AgentBoard::read_level`].
    async fn read_premise(&self, premise: &str) -> Result<PremiseState>;

    /// A page of everything that was written to any region.
    ///
    /// # Errors
    /// As [`AgentBoard::read_regions`].
    async fn read_board(&self, bounds: Bounds) -> Result<Page<Change>>;

    /// Proposes a contribution to a level.
    ///
    /// # Errors
    /// [`BoardError::KeyReused`](crate::BoardError::KeyReused) where the key named another region; as
    /// [`AgentBoard::read_level`]. A refusal is no error.
    async fn write(&self, request: WriteRequest) -> Result<WriteResult>;

    /// Proposes a value for a premise, if that is still at the expected version.
    ///
    /// # Errors
    /// As [`AgentBoard::write`]. A conflict is no error.
    async fn set_premise(&self, request: SetRequest) -> Result<WriteResult>;

    /// Says that the agent has finished with a notification, and with all that ended at or before its end.
    ///
    /// # Errors
    /// [`BoardError::UnknownNotification`](crate::BoardError::UnknownNotification) where the agent was never told that
    /// far; as [`AgentBoard::read_regions`].
    async fn ack(&self, notification_id: u64) -> Result<()>;
}
