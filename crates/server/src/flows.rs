//! The agents and flows of a configuration, put together; and the work that triggers and answers leave behind.

use crate::approval::PostedApprovals;
use crate::behind::Behind;
use crate::config::{AgentEntry, CapabilityEntry, Config, StepEntry};
use crate::ledger::Ledger;
use placet_core::redact::SecretRegistry;
use placet_core::{Diagnose, Env, ErrorKind, Limits, Redactor, Secret};
use placet_flows::{Agent, Flow, FlowError, Flows, ModelSpec, Models, Notice, Notify};
use placet_models::SharedProvider;
use placet_net::{Client, NetError, Request, Timeouts, Url};
use placet_runtime::Runtime;
use placet_store::{SharedStore, Tenant};
use placet_tools::Grant;
use placet_workspace::{CommandOptions, Commands, Files, FilesOptions, WorkspaceError, calculator};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::{CancellationToken, DropGuard};

/// How long a notification may take.
const NOTIFIED: Duration = Duration::from_secs(30);

/// Why a gateway could not be put together. Everything that a configuration alone can tell has been told before.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// A provider's address or credential cannot be used.
    #[error(transparent)]
    Net(#[from] NetError),
    /// A capability's folder cannot be handed over.
    #[error("the capability `{name}` cannot be handed over")]
    Capability {
        /// The capability's name.
        name: String,
        /// The error underneath.
        #[source]
        cause: WorkspaceError,
    },
    /// An agent's model cannot be asked by an agent.
    #[error("the agent `{agent}` cannot ask the model `{model}`: its provider is only known to hand requests on")]
    Model {
        /// The agent's name.
        agent: String,
        /// The model's name.
        model: String,
    },
    /// The flows are put together wrongly.
    #[error(transparent)]
    Flows(#[from] FlowError),
}

impl Diagnose for SetupError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Wiring
    }

    fn hints(&self) -> Vec<String> {
        match self {
            SetupError::Net(error) => error.hints(),
            SetupError::Capability { cause, .. } => cause.hints(),
            SetupError::Flows(error) => error.hints(),
            SetupError::Model { .. } => Vec::new(),
        }
    }
}

/// What the flows of a configuration are put together with.
pub(crate) struct Ground<'g> {
    pub(crate) env: &'g Env,
    pub(crate) client: &'g Client,
    pub(crate) store: &'g SharedStore,
    pub(crate) tenant: &'g Tenant,
    /// Where work is written down that is done behind clients' backs.
    pub(crate) ledger: Option<&'g Ledger>,
}

/// Who answers for a model, and the provider's name of it.
type Found = (SharedProvider, String);

/// What no tool of an agent's may carry to a model: the credentials of the configuration.
fn secrets(config: &Config) -> SecretRegistry {
    let mut secrets = SecretRegistry::new();
    if let Some(key) = config.approval.as_ref().and_then(|entry| entry.key.as_ref()) {
        let _ = secrets.register(key.clone());
    }
    for provider in config.providers.values() {
        if let Some(key) = &provider.key {
            // One that is too short to be told from a word cannot be taken out.
            let _ = secrets.register(key.clone());
        }
        for (_, value) in &provider.secret_headers {
            let _ = secrets.register(value.clone());
        }
        for (name, value) in &provider.headers {
            let is_sensitive =
                http::HeaderName::try_from(name.as_str()).is_ok_and(|name| placet_net::is_sensitive_header(&name));
            if is_sensitive {
                let _ = secrets.register(Secret::new(name.as_str(), value.as_str()));
            }
        }
    }
    secrets
}

