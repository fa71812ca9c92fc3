//! From the name of a model to who answers for it.

use crate::config::{Config, ErrorClass, ModelEntry, ProviderEntry, Strategy};
use crate::local::LOCAL_PROVIDERS;
use crate::metered::Metered;
use crate::metrics::{Metrics, Series};
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue};
use indexmap::IndexMap;
use placet_core::redact::SecretRegistry;
use placet_core::{Env, Price, Redactor};
use placet_models::{ModelRef, Providers, SharedProvider};
use placet_net::{Client, NetError, Timeouts, Url};
use placet_wire::passing::Speech;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

/// Failures after which a target is left alone for a while.
const FAILURES: u32 = 5;
/// For how long.
const REST: Duration = Duration::from_secs(30);
/// The most conversations that are remembered with their target.
const MOST_PINS: usize = 50_000;
/// The most names that are remembered which no entry has.
const MOST_OPEN: usize = 4096;

/// A server, as the gateway reaches it.
pub(crate) struct Upstream {
    pub(crate) id: Arc<str>,
    pub(crate) base_url: Url,
    pub(crate) speeches: Vec<Speech>,
    /// The addresses of the protocols whose path is always the same.
    urls: [Option<Url>; 4],
    /// What is sent with every request: the configured headers, and the credential as each protocol wants it.
    headers: [HeaderMap; 4],
    pub(crate) timeouts: Timeouts,
    /// Takes the credential out of what the server says.
    pub(crate) redactor: Redactor,
    /// Whether usage may be asked for in streams.
    pub(crate) stream_usage: bool,
    /// Speaks for it where its own protocol is not the client's.
    pub(crate) provider: Option<SharedProvider>,
    pub(crate) models: Vec<String>,
    /// Its host, where it is no vendor's own that everybody knows.
    pub(crate) hidden: Option<String>,
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream").field("id", &self.id).field("base_url", &self.base_url).finish_non_exhaustive()
    }
}

impl Upstream {
    pub(crate) fn new(
        name: &str,
        entry: &ProviderEntry,
        config: &Config,
        providers: &Providers,
    ) -> Result<Self, NetError> {
        let base_url = Url::parse(&entry.base_url)?;
        let mut own = HeaderMap::new();
        let mut secrets = SecretRegistry::new();
        let texts = entry.headers.iter().map(|(header, value)| (header, value.as_str()));
        for (header, value) in texts.chain(entry.secret_headers.iter().map(|(header, value)| (header, value.expose())))
        {
            if let (Ok(header), Ok(mut value)) = (HeaderName::try_from(header.as_str()), HeaderValue::try_from(value)) {
                let is_secret =
                    entry.secret_headers.iter().any(|(secret, _)| header.as_str().eq_ignore_ascii_case(secret));
                value.set_sensitive(is_secret || placet_net::is_sensitive_header(&header));
                own.insert(header, value);
            }
        }
        for (_, secret) in &entry.secret_headers {
            secrets.register(secret.clone());
        }
        let mut headers: [HeaderMap; 4] = std::array::from_fn(|_| own.clone());
        if let Some(key) = &entry.key {
            secrets.register(key.clone());
            let unusable = |_| NetError::InvalidHeader {
                name: "credential".to_owned(),
                reason: format!("the value of {} holds characters that no header may hold", key.name()),
            };
            for speech in Speech::ALL {
                let bearer = || format!("Bearer {}", key.expose());
                let (name, text) = match speech {
                    Speech::AnthropicMessages => (HeaderName::from_static("x-api-key"), key.expose().to_owned()),
                    Speech::Gemini => (HeaderName::from_static("x-goog-api-key"), key.expose().to_owned()),
                    Speech::OpenaiChat | Speech::OpenaiResponses => (AUTHORIZATION, bearer()),
                };
                let mut value = HeaderValue::try_from(text).map_err(unusable)?;
                value.set_sensitive(true);
                headers[speech as usize].insert(name, value);
            }
        }
        let path = |speech: Speech| match speech {
            Speech::OpenaiChat => Some("chat/completions"),
            Speech::OpenaiResponses => Some("responses"),
            Speech::AnthropicMessages => Some("messages"),
            Speech::Gemini => None,
        };
        let mut urls = [const { None }; 4];
        for speech in &entry.protocols {
            urls[*speech as usize] = path(*speech).map(|path| base_url.join(path)).transpose()?;
        }
        Ok(Upstream {
            id: name.into(),
            speeches: entry.protocols.clone(),
            urls,
            headers,
            timeouts: entry.timeouts.unwrap_or(config.timeouts),
            redactor: secrets.redactor(),
            stream_usage: crate::vendors::takes_stream_usage(entry),
            provider: providers.get(name).cloned(),
            models: entry.models.clone(),
            hidden: crate::vendors::hidden(entry, &base_url),
            base_url,
        })
    }

