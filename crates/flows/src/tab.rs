//! What the models that were asked for an exchange came to.

use async_trait::async_trait;
use placet_core::event::RetryStarted;
use placet_core::{Money, ProviderError, ProviderId, TurnRequest, Usage};
use placet_models::{AskContext, AskObserver, Asking, SharedProvider, Through, TurnStream, Used};
use std::sync::{Arc, Mutex, PoisonError};
use tokio_util::sync::{CancellationToken, DropGuard};

/// What the models that were asked for an exchange came to, as far as what they were asked through keeps account. Cheap to
/// clone; it does not keep the exchange going.
#[derive(Clone, Debug, Default)]
pub struct Tab(Arc<Mutex<Bill>>, CancellationToken);

/// The state of a [`Tab`].
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Bill {
    /// The provider that began to answer last, and its model.
    pub answered: Option<(ProviderId, String)>,
    /// The provider that was asked last, whether or not it answered, and its model.
    pub asked: Option<(ProviderId, String)>,
    /// How many answers have come to an end.
    pub answers: u32,
    /// What they used, as far as their providers said.
    pub usage: Usage,
    /// What they cost in US dollars; absent where that is not known of each of them.
    pub cost: Option<Money>,
}

impl Tab {
    /// How it stands now.
    #[must_use]
    pub fn bill(&self) -> Bill {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until nothing more can be put on it: the exchange is over, and everything that went on for it.
    pub async fn settled(&self) {
        self.1.cancelled().await;
    }

    /// What settles it, once that is dropped.
    pub(crate) fn settling(&self) -> DropGuard {
        self.1.clone().drop_guard()
    }

    pub(crate) fn answering(&self, provider: &ProviderId, model: &str) {
        let mut bill = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        bill.answered = Some((provider.clone(), model.to_owned()));
        bill.asked = Some((provider.clone(), model.to_owned()));
    }

    pub(crate) fn used(&self, used: &Used) {
        let mut bill = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        bill.asked = Some((used.provider.clone(), used.model.clone()));
        bill.cost = match bill.answers {
            0 => used.cost,
            _ => bill.cost.zip(used.cost).map(|(sum, cost)| sum + cost),
        };
        bill.answers = bill.answers.saturating_add(1);
        bill.usage += used.usage.unwrap_or_default();
    }

    /// The provider, whose answers are put on this tab.
    pub(crate) fn noting(&self, provider: &SharedProvider) -> SharedProvider {
        Arc::new(Through::new(provider.clone(), Noting(self.clone())))
    }
}

/// Puts the answers of a provider on a tab.
#[derive(Debug)]
struct Noting(Tab);

/// Hears for a tab what somebody else hears too.
struct Hearing {
    tab: Tab,
    other: Option<Arc<dyn AskObserver>>,
}

impl AskObserver for Hearing {
    fn retrying(&self, retry: &RetryStarted) {
        self.other.iter().for_each(|other| other.retrying(retry));
    }

    fn omitted(&self, what: &str) {
        self.other.iter().for_each(|other| other.omitted(what));
    }

    fn answering(&self, provider: &ProviderId, model: &str) {
        self.tab.answering(provider, model);
        self.other.iter().for_each(|other| other.answering(provider, model));
    }

    fn used(&self, used: &Used) {
        self.tab.used(used);
        self.other.iter().for_each(|other| other.used(used));
    }
}

#[async_trait]
impl Asking for Noting {
    async fn ask(
        &self,
        provider: &SharedProvider,
        request: Arc<TurnRequest>,
        mut context: AskContext,
    ) -> Result<TurnStream, ProviderError> {
        context.observer = Some(Arc::new(Hearing { tab: self.0.clone(), other: context.observer.take() }));
        provider.ask(request, context).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bill_names_a_cost_only_where_every_cost_is_known() {
        let tab = Tab::default();
        assert_eq!(tab.bill().cost, None);
        let used = |input, cost: Option<&str>| Used {
            provider: ProviderId::new("p"),
            model: "m".into(),
            usage: Some(Usage { input, ..Usage::default() }),
            cost: cost.and_then(|cost| Money::parse(cost).ok()),
        };
        tab.used(&used(1, Some("0.5")));
        tab.used(&used(2, Some("0.25")));
        assert_eq!((tab.bill().cost, tab.bill().usage.input), (Money::parse("0.75").ok(), 3));
        tab.used(&used(4, None));
        tab.used(&used(4, Some("1")));
        assert_eq!((tab.bill().cost, tab.bill().answers), (None, 4));
    }
}