/// The agents and flows of a configuration, by their names. `find` gives who answers for a model's name.
pub(crate) fn build(
    config: &Config,
    ground: &Ground<'_>,
    find: impl Fn(&str) -> Option<Found>,
) -> Result<Option<Flows>, SetupError> {
    if config.agents.is_empty() && config.flows.is_empty() {
        return Ok(None);
    }
    let runtime = Runtime::builder(ground.env.clone(), ground.store.clone());
    let redactor = secrets(config).redactor();
    let mut runtime = runtime.tenant(ground.tenant.clone()).redactor(redactor.clone());
    if let Some(entry) = &config.approval {
        let approver = PostedApprovals {
            client: ground.client.clone(),
            url: Url::parse(&entry.url)?,
            key: entry.key.clone(),
            patience: entry.timeout,
            redactor: redactor.clone(),
        };
        runtime = runtime.approver(Arc::new(approver)).approval_timeout(entry.timeout);
    }
    let house = House { config, ground, find, redactor };
    let mut builder = Flows::builder(runtime.build()).models(house.models()).redactor(house.redactor.clone());
    if let Some(ledger) = ground.ledger {
        builder = builder.work_observer(Arc::new(Behind::new(ledger.clone())));
    }
    for (name, entry) in &config.agents {
        builder = builder.flow(Flow::agent(house.agent(name, entry)?).named(name.clone()));
    }
    for (name, entry) in &config.flows {
        let named = house.flow(name)?.named(name.clone());
        builder = builder.flow(match entry.durable {
            Some(durable) => named.durable(durable),
            None => named,
        });
    }
    Ok(Some(builder.build()?))
}

/// The capabilities of a configuration that cannot be handed over, by their names.
pub(crate) fn capability_errors(config: &Config, ground: &Ground<'_>) -> Vec<(String, SetupError)> {
    let house = House { config, ground, find: |_: &str| None, redactor: Redactor::default() };
    let tried = config.capabilities.iter().map(|(name, entry)| (name, house.grant(name, entry)));
    tried.filter_map(|(name, tried)| Some((name.clone(), tried.err()?))).collect()
}

struct House<'h, F> {
    config: &'h Config,
    ground: &'h Ground<'h>,
    find: F,
    redactor: Redactor,
}

impl<F: Fn(&str) -> Option<Found>> House<'_, F> {
    /// The models of the file with their tags. One that only hands requests on is not among them.
    fn models(&self) -> Models {
        let mut models = Models::new();
        for (name, entry) in &self.config.models {
            if let Some(spec) = self.spec(name) {
                models = models.register(spec, entry.tags.clone());
            }
        }
        match self.config.default_model.as_deref().and_then(|name| self.spec(name)) {
            Some(spec) => models.default_model(spec),
            None => models,
        }
    }

    fn spec(&self, name: &str) -> Option<ModelSpec> {
        let spec = ModelSpec::new((self.find)(name)?);
        let price = self.config.models.get(name).and_then(|entry| entry.price);
        Some(price.map_or(spec.clone(), |price| spec.with_price(price)))
    }

    /// `asks`: the agent or flow that names the model.
    fn named_spec(&self, asks: &str, model: &str) -> Result<ModelSpec, SetupError> {
        self.spec(model).ok_or_else(|| SetupError::Model { agent: asks.to_owned(), model: model.to_owned() })
    }

    fn agent(&self, name: &str, entry: &AgentEntry) -> Result<Agent, SetupError> {
        let limits = Limits { rounds: entry.max_rounds, ..Limits::default() };
        let mut agent = Agent::new().limits(limits);
        if let Some(model) = &entry.model {
            agent = agent.model(self.named_spec(name, model)?);
        } else if !entry.tags.is_empty() {
            agent = agent.model(ModelSpec::tagged(entry.tags.clone()));
        }
        if let Some(instructions) = &entry.instructions {
            agent = agent.role(instructions.clone());
        }
        for name in &entry.capabilities {
            // The configuration has been checked: it is there.
            if let Some(entry) = self.config.capabilities.get(name) {
                agent = agent.grant(self.grant(name, entry)?);
            }
        }
        Ok(agent)
    }

    fn grant(&self, name: &str, entry: &CapabilityEntry) -> Result<Grant, SetupError> {
        Ok(match entry {
            CapabilityEntry::Files { root, writable, approve } => {
                let files = Grant::new(self.files(name, root, *writable)?.capability());
                if *approve { files.ask_first() } else { files }
            }
            CapabilityEntry::Command { root, shell } => {
                let options = CommandOptions::new().redactor(self.redactor.clone());
                let options = if *shell { options.shell() } else { options };
                let commands = Commands::new(self.files(name, root, false)?, options);
                commands.map_err(|cause| SetupError::Capability { name: name.to_owned(), cause })?.capability().into()
            }
            CapabilityEntry::Calculator => calculator().into(),
        })
    }

    fn files(&self, name: &str, root: &Path, writable: bool) -> Result<Arc<Files>, SetupError> {
        let options = if writable { FilesOptions::new().writable() } else { FilesOptions::new() };
        let opened = Files::open(self.ground.env, root, options);
        opened.map(Arc::new).map_err(|cause| SetupError::Capability { name: name.to_owned(), cause })
    }

    /// The flow of that name. The configuration has been checked: none comes to itself again.
    fn flow(&self, name: &str) -> Result<Flow, SetupError> {
        let Some(entry) = self.config.flows.get(name) else {
            return Ok(match self.config.agents.get(name) {
                Some(entry) => Flow::agent(self.agent(name, entry)?).with_id(name),
                None => Flow::all([]),
            });
        };
        let mut steps = entry.steps.iter();
        let first = steps.next().map_or_else(|| Ok(Flow::all([])), |step| self.step(step))?;
        let flow = steps.try_fold(first, |flow, step| Ok::<_, SetupError>(flow.next(self.step(step)?)))?;
        Ok(match &entry.model {
            Some(model) => flow.with_model(self.named_spec(name, model)?),
            None => flow,
        })
    }

    fn step(&self, step: &StepEntry) -> Result<Flow, SetupError> {
        Ok(match step {
            StepEntry::Named(name) => self.flow(name)?,
            StepEntry::All(members) => Flow::all(self.members(members)?),
            StepEntry::One(members) => Flow::one(self.members(members)?),
            StepEntry::Group(members) => Flow::group(self.members(members)?),
            StepEntry::Respond => Flow::respond(),
            StepEntry::Notify(url) => {
                Flow::notify(Posting { client: self.ground.client.clone(), url: Url::parse(url)? })
            }
            StepEntry::Trigger(trigger) => Flow::trigger(trigger.clone()),
        })
    }

    fn members(&self, members: &[StepEntry]) -> Result<Vec<Flow>, SetupError> {
        members.iter().map(|member| self.step(member)).collect()
    }
}