    /// What is sent with every request in a protocol.
    pub(crate) fn headers(&self, speech: Speech) -> &HeaderMap {
        &self.headers[speech as usize]
    }

    /// Whether it speaks a client's protocol, so that bytes can be handed on.
    pub(crate) fn speaks(&self, speech: Speech) -> bool {
        self.speeches.contains(&speech)
    }

    /// The address of a turn in a protocol whose path is always the same.
    pub(crate) fn url(&self, speech: Speech) -> Option<&Url> {
        self.urls[speech as usize].as_ref()
    }
}

/// Who answers for one name.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) name: Arc<str>,
    /// The name as a header's value.
    pub(crate) header: HeaderValue,
    pub(crate) targets: Vec<Target>,
    pub(crate) strategy: Strategy,
    pub(crate) on: Vec<ErrorClass>,
    pub(crate) pin: Duration,
    pub(crate) strict: bool,
    pub(crate) kind: RouteKind,
    /// What is counted of an agent's exchanges as such; its turns are counted with the models that it asks.
    pub(crate) series: Option<Arc<Series>>,
}

/// What a name stands for, for those who list it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RouteKind {
    Model,
    Route,
    Agent,
}

/// One model of one provider.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) asked: Asked,
    /// The provider's name of the model.
    pub(crate) model: Arc<str>,
    /// The same as a JSON text.
    pub(crate) model_json: Vec<u8>,
    /// The provider's id.
    pub(crate) provider: Arc<str>,
    /// The provider's id as a header's value.
    pub(crate) provider_header: HeaderValue,
    pub(crate) price: Option<Price>,
    pub(crate) weight: u32,
    pub(crate) series: Arc<Series>,
    pub(crate) breaker: Breaker,
}

/// Who is asked.
#[derive(Debug)]
pub(crate) enum Asked {
    /// A server.
    Upstream(Arc<Upstream>),
    /// A model of our own, within this process.
    Local(SharedProvider),
}

impl Asked {
    /// Who encodes and decodes for it.
    pub(crate) fn provider(&self) -> Option<SharedProvider> {
        match self {
            Asked::Local(provider) => Some(provider.clone()),
            Asked::Upstream(upstream) => upstream.provider.clone(),
        }
    }

    /// The host of a server whose place is nobody's business.
    pub(crate) fn hidden(&self) -> Option<&str> {
        match self {
            Asked::Upstream(upstream) => upstream.hidden.as_deref(),
            Asked::Local(_) => None,
        }
    }
}

/// Leaves a target alone for a while after it failed several times in a row. One request then tries it again.
#[derive(Debug, Default)]
pub(crate) struct Breaker {
    failures: AtomicU32,
    /// The steady instant, in milliseconds, until which it is left alone; 0 is not at all.
    until_ms: AtomicU64,
}

impl Breaker {
    pub(crate) fn succeeded(&self) {
        if self.failures.load(Ordering::Relaxed) > 0 {
            self.failures.store(0, Ordering::Relaxed);
            self.until_ms.store(0, Ordering::Relaxed);
        }
    }

