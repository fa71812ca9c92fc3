//! The configuration: what `placet.toml` says, checked whole.

mod boards;
mod capabilities;
mod checks;
mod document;
mod flows;
mod providers;
mod reader;

pub(crate) use flows::begins_with_trigger;
pub use flows::{AgentEntry, FlowEntry, StepEntry};
pub use reader::Problem;

use indexmap::IndexMap;
use placet_board::http::Grant;
use placet_core::{Price, Secret};
use placet_models::{Lookup, ModelRef};
use placet_net::Timeouts;
use placet_wire::passing::Speech;
use std::collections::HashMap;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The name that the program looks for where no file is named.
pub const FILE_NAME: &str = "placet.toml";

/// A configuration that has been checked.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// Where it was read from; absent where there is no file.
    pub file: Option<PathBuf>,
    /// Where to listen.
    pub listen: SocketAddr,
    /// Names in `Host` that are let in, beside those of this machine and the address listened on. `*` is any.
    pub hosts: Vec<String>,
    /// Origins of web pages that are let in, such as `https://console.example.com`.
    pub origins: Vec<String>,
    /// Who may ask. With none, everybody who reaches the listener, which then is on this machine alone.
    pub keys: Vec<KeyEntry>,
    /// Providers by name.
    pub providers: IndexMap<String, ProviderEntry>,
    /// What is known of models, by the names that clients use.
    pub models: IndexMap<String, ModelEntry>,
    /// Several models behind one name.
    pub routes: IndexMap<String, RouteEntry>,
    /// Who is asked before a call runs that needs a yes; absent is nobody.
    pub approval: Option<ApprovalEntry>,
    /// Capabilities by name.
    pub capabilities: IndexMap<String, CapabilityEntry>,
    /// The lines that capabilities stand at.
    pub(crate) capability_lines: HashMap<String, usize>,
    /// Agents behind names of models.
    pub agents: IndexMap<String, AgentEntry>,
    /// Flows of agents: behind names of models, or set off by triggers.
    pub flows: IndexMap<String, FlowEntry>,
    /// The model that answers for names that nothing else has.
    pub default_model: Option<String>,
    /// Whether a model of any provider may be asked for by its own name, without an entry.
    pub open: bool,
    /// Whether a request is refused that holds a hint which its target cannot take, instead of leaving it out.
    pub strict: bool,
    /// How long providers may take.
    pub timeouts: Timeouts,
    /// What is bounded.
    pub limits: Limits,
    /// Where things are kept; absent is the program's own place.
    pub store: Option<String>,
    /// Whether `/metrics` is served.
    pub metrics: bool,
    /// How boards are served; absent where they are not.
    pub boards: Option<BoardsEntry>,
}

/// What is bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of a request's body, also after it is unpacked.
    pub body: usize,
    /// Bytes of a request's head.
    pub header: usize,
    /// Connections at a time.
    pub connections: usize,
    /// Requests that are answered at a time.
    pub requests: usize,
    /// Requests that wait for their turn.
    pub queue: usize,
    /// How long a request waits for its turn.
    pub queue_wait: Duration,
    /// How long a client may take to send a head, and between pieces of a body.
    pub client_idle: Duration,
    /// How long a client may take to send a whole body.
    pub client_body: Duration,
    /// How long answers may go on after the gateway was asked to stop.
    pub drain: Duration,
    /// How long everything is still served before that, while `/readyz` says that it stops.
    pub drain_delay: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            body: 32 << 20,
            header: 64 << 10,
            connections: 4096,
            requests: 1024,
            queue: 1024,
            queue_wait: Duration::from_secs(10),
            client_idle: Duration::from_secs(30),
            client_body: Duration::from_secs(300),
            drain: Duration::from_secs(30),
            drain_delay: Duration::ZERO,
        }
    }
}

/// Somebody who may ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyEntry {
    /// The key's name, which ledger and metrics show.
    pub name: String,
    /// SHA-256 of the key.
    pub sha256: [u8; 32],
    /// The names of models that may be asked, `*` at the end for any rest; none is all.
    pub models: Vec<String>,
    /// Whose key it is.
    pub user: Option<String>,
    /// The team it belongs to.
    pub team: Option<String>,
    /// What may be done with it on boards; absent is nothing.
    pub boards: Option<Grant>,
}

/// How boards are served.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct BoardsEntry {
    /// Hosts that agents may be called at although they are not public.
    pub call_hosts: Vec<String>,
    /// What the calls of agents and rules are signed with.
    pub key: Option<Secret>,
    /// How many decisions of a board are kept.
    pub decisions: u64,
    /// The most bytes that one write holds.
    pub content: usize,
}

/// A provider.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ProviderEntry {
    /// The row of the vendors' table that it is like, if any.
    pub vendor: Option<&'static str>,
    /// Where it is, up to and including the version.
    pub base_url: String,
    /// Its credential.
    pub key: Option<Secret>,
    /// The protocols that it speaks, the one to translate to first.
    pub protocols: Vec<Speech>,
    /// More headers to send.
    pub headers: Vec<(String, String)>,
    /// More headers to send, whose values are credentials.
    pub secret_headers: Vec<(String, Secret)>,
    /// Models to show in the list.
    pub models: Vec<String>,
    /// Timeouts of its own.
    pub timeouts: Option<Timeouts>,
    /// Its line.
    pub line: usize,
}

/// A model under a name.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ModelEntry {
    /// What it stands for.
    pub target: ModelRef,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// What it costs.
    pub price: Option<Price>,
    /// Its line.
    pub line: usize,
}