/// Posts notifications as JSON: `{"text", "run", "key"}`, the key also as the header `idempotency-key`.
struct Posting {
    client: Client,
    url: Url,
}

#[async_trait::async_trait]
impl Notify for Posting {
    async fn notify(&self, notice: Notice) -> placet_flows::Result<()> {
        let body = serde_json::json!({"text": notice.text, "run": notice.run, "key": notice.key});
        let request = Request::post_json(self.url.clone(), body.to_string())
            .timeouts(Timeouts::default().within(NOTIFIED))
            .header("idempotency-key", &notice.key)
            .map_err(FlowError::handler)?;
        let response = self.client.send_until_dropped(request).await.map_err(FlowError::handler)?;
        if response.status.is_success() {
            return Ok(());
        }
        Err(FlowError::handler(format!("the notification was answered with {}", response.status)))
    }
}

/// Does what triggers and answers leave behind, for as long as it is held.
pub(crate) struct Working(#[expect(dead_code, reason = "it acts when it is dropped")] DropGuard);

impl Working {
    /// `before`: the flows whose place these take, if serving has begun with others.
    pub(crate) fn begin(env: &Env, flows: Flows, before: Option<&Flows>) -> Self {
        let stop = CancellationToken::new();
        let gone: Vec<String> = before
            .map(|before| before.every().filter(|name| !flows.every().any(|kept| kept == *name)).map(str::to_owned))
            .map(Iterator::collect)
            .unwrap_or_default();
        let (cancel, before) = (stop.clone(), before.cloned());
        let work = async move {
            for name in gone {
                if let Err(error) = flows.unschedule(&name).await {
                    tracing::warn!(%error, flow = name, "what a flow does again and again could not be taken out");
                }
            }
            let set_off = match &before {
                Some(before) => flows.start_after(before).await,
                None => flows.start().await,
            };
            if let Err(error) = set_off {
                tracing::error!(%error, "the triggers of flows could not be set off");
            }
            flows.work(cancel).await;
        };
        drop(env.spawn("flows", work));
        Working(stop.drop_guard())
    }

    /// Takes out what flows do again and again that nobody takes the place of.
    pub(crate) fn end(env: &Env, before: Flows) {
        drop(env.spawn("flows", async move {
            for name in before.every() {
                if let Err(error) = before.unschedule(name).await {
                    tracing::warn!(%error, flow = name, "what a flow does again and again could not be taken out");
                }
            }
        }));
    }
}
