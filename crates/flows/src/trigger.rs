//! Triggers: steps after which a flow goes on later.

use placet_core::Timestamp;
use placet_runtime::schedule::{Cron, InvalidCron};
use std::fmt;
use std::time::Duration;

/// What sets the rest of a flow off. What is wrong with one is told when its flow is served.
#[derive(Clone, Debug, PartialEq)]
pub struct Trigger(pub(crate) TriggerKind, pub(crate) Option<String>);

/// The header that tells calls of a webhook apart, unless it is said otherwise.
const KEY_HEADER: &str = "idempotency-key";

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
        Trigger(TriggerKind::Startup, None)
    }

    /// Again and again, by a cron expression in a time zone.
    #[must_use]
    pub fn every(expression: &str, zone: &str) -> Self {
        Trigger(TriggerKind::Every(Cron::parse(expression, zone)), None)
    }

    /// Once, at an instant.
    #[must_use]
    pub fn once(at: Timestamp) -> Self {
        Trigger(TriggerKind::At(at), None)
    }

    /// Once, so long after the exchange has come to it.
    #[must_use]
    pub fn after(span: Duration) -> Self {
        Trigger(TriggerKind::After(span), None)
    }

    /// When somebody calls the webhook of that id.
    pub fn webhook(id: impl Into<String>) -> Self {
        Trigger(TriggerKind::Webhook(id.into()), None)
    }

    /// The header by which calls of a webhook are told apart: of several with the same value, one is done. It is
    /// `idempotency-key` unless it is said otherwise; services have their own, such as `x-github-delivery`.
    #[must_use]
    pub fn keyed_by(mut self, header: impl Into<String>) -> Self {
        self.1 = Some(header.into().to_ascii_lowercase());
        self
    }

    /// The header by which calls of a webhook are told apart.
    #[must_use]
    pub fn key_header(&self) -> &str {
        self.1.as_deref().unwrap_or(KEY_HEADER)
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
