//! Agents as they are declared, and how they are told that something changed.

use crate::name::BoardId;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// Tells an agent that something changed: a range of the board and the regions in it. It carries no values; the agent reads
/// the board.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notification {
    /// The board.
    pub board_id: BoardId,
    /// What an acknowledgement names: the end of the range.
    pub notification_id: u64,
    /// Who is told.
    pub agent: String,
    /// The first sequence number that the agent has not answered.
    pub from_sequence: u64,
    /// The last sequence number of the board when it was told.
    pub to_sequence: u64,
    /// The regions that it subscribes to and that changed, in order.
    #[serde(default)]
    pub regions: BTreeSet<String>,
}

/// A notification did not arrive. What is owed stays owed, and is sent again later.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{cause}")]
pub struct DeliveryFailure {
    /// What happened.
    pub cause: String,
    /// Whether sending again is of no use until somebody changes something: the other side refused it.
    pub is_refusal: bool,
    /// How long the other side asked to be left alone.
    pub retry_after: Option<Duration>,
}

impl DeliveryFailure {
    /// It did not arrive, and may another time.
    pub fn new(cause: impl Into<String>) -> Self {
        DeliveryFailure { cause: cause.into(), is_refusal: false, retry_after: None }
    }

    /// The other side refused it.
    pub fn refused(cause: impl Into<String>) -> Self {
        DeliveryFailure { cause: cause.into(), is_refusal: true, retry_after: None }
    }

    /// The same, and the other side asked to be left alone for that long.
    #[must_use]
    pub fn after(mut self, wait: Option<Duration>) -> Self {
        self.retry_after = wait;
        self
    }
}

/// Hears notifications in this process.
#[async_trait]
pub trait Listener: Send + Sync {
    /// Takes a notification. It counts as told once this gives `Ok`.
    ///
    /// # Errors
    /// [`DeliveryFailure`]: it is told again later.
    async fn notified(&self, notification: Notification) -> Result<(), DeliveryFailure>;
}

/// A listener that is a function.
pub fn listener<F, Fut>(hear: F) -> Arc<dyn Listener>
where
    F: Fn(Notification) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), DeliveryFailure>> + Send + 'static,
{
    struct Function<F>(F);

    #[async_trait]
    impl<F, Fut> Listener for Function<F>
    where
        F: Fn(Notification) -> Fut + Send + Sync,
        Fut: Future<Output = Result<(), DeliveryFailure>> + Send,
    {
        async fn notified(&self, notification: Notification) -> Result<(), DeliveryFailure> {
            (self.0)(notification).await
        }
    }
    Arc::new(Function(hear))
}

/// Carries notifications to addresses.
#[async_trait]
pub trait Transport: Send + Sync {
    /// Takes a notification to an address. It counts as told once this gives `Ok`.
    ///
    /// # Errors
    /// [`DeliveryFailure`]: it is sent again later.
    async fn reach(&self, address: &str, notification: &Notification) -> Result<(), DeliveryFailure>;

    /// Says of an address what can be said against it before anything is sent there. An agent with such an address is not
    /// registered.
    ///
    /// # Errors
    /// Why nothing will ever arrive there.
    fn check(&self, address: &str) -> Result<(), String> {
        let _ = address;
        Ok(())
    }
}

/// An agent as it is declared: who it is, what wakes it, what it may write, and how it is reached.
///
/// Everything but the listener stands on the record, where every process reads it. An agent needs at least one of a
/// listener, an address, and the wish to pull.
#[derive(Clone)]
#[non_exhaustive]
pub struct Agent {
    /// Its name.
    pub name: String,
    /// The regions of either kind whose changes wake it, and no others; every premise and no level where it is not said.
    pub subscribes_to: Option<BTreeSet<String>>,
    /// The levels that it may write to; every level where it is not said.
    pub writes_to: Option<BTreeSet<String>>,
    /// The premises that it may set; every premise where it is not said.
    pub sets: Option<BTreeSet<String>>,
    /// Where it is reached from any process.
    pub address: Option<String>,
    /// Whether it asks for its notifications by itself.
    pub pulls: bool,
    /// How it is reached in this process.
    pub listener: Option<Arc<dyn Listener>>,
}

impl Agent {
    /// An agent of that name, which is reached in no way yet.
    pub fn new(name: impl Into<String>) -> Self {
        Agent {
            name: name.into(),
            subscribes_to: None,
            writes_to: None,
            sets: None,
            address: None,
            pulls: false,
            listener: None,
        }
    }

    /// Is woken by exactly these regions.
    #[must_use]
    pub fn subscribes_to<N: Into<String>>(mut self, regions: impl IntoIterator<Item = N>) -> Self {
        self.subscribes_to = Some(regions.into_iter().map(Into::into).collect());
        self
    }

    /// May write to these levels only.
    #[must_use]
    pub fn writes_to<N: Into<String>>(mut self, levels: impl IntoIterator<Item = N>) -> Self {
        self.writes_to = Some(levels.into_iter().map(Into::into).collect());
        self
    }

    /// May set these premises only.
    #[must_use]
    pub fn sets<N: Into<String>>(mut self, premises: impl IntoIterator<Item = N>) -> Self {
        self.sets = Some(premises.into_iter().map(Into::into).collect());
        self
    }

    /// Is reached at that address.
    #[must_use]
    pub fn address(mut self, address: impl Into<String>) -> Self {
        self.address = Some(address.into());
        self
    }

    /// Asks for its notifications by itself.
    #[must_use]
    pub fn pulls(mut self) -> Self {
        self.pulls = true;
        self
    }

    /// Is told in this process.
    #[must_use]
    pub fn listener(mut self, listener: Arc<dyn Listener>) -> Self {
        self.listener = Some(listener);
        self
    }

    /// Is told in this process, by a function.
    #[must_use]
    pub fn on_notified<F, Fut>(self, hear: F) -> Self
    where
        F: Fn(Notification) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), DeliveryFailure>> + Send + 'static,
    {
        self.listener(listener(hear))
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent")
            .field("name", &self.name)
            .field("subscribes_to", &self.subscribes_to)
            .field("writes_to", &self.writes_to)
            .field("sets", &self.sets)
            .field("address", &self.address)
            .field("pulls", &self.pulls)
            .field("listener", &self.listener.is_some())
            .finish()
    }
}
