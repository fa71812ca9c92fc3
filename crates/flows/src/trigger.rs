//! Triggers: steps after which a flow goes on later.

use placet_core::Timestamp;
use placet_runtime::schedule::{Cron, InvalidCron};
use std::fmt;
use std::time::Duration;

/// What sets the rest of a flow off. What is wrong with one is told when its flow is served.
#[derive(Clone, Debug, PartialEq)]
pub struct Trigger(pub(crate) TriggerKind);

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TriggerKind {
    Startup,
    Every(Result<Cron, InvalidCron>),
    At(Timestamp),
    After(Duration),
    Webhook(String),
}

impl Trigger {
    /// When flows begin to be served.
    #[must_use]
    pub fn startup() -> Self {
        Trigger(TriggerKind::Startup)
    }

    /// Again and again, by a cron expression in a time zone.
    #[must_use]
    pub fn every(expression: &str, zone: &str) -> Self {
        Trigger(TriggerKind::Every(Cron::parse(expression, zone)))
    }

    /// Once, at an instant.
    #[must_use]
    pub fn once(at: Timestamp) -> Self {
        Trigger(TriggerKind::At(at))
    }

    /// Once, so long after the exchange has come to it.
    #[must_use]
    pub fn after(span: Duration) -> Self {
        Trigger(TriggerKind::After(span))
    }

    /// When somebody calls the webhook of that id.
    pub fn webhook(id: impl Into<String>) -> Self {
        Trigger(TriggerKind::Webhook(id.into()))
    }

    /// The id of the webhook that it waits for, if it waits for one.
    #[must_use]
    pub fn webhook_id(&self) -> Option<&str> {
        match &self.0 {
            TriggerKind::Webhook(id) => Some(id),
            _ => None,
        }
    }
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            TriggerKind::Startup => f.write_str("startup"),
            TriggerKind::Every(Ok(cron)) => write!(f, "every {cron}"),
            TriggerKind::Every(Err(error)) => write!(f, "every {}", error.expression),
            TriggerKind::At(at) => write!(f, "once {at}"),
            TriggerKind::After(span) => write!(f, "after {span:?}"),
            TriggerKind::Webhook(id) => write!(f, "webhook {id}"),
        }
    }
}
