//! Agents behind names of models: flows, served in the client's protocol.

use crate::account::Account;
use crate::body::Body;
use crate::config::{AgentEntry, CapabilityEntry, Config};
use crate::gateway::{Gateway, OMITTED, Snapshot};
use crate::metrics::Outcome;
use crate::refusal::{Refusal, status_of};
use crate::routing::Route;
use crate::speech::{decode_request, nobody};
use crate::translate::{answer_head, omitted_value};
use crate::turn::{Missed, TurnAsked};
use http::{HeaderName, HeaderValue, Response};
use placet_core::{Diagnose, Env, ErrorKind, Limits, RunId};
use placet_flows::{Agent, Exchange, Flow, FlowError, Flows, Principal};
use placet_models::SharedProvider;
use placet_net::NetError;
use placet_runtime::Runtime;
use placet_store::{SharedStore, Tenant};
use placet_tools::Grant;
use placet_workspace::{Files, FilesOptions, WorkspaceError, calculator};
use std::sync::Arc;

const RUN_ID: HeaderName = HeaderName::from_static("x-run-id");

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

/// Where agents of a configuration keep their runs.
pub(crate) struct Ground<'g> {
    pub(crate) env: &'g Env,
    pub(crate) store: &'g SharedStore,
    pub(crate) tenant: &'g Tenant,
}

/// The agents of a configuration as flows. `find` gives who answers for a model's name.
pub(crate) fn build(
    config: &Config,
    ground: &Ground<'_>,
    find: impl Fn(&str) -> Option<(SharedProvider, String)>,
) -> Result<Option<Flows>, SetupError> {
    if config.agents.is_empty() {
        return Ok(None);
    }
    let mut runtime = Runtime::builder(ground.env.clone(), ground.store.clone()).tenant(ground.tenant.clone());
    let mut flows = Vec::new();
    for (name, entry) in &config.agents {
        let missing = || SetupError::Model { agent: name.clone(), model: entry.model.clone() };
        let (provider, model) = find(&entry.model).ok_or_else(missing)?;
        runtime = runtime.provider(provider.clone());
        flows.push(Flow::agent(agent(config, entry, ground.env, (provider, model))?).named(name.clone()));
    }
    let builder = Flows::builder(runtime.build());
    Ok(Some(flows.into_iter().fold(builder, placet_flows::FlowsBuilder::flow).build()?))
}

fn agent(config: &Config, entry: &AgentEntry, env: &Env, model: (SharedProvider, String)) -> Result<Agent, SetupError> {
    let limits = Limits { rounds: entry.max_rounds, ..Limits::default() };
    let mut agent = Agent::new().model(model).limits(limits);
    if let Some(instructions) = &entry.instructions {
        agent = agent.role(instructions.clone());
    }
    for name in &entry.capabilities {
        let grant: Grant = match config.capabilities.get(name) {
            Some(CapabilityEntry::Files { root, writable }) => {
                let options = if *writable { FilesOptions::new().writable() } else { FilesOptions::new() };
                let opened = Files::open(env, root, options);
                let files = opened.map_err(|cause| SetupError::Capability { name: name.clone(), cause })?;
                Arc::new(files).capability().into()
            }
            Some(CapabilityEntry::Calculator) => calculator().into(),
            // The configuration has been checked.
            None => continue,
        };
        agent = agent.grant(grant);
    }
    Ok(agent)
}

impl Gateway {
    /// Lets an agent answer.
    pub(crate) async fn ask_agent(
        self: &Arc<Self>,
        snapshot: &Snapshot,
        route: &Arc<Route>,
        asked: TurnAsked,
        mut account: Account,
    ) -> Result<Response<Body>, Refusal> {
        let id = account.id;
        let key = account.principal.key.clone();
        let answered = self.agent_answer(snapshot, route, &asked, &key, &mut account).await;
        let (answer, head, keeping, run) = match answered {
            Ok(answered) => answered,
            Err(refusal) => {
                account.status = refusal.status;
                account.close(Outcome::Failed, None);
                return Ok(refusal.into_response(asked.speech, id.as_str()));
            }
        };
        let omitted = answer.omitted().join("; ");
        let events: placet_models::TurnStream = Box::pin(answer.events());
        drop(answer);
        let mut account = Some(account);
        let mut response = if asked.stream {
            let Some(account) = account.take() else { return Err(Missed::gone().refusal) };
            self.streamed(&asked, head, events, account, keeping, nobody())
        } else {
            match self.whole(asked.speech, &head, events, &mut account, keeping, &nobody()).await {
                Ok(response) => response,
                Err(missed) => {
                    if let Some(account) = &mut account {
                        account.status = missed.refusal.status;
                        account.close(Outcome::Failed, None);
                    }
                    missed.refusal.into_response(asked.speech, id.as_str())
                }
            }
        };
        let headers = response.headers_mut();
        headers.insert(crate::gateway::ROUTE, route.header.clone());
        if let Ok(value) = HeaderValue::try_from(run.as_str()) {
            headers.insert(RUN_ID, value);
        }
        if let Some(value) = omitted_value(&omitted) {
            headers.insert(OMITTED, value);
        }
        Ok(response)
    }

    async fn agent_answer(
        self: &Arc<Self>,
        snapshot: &Snapshot,
        route: &Arc<Route>,
        asked: &TurnAsked,
        key: &str,
        account: &mut Account,
    ) -> Result<(placet_flows::Answer, placet_wire::AnswerHead, Option<crate::kept::Keeping>, RunId), Refusal> {
        let own = self.flows.as_ref().filter(|flows| flows.names().any(|name| name == &*route.name));
        let flows = own.or(snapshot.flows.as_ref()).ok_or_else(|| Refusal::no_model(&route.name))?;
        let (body, keeping) = self.with_kept(asked, key).await?;
        let decoded = decode_request(asked, &body, &self.env)?;
        let head = answer_head(self, asked.speech, account, &decoded);
        let mut request = decoded.request;
        request.model = route.name.to_string();
        account.tools = request.tools.iter().map(|tool| tool.name.as_str().to_owned()).collect();
        let mut exchange = Exchange::new(request).from(Principal::new(key));
        if let Some(run) = asked.headers.get(&RUN_ID) {
            let run = run.to_str().ok().and_then(|run| RunId::parse(run).ok());
            let wrong = || {
                let message =
                    "`x-run-id` is no id of a run: expected `run_` and up to 64 letters, digits, `-`, `_`, `.`";
                Refusal::new(400, ErrorKind::InvalidRequest, message)
            };
            exchange = exchange.run(run.ok_or_else(wrong)?);
        }
        if asked.stream {
            exchange = exchange.streaming();
        }
        let answer = flows.serve(exchange).await.map_err(|error| told(&error))?;
        answer.first().await.map_err(|error| told(&error))?;
        let run = answer.run().clone();
        Ok((answer, head, keeping, run))
    }
}

/// An error of a flow as a client may know it.
fn told(error: &FlowError) -> Refusal {
    let shown = error.to_client();
    let mut refusal = Refusal::new(status_of(&shown), shown.kind.clone(), shown.message);
    refusal.code = shown.code;
    refusal
}