/// Several models behind one name.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RouteEntry {
    /// The targets, in order.
    pub targets: Vec<TargetEntry>,
    /// How the first one is chosen.
    pub strategy: Strategy,
    /// On which kinds of errors the next one is asked.
    pub on: Vec<ErrorClass>,
    /// How long a conversation stays with its target.
    pub pin: Duration,
    /// Whether hints that a target cannot take are refused.
    pub strict: Option<bool>,
    /// Its line.
    pub line: usize,
}

/// One target of a route.
#[derive(Clone, Debug, PartialEq)]
pub struct TargetEntry {
    /// A name of `models`, or a reference such as `openai:gpt-5.4`.
    pub model: String,
    /// How often it is chosen, beside the others.
    pub weight: u32,
    /// Its line.
    pub line: usize,
}

/// How the first target of a route is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// The first one that is not known to be down.
    Ordered,
    /// At random, by weight.
    Weighted,
}

/// Kinds of errors on which the next target is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    /// It cannot be reached, or breaks off before its answer begins.
    Network,
    /// It takes too long to begin.
    Timeout,
    /// 429.
    RateLimited,
    /// 503 and 529.
    Overloaded,
    /// Any other 5xx.
    Server,
    /// 401, 403 and accounts without credit: the gateway's own credential is at fault.
    Credential,
    /// 404: it has no such model.
    NotFound,
}

impl ErrorClass {
    /// All of them.
    pub const ALL: [ErrorClass; 7] = [
        ErrorClass::Network,
        ErrorClass::Timeout,
        ErrorClass::RateLimited,
        ErrorClass::Overloaded,
        ErrorClass::Server,
        ErrorClass::Credential,
        ErrorClass::NotFound,
    ];

    /// Its name in the configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            ErrorClass::Network => "network",
            ErrorClass::Timeout => "timeout",
            ErrorClass::RateLimited => "rate_limited",
            ErrorClass::Overloaded => "overloaded",
            ErrorClass::Server => "server",
            ErrorClass::Credential => "credential",
            ErrorClass::NotFound => "not_found",
        }
    }
}

/// A capability.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CapabilityEntry {
    /// Files below a folder.
    Files {
        /// The folder.
        root: PathBuf,
        /// Whether they may be changed.
        writable: bool,
        /// Whether somebody is asked before each change.
        approve: bool,
    },
    /// Commands that start in a folder. Somebody is asked before each.
    Command {
        /// The folder.
        root: PathBuf,
        /// Whether shells may be given scripts.
        shell: bool,
    },
    /// Exact arithmetic.
    Calculator,
}

impl CapabilityEntry {
    /// What it is, in a word of the configuration. Two of a kind hold the same tools.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            CapabilityEntry::Files { .. } => "files",
            CapabilityEntry::Command { .. } => "command",
            CapabilityEntry::Calculator => "calculator",
        }
    }

    /// Whether somebody is asked before some of its tools run.
    #[must_use]
    pub fn asks(&self) -> bool {
        match self {
            CapabilityEntry::Files { approve, .. } => *approve,
            CapabilityEntry::Command { .. } => true,
            CapabilityEntry::Calculator => false,
        }
    }
}

/// Who is asked for approvals.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ApprovalEntry {
    /// Where the questions are posted.
    pub url: String,
    /// How long an answer may take. Then it is a no.
    pub timeout: Duration,
    /// What the questions are sent with as a bearer's token.
    pub key: Option<Secret>,
}

/// A configuration that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file, or words for what was read.
    pub file: String,
    /// Everything that is wrong, in the order of the lines.
    pub problems: Vec<Problem>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.problems.len();
        write!(f, "{} cannot be used: {count} {}", self.file, if count == 1 { "problem" } else { "problems" })?;
        for problem in &self.problems {
            write!(f, "\n  {problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// [`ConfigError`] with everything that is wrong.
    pub fn read(path: &Path, lookup: &Lookup) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|error| ConfigError {
            file: path.display().to_string(),
            problems: vec![Problem {
                line: 1,
                setting: String::new(),
                problem: format!("it cannot be read: {error}"),
                hint: Some(
                    "name another file with --config, or leave it out to serve what the environment knows".into(),
                ),
            }],
        })?;
        let base = path.parent().unwrap_or(Path::new(""));
        let mut config = Config::parse(&text, &path.display().to_string(), base, lookup)?;
        config.file = Some(path.to_owned());
        Ok(config)
    }

    /// Reads a text. Files that it names are looked for below `base`.
    ///
    /// # Errors
    /// [`ConfigError`] with everything that is wrong.
    pub fn parse(text: &str, file: &str, base: &Path, lookup: &Lookup) -> Result<Self, ConfigError> {
        document::parse(text, base, lookup).map_err(|problems| ConfigError { file: file.to_owned(), problems })
    }

    /// What is served without a file: every provider whose key (or place) the environment knows, by the names of its models,
    /// and the models that need neither key nor network.
    ///
    /// # Errors
    /// [`ConfigError`] where a variable holds an address that is none.
    pub fn discovered(lookup: &Lookup) -> Result<Self, ConfigError> {
        document::discovered(lookup).map_err(|problems| ConfigError { file: "the environment".to_owned(), problems })
    }
}

impl Default for Config {
    fn default() -> Self {
        Config {
            file: None,
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
            hosts: Vec::new(),
            origins: Vec::new(),
            keys: Vec::new(),
            providers: IndexMap::new(),
            models: IndexMap::new(),
            routes: IndexMap::new(),
            approval: None,
            capabilities: IndexMap::new(),
            capability_lines: HashMap::new(),
            agents: IndexMap::new(),
            flows: IndexMap::new(),
            default_model: None,
            open: true,
            strict: false,
            timeouts: Timeouts::default(),
            limits: Limits::default(),
            store: None,
            metrics: true,
            boards: None,
        }
    }
}

#[cfg(test)]
mod check_tests;
#[cfg(test)]
mod tests;