    /// A failure that may pass. `wait` is how long the other side asks to be left alone.
    pub(crate) fn failed(&self, now: Duration, wait: Option<Duration>) {
        let failures = self.failures.fetch_add(1, Ordering::Relaxed) + 1;
        let rest = match wait {
            Some(wait) => Some(wait.min(Duration::from_secs(300))),
            None if failures >= FAILURES => Some(REST),
            None => None,
        };
        if let Some(rest) = rest {
            self.until_ms.fetch_max(millis(now.saturating_add(rest)), Ordering::Relaxed);
        }
    }

    /// Whether it is to be left alone now.
    fn rests(&self, now: Duration) -> bool {
        millis(now) < self.until_ms.load(Ordering::Relaxed)
    }

    /// Whether it may be asked now. Where its rest has just ended, one asker is let through and the others wait for what it
    /// finds.
    pub(crate) fn lets(&self, now: Duration) -> bool {
        let until = self.until_ms.load(Ordering::Relaxed);
        if until == 0 {
            return true;
        }
        let now_ms = millis(now);
        if now_ms < until {
            return false;
        }
        let again = millis(now.saturating_add(Duration::from_secs(5)));
        self.until_ms.compare_exchange(until, again, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

fn millis(instant: Duration) -> u64 {
    u64::try_from(instant.as_millis()).unwrap_or(u64::MAX).max(1)
}

impl Route {
    /// The targets in the order in which they are asked: the pinned one first, those at rest last.
    pub(crate) fn order(&self, pinned: Option<usize>, env: &Env) -> Vec<usize> {
        if self.targets.len() == 1 {
            return vec![0];
        }
        let now = env.clock().steady();
        let mut order: Vec<usize> = (0..self.targets.len()).collect();
        if self.strategy == Strategy::Weighted {
            let total: u64 = self.targets.iter().map(|target| u64::from(target.weight)).sum();
            let mut draw = env.random().next_u64() % total.max(1);
            let first = self.targets.iter().position(|target| {
                let hit = draw < u64::from(target.weight);
                draw = draw.saturating_sub(u64::from(target.weight));
                hit
            });
            let first = first.unwrap_or(0);
            order.remove(first);
            order.insert(0, first);
        }
        if let Some(pinned) = pinned.filter(|pinned| *pinned < order.len()) {
            order.retain(|index| *index != pinned);
            order.insert(0, pinned);
        }
        rested_last(order, |index| &self.targets[index].breaker, now)
    }
}

/// Those at rest last. Only who is asked first is taken for a trial after its rest: the others may not be asked at all.
fn rested_last<'b>(mut order: Vec<usize>, breaker: impl Fn(usize) -> &'b Breaker, now: Duration) -> Vec<usize> {
    let first = order.iter().position(|index| breaker(*index).lets(now)).map(|at| order.remove(at));
    let (up, down): (Vec<usize>, Vec<usize>) = order.into_iter().partition(|index| !breaker(*index).rests(now));
    first.into_iter().chain(up).chain(down).collect()
}

/// Conversations and the targets that they stay with.
#[derive(Debug, Default)]
pub(crate) struct Pins {
    pins: Mutex<HashMap<u64, Pin>>,
}

/// Where a conversation went last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pin {
    /// The target that answered.
    pub(crate) target: usize,
    /// Until when the conversation stays there.
    until: Duration,
    /// Whether more than one provider has answered, so that state of several may be in what the client sends.
    pub(crate) is_mixed: bool,
}

impl Pin {
    /// Whether the conversation stays with its target.
    pub(crate) fn holds(&self, now: Duration) -> bool {
        now < self.until
    }
}

impl Pins {
    pub(crate) fn get(&self, conversation: u64) -> Option<Pin> {
        let pins = self.pins.lock().unwrap_or_else(PoisonError::into_inner);
        pins.get(&conversation).copied()
    }

    pub(crate) fn set(&self, conversation: u64, target: usize, is_mixed: bool, now: Duration, span: Duration) {
        let mut pins = self.pins.lock().unwrap_or_else(PoisonError::into_inner);
        if pins.len() >= MOST_PINS && !pins.contains_key(&conversation) {
            pins.retain(|_, pin| pin.holds(now));
            if pins.len() >= MOST_PINS {
                pins.clear();
            }
        }
        pins.insert(conversation, Pin { target, until: now.saturating_add(span), is_mixed });
    }
}

/// Everything that names of models lead to. Made whole from a configuration, and replaced whole by the next one.
#[derive(Debug)]
pub(crate) struct Routing {
    routes: IndexMap<String, Arc<Route>>,
    upstreams: IndexMap<String, Arc<Upstream>>,
    local: Providers,
    default: Option<Arc<Route>>,
    is_open: bool,
    strict: bool,
    models: IndexMap<String, ModelEntry>,
    metrics: Arc<Metrics>,
    /// Routes of names that no entry has, made when they are asked for.
    found: RwLock<HashMap<String, Arc<Route>>>,
}

impl Routing {
    /// `flows` are names that flows of the program itself answer for.
    pub(crate) fn new<'f>(
        config: &Config,
        client: &Client,
        metrics: &Arc<Metrics>,
        flows: impl Iterator<Item = &'f str>,
    ) -> Result<Self, NetError> {
        let providers = crate::vendors::providers(config, client);
        let mut upstreams = IndexMap::new();
        for (name, entry) in &config.providers {
            upstreams.insert(name.clone(), Arc::new(Upstream::new(name, entry, config, &providers)?));
        }
        let mut routing = Routing {
            routes: IndexMap::new(),
            upstreams,
            local: Providers::local(),
            default: None,
            is_open: config.open,
            strict: config.strict,
            models: config.models.clone(),
            metrics: metrics.clone(),
            found: RwLock::default(),
        };
        for name in config.models.keys() {
            let targets = routing.target(name, name, 1).into_iter().collect();
            routing.add(name, targets, RouteKind::Model);
        }
        for (name, entry) in &config.routes {
            let targets =
                entry.targets.iter().filter_map(|target| routing.target(name, &target.model, target.weight)).collect();
            let route = Route {
                strategy: entry.strategy,
                on: entry.on.clone(),
                pin: entry.pin,
                strict: entry.strict.unwrap_or(config.strict),
                ..routing.route(name, targets, RouteKind::Route)
            };
            routing.routes.insert(name.clone(), Arc::new(route));
        }
        for name in config.agents.keys() {
            routing.add(name, Vec::new(), RouteKind::Agent);
        }
        for name in flows {
            routing.add(name, Vec::new(), RouteKind::Agent);
        }
        routing.default = config.default_model.as_deref().and_then(|name| routing.find_named(name));
        Ok(routing)
    }

    fn route(&self, name: &str, targets: Vec<Target>, kind: RouteKind) -> Route {
        Route {
            name: name.into(),
            header: HeaderValue::try_from(name).unwrap_or(HeaderValue::from_static("unnamed")),
            targets,
            strategy: Strategy::Ordered,
            on: Vec::new(),
            pin: Duration::ZERO,
            strict: self.strict,
            series: (kind == RouteKind::Agent).then(|| self.metrics.series(name, "placet", "agent")),
            kind,
        }
    }

    fn add(&mut self, name: &str, targets: Vec<Target>, kind: RouteKind) {
        let route = self.route(name, targets, kind);
        self.routes.insert(name.to_owned(), Arc::new(route));
    }

    /// The target that `model` means: an entry of `models`, or a reference. `name` is what clients call it.
    fn target(&self, name: &str, model: &str, weight: u32) -> Option<Target> {
        let (reference, price) = match self.models.get(model) {
            Some(entry) => (entry.target.clone(), entry.price),
            None => (ModelRef::parse(model).ok()?, None),
        };
        let provider = reference.provider.as_str();
        let asked = match self.upstreams.get(provider) {
            Some(upstream) => Asked::Upstream(upstream.clone()),
            None if LOCAL_PROVIDERS.contains(&provider) => Asked::Local(self.local.get(provider)?.clone()),
            None => return None,
        };
        let model = if reference.model.is_empty() { provider } else { reference.model.as_str() };
        Some(Target {
            asked,
            model: model.into(),
            model_json: serde_json::to_vec(model).unwrap_or_default(),
            provider: provider.into(),
            provider_header: HeaderValue::try_from(provider).unwrap_or(HeaderValue::from_static("unnamed")),
            price,
            weight,
            series: self.metrics.series(name, provider, model),
            breaker: Breaker::default(),
        })
    }

    /// What stands for a flow that no client asks for by a model's name.
    pub(crate) fn unlisted(&self, flow: &str) -> Arc<Route> {
        Arc::new(self.route(flow, Vec::new(), RouteKind::Agent))
    }

    /// Who answers for a name.
    pub(crate) fn find(&self, name: &str) -> Option<Arc<Route>> {
        if let Some(route) = self.routes.get(name) {
            return Some(route.clone());
        }
        self.find_open(name).or_else(|| self.default.clone())
    }

    fn find_named(&self, name: &str) -> Option<Arc<Route>> {
        let found = self.routes.get(name).cloned();
        found.or_else(|| Some(Arc::new(self.route(name, vec![self.target(name, name, 1)?], RouteKind::Model))))
    }

    /// Who encodes and decodes for a name, and the provider's name of its model. Of a route that is every target.
    pub(crate) fn asker(&self, name: &str) -> Option<(SharedProvider, String)> {
        let route = self.find_named(name)?;
        if route.targets.len() > 1 {
            let provider = crate::several::Several::new(route)?;
            return Some((Arc::new(provider), name.to_owned()));
        }
        let target = route.targets.first()?;
        Some((Metered::of(target)?, target.model.to_string()))
    }

    /// The servers that keep answers of the Responses protocol.
    pub(crate) fn keepers(&self) -> impl Iterator<Item = &Arc<Upstream>> {
        self.upstreams.values().filter(|upstream| upstream.speaks(Speech::OpenaiResponses))
    }

    /// A server by the name of its provider.
    pub(crate) fn upstream(&self, id: &str) -> Option<&Arc<Upstream>> {
        self.upstreams.get(id)
    }

    /// A model of a provider by its own name, where that is let.
    fn find_open(&self, name: &str) -> Option<Arc<Route>> {
        if !self.is_open || name.len() > 512 {
            return None;
        }
        if let Some(found) = self.found.read().unwrap_or_else(PoisonError::into_inner).get(name) {
            return Some(found.clone());
        }
        let only = || match self.upstreams.len() {
            // Where there is but one server, every name that says nothing else is one of its models.
            1 => self.upstreams.first().map(|(id, _)| format!("{id}:{name}")),
            _ => None,
        };
        let listed = || {
            let mut owners =
                self.upstreams.iter().filter(|(_, upstream)| upstream.models.iter().any(|model| model == name));
            owners.next().map(|(id, _)| format!("{id}:{name}"))
        };
        let target = listed()
            .and_then(|reference| self.target("*", &reference, 1))
            .or_else(|| self.target("*", name, 1))
            .or_else(|| self.target("*", &only()?, 1))?;
        // What a client may make up must not become a label of a metric, so all of them share one.
        let route = Arc::new(self.route(name, vec![target], RouteKind::Model));
        let mut found = self.found.write().unwrap_or_else(PoisonError::into_inner);
        if found.len() >= MOST_OPEN {
            found.clear();
        }
        found.insert(name.to_owned(), route.clone());
        Some(route)
    }

    /// Every name that is served, in order, with who answers.
    pub(crate) fn listed(&self) -> Vec<Listed> {
        let mut listed: Vec<Listed> = self
            .routes
            .values()
            .map(|route| Listed {
                id: route.name.to_string(),
                owner: route.targets.first().map_or_else(|| "placet".to_owned(), |target| target.provider.to_string()),
            })
            .collect();
        if self.is_open {
            for upstream in self.upstreams.values() {
                listed.extend(
                    upstream.models.iter().map(|model| Listed { id: model.clone(), owner: upstream.id.to_string() }),
                );
            }
            if self.routes.is_empty() {
                listed.push(Listed { id: "offline".to_owned(), owner: "placet".to_owned() });
                listed.push(Listed { id: "echo".to_owned(), owner: "placet".to_owned() });
            }
        }
        let mut seen = std::collections::BTreeSet::new();
        listed.retain(|one| seen.insert(one.id.clone()));
        listed
    }

    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    pub(crate) fn upstreams(&self) -> impl Iterator<Item = &Arc<Upstream>> {
        self.upstreams.values()
    }
}

/// A model in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) id: String,
    pub(crate) owner: String,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn a_target_that_fails_is_left_alone_and_then_tried_by_one() {
        let breaker = Breaker::default();
        let at = Duration::from_secs;
        for _ in 0..FAILURES {
            assert!(breaker.lets(at(1)));
            breaker.failed(at(1), None);
        }
        assert!(!breaker.lets(at(2)) && !breaker.lets(at(30)));
        assert!(breaker.lets(at(31)), "one is let through");
        assert!(!breaker.lets(at(31)), "the others are not");
        breaker.succeeded();
        assert!(breaker.lets(at(31)));
        breaker.failed(at(40), Some(at(7)));
        assert!(!breaker.lets(at(46)) && breaker.lets(at(47)));
    }

    #[test]
    fn a_rest_grows_no_shorter_and_a_trial_that_fails_begins_another() {
        let breaker = Breaker::default();
        let at = Duration::from_secs;
        (0..FAILURES).for_each(|_| breaker.failed(at(10), None));
        breaker.failed(at(11), Some(at(2)));
        assert!(breaker.rests(at(39)) && !breaker.rests(at(40)), "30 seconds from the fifth failure on");
        assert!(breaker.lets(at(40)));
        breaker.failed(at(41), None);
        assert!(breaker.rests(at(70)) && breaker.lets(at(71)), "one failure is enough after a rest");
        // Whoever was let through and never came back does not keep the others out for long.
        assert!(!breaker.lets(at(75)) && breaker.lets(at(76)));
        breaker.succeeded();
        breaker.failed(at(77), None);
        assert!(breaker.lets(at(77)), "it begins to count anew");
    }

    #[test]
    fn only_who_is_asked_first_is_tried_after_its_rest() {
        let breakers = [Breaker::default(), Breaker::default(), Breaker::default()];
        let at = Duration::from_secs;
        let order = |now| rested_last(vec![0, 1, 2], |index| &breakers[index], at(now));
        breakers[1].failed(at(0), Some(at(10)));
        assert_eq!(order(5), [0, 2, 1]);
        // Its rest is over: it stands in its place, however often the first one answers.
        assert_eq!((order(10), order(11)), (vec![0, 1, 2], vec![0, 1, 2]));
        breakers[0].failed(at(12), Some(at(10)));
        assert_eq!(order(13), [1, 2, 0], "now it is the one to try");
        assert_eq!(order(14), [2, 0, 1], "and the others wait for what that finds");
    }

    #[test]
    fn pins_end_with_their_time_and_are_bounded() {
        let pins = Pins::default();
        let at = Duration::from_secs;
        pins.set(1, 2, true, at(0), at(10));
        let pin = pins.get(1).unwrap();
        assert_eq!((pin.target, pin.is_mixed, pin.holds(at(9)), pin.holds(at(10))), (2, true, true, false));
        assert_eq!(pins.get(2), None);
        for conversation in 0..u64::try_from(MOST_PINS).unwrap_or(0) + 10 {
            pins.set(conversation, 0, false, at(0), at(10));
        }
        assert!(pins.pins.lock().is_ok_and(|pins| pins.len() <= MOST_PINS));
    }
}
