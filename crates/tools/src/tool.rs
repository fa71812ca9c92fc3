//! Tools: a definition, which only says something, and a bound tool, which can do it.

use crate::answer::{IntoAnswer, ToolError, ToolOutput};
use crate::context::ToolContext;
use crate::pipeline::bound::Bounds;
use crate::schema::{self, Validator, schema_of};
use crate::wiring::WiringError;
use placet_core::{BoxFuture, CapabilityId, Effect, Origins, Schema, ToolDefinition, ToolName};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::fmt;
use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A tool whose schema comes from the type of its arguments.
///
/// The handler takes the arguments and a [`ToolContext`], and returns text, any serialisable value, a [`ToolOutput`], or
/// a `Result` of one of these and a [`ToolError`]. The effect is *read* unless [`ToolBuilder::effect`] says otherwise.
///
/// ```
/// use placet_tools::{ToolError, tool};
/// # use schemars::JsonSchema; use serde::Deserialize;
/// #[derive(Deserialize, JsonSchema)]
/// struct Divide { dividend: f64, divisor: f64 }
///
/// let divide = tool("divide", "Divides one number by another.", |args: Divide, _cx| async move {
///     if args.divisor == 0.0 {
///         return Err(ToolError::mistaken("the divisor is 0; give another number").at("/divisor"));
///     }
///     Ok(args.dividend / args.divisor)
/// });
/// ```
pub fn tool<T, F, Fut, M>(name: impl Into<ToolName>, description: impl Into<String>, handler: F) -> ToolBuilder<T>
where
    T: JsonSchema + DeserializeOwned + Send + Sync + 'static,
    F: Fn(T, ToolContext) -> Fut + Send + Sync + 'static,
    Fut: Future + Send + 'static,
    Fut::Output: IntoAnswer<M>,
    M: 'static,
{
    let definition = ToolDefinition {
        name: name.into(),
        description: description.into(),
        schema: schema_of::<T>(),
        effect: Effect::Read,
        revision_argument: None,
        strict: None,
        cache: None,
        native: None,
    };
    ToolBuilder::new(definition, Vec::new(), handler)
}

/// What a model is told of a tool, without anything that could act. It stays bare for good: [`Definition::bind`] makes
/// a copy with a handler, so one definition may have several bindings, or none.
#[derive(Clone, Debug)]
pub struct Definition {
    definition: ToolDefinition,
    problems: Vec<String>,
}

impl Definition {
    /// A definition whose parameters are given as JSON, in full or in the short form; see
    /// [`parameters`](schema::parameters). What is wrong with them is reported where tools are put together.
    pub fn new(name: impl Into<ToolName>, description: impl Into<String>, parameters: Value) -> Self {
        let (schema, problems) = match schema::parameters(parameters) {
            Ok(schema) => (schema, Vec::new()),
            Err(error) => (Schema::empty_object(), vec![error.to_string()]),
        };
        let definition = ToolDefinition {
            name: name.into(),
            description: description.into(),
            schema,
            effect: Effect::Read,
            revision_argument: None,
            strict: None,
            cache: None,
            native: None,
        };
        Definition { definition, problems }
    }

    /// Says what running the tool twice would do.
    #[must_use]
    pub fn effect(mut self, effect: Effect) -> Self {
        self.definition.effect = effect;
        self
    }

    /// Names the argument that carries the revision which the caller's decision rests on.
    #[must_use]
    pub fn revision(mut self, argument: impl Into<String>) -> Self {
        self.definition.revision_argument = Some(argument.into());
        self
    }

    /// Whether a provider may hold the model to the schema while it writes (a hint).
    #[must_use]
    pub fn strict(mut self, strict: bool) -> Self {
        self.definition.strict = Some(strict);
        self
    }

    /// The definition as the vocabulary has it.
    #[must_use]
    pub fn as_definition(&self) -> &ToolDefinition {
        &self.definition
    }

    /// A copy of the definition with a handler. The type of the handler's arguments is compared with the schema by
    /// structure; where they do not agree, the tool is reported before anything is sent.
    pub fn bind<T, F, Fut, M>(&self, handler: F) -> ToolBuilder<T>
    where
        T: JsonSchema + DeserializeOwned + Send + Sync + 'static,
        F: Fn(T, ToolContext) -> Fut + Send + Sync + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: IntoAnswer<M>,
        M: 'static,
    {
        let mut problems = self.problems.clone();
        if problems.is_empty() {
            let handler = schema_of::<T>();
            problems.extend(schema::differences(self.definition.schema.as_value(), handler.as_value()));
        }
        ToolBuilder::new(self.definition.clone(), problems, handler)
    }

    pub(crate) fn problems(&self) -> &[String] {
        &self.problems
    }
}

/// A definition that came from elsewhere: off the wire, out of a journal. It is bare.
impl From<ToolDefinition> for Definition {
    fn from(definition: ToolDefinition) -> Self {
        Definition { definition, problems: Vec::new() }
    }
}

/// Whether a call may run beside others of its round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Concurrency {
    /// Beside other parallel calls, up to the limit.
    Parallel,
    /// Alone: after all calls before it, and before all calls after it.
    Exclusive,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) timeout: Option<Duration>,
    pub(crate) concurrency: Option<Concurrency>,
    pub(crate) origin: Origins,
    pub(crate) bounds: Option<Bounds>,
    pub(crate) facts: Map<String, Value>,
}

type Rule<T> = Box<dyn Fn(&T) -> Result<(), ToolError> + Send + Sync>;
type Question<T> = Box<dyn Fn(&T) -> Option<String> + Send + Sync>;
type Dry<T> = Box<dyn Fn(&T, ToolContext) -> BoxFuture<'static, Result<(), ToolError>> + Send + Sync>;
type Current<T> = Box<dyn Fn(&T, ToolContext) -> BoxFuture<'static, Result<Option<String>, ToolError>> + Send + Sync>;
type Run<T> = Box<dyn Fn(T, ToolContext) -> BoxFuture<'static, Result<ToolOutput, ToolError>> + Send + Sync>;

struct Parts<T> {
    rules: Vec<Rule<T>>,
    question: Option<Question<T>>,
    current: Option<Current<T>>,
    dry: Option<Dry<T>>,
    run: Run<T>,
}

/// A tool with everything that belongs to it, being put together. What is wrong is kept and reported where tools are put together.
#[must_use = "a tool does nothing until it is granted"]
pub struct ToolBuilder<T> {
    definition: ToolDefinition,
    problems: Vec<String>,
    settings: Settings,
    parts: Parts<T>,
}

impl<T: DeserializeOwned + Send + Sync + 'static> ToolBuilder<T> {
    fn new<F, Fut, M>(definition: ToolDefinition, problems: Vec<String>, handler: F) -> Self
    where
        F: Fn(T, ToolContext) -> Fut + Send + Sync + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: IntoAnswer<M>,
        M: 'static,
    {
        let run: Run<T> = Box::new(move |arguments, context| {
            let answer = handler(arguments, context);
            Box::pin(async move { answer.await.into_answer() })
        });
        let parts = Parts { rules: Vec::new(), question: None, current: None, dry: None, run };
        ToolBuilder { definition, problems, settings: Settings::default(), parts }
    }

    /// Says what running the tool twice would do.
    pub fn effect(mut self, effect: Effect) -> Self {
        self.definition.effect = effect;
        self
    }

    /// Whether a provider may hold the model to the schema while it writes (a hint).
    pub fn strict(mut self, strict: bool) -> Self {
        self.definition.strict = Some(strict);
        self
    }

    /// How long the handler may take; two minutes unless something else is said.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = Some(timeout);
        self
    }

    /// Names the argument that carries the revision which the caller's decision rests on. Give
    /// [`ToolBuilder::current_revision`] too, else nothing is compared.
    pub fn revision(mut self, argument: impl Into<String>) -> Self {
        self.definition.revision_argument = Some(argument.into());
        self
    }

    /// Tells the revision that is current, for a call with these arguments; `None` where there is none (yet).
    pub fn current_revision<F, Fut>(mut self, current: F) -> Self
    where
        T: Clone,
        F: Fn(T, ToolContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Option<String>, ToolError>> + Send + 'static,
    {
        self.parts.current = Some(Box::new(move |arguments, cx| Box::pin(current(arguments.clone(), cx))));
        self
    }

    /// Adds a rule that a schema cannot say. Rules are asked in order, after the schema, and look at nothing but the
    /// arguments.
    pub fn domain<F>(mut self, rule: F) -> Self
    where
        F: Fn(&T) -> Result<(), ToolError> + Send + Sync + 'static,
    {
        self.parts.rules.push(Box::new(rule));
        self
    }

    /// Checks, without changing anything, whether the call can be done now.
    pub fn possible<F, Fut>(mut self, check: F) -> Self
    where
        T: Clone,
        F: Fn(T, ToolContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), ToolError>> + Send + 'static,
    {
        self.parts.dry = Some(Box::new(move |arguments, cx| Box::pin(check(arguments.clone(), cx))));
        self
    }

    /// Asks a human first, whatever the policy allows: for a call with these arguments, with this question, or not for `None`. A grant
    /// can lift this with [`Grant::preapproved`](crate::Grant::preapproved).
    pub fn ask_first<F>(mut self, question: F) -> Self
    where
        F: Fn(&T) -> Option<String> + Send + Sync + 'static,
    {
        self.parts.question = Some(Box::new(question));
        self
    }

    /// Where the tool's content comes from, where an output does not say it itself. Without it, it is the tool's own.
    pub fn origin(mut self, origin: impl Into<Origins>) -> Self {
        self.settings.origin = origin.into();
        self
    }

    /// A fact that every outcome of a call carries for the journal, whichever stage answers; a handler's own of that name
    /// stands above it.
    pub fn fact(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.settings.facts.insert(name.into(), value.into());
        self
    }

    /// Runs alone in its round. So do all tools whose effect is not *read*, unless they say [`ToolBuilder::parallel`].
    pub fn exclusive(mut self) -> Self {
        self.settings.concurrency = Some(Concurrency::Exclusive);
        self
    }

    /// May run beside others of its round. So may all *read* tools, unless they say [`ToolBuilder::exclusive`].
    pub fn parallel(mut self) -> Self {
        self.settings.concurrency = Some(Concurrency::Parallel);
        self
    }

    /// How much of an output is kept.
    pub fn bounds(mut self, bounds: Bounds) -> Self {
        self.settings.bounds = Some(bounds);
        self
    }

    /// The tool.
    #[must_use]
    pub fn build(self) -> BoundTool {
        BoundTool(Arc::new(Bound {
            definition: Arc::new(self.definition),
            problems: self.problems,
            settings: self.settings,
            body: Arc::new(Body { parts: Arc::new(self.parts) }),
            checked: OnceLock::new(),
        }))
    }
}

impl<T: DeserializeOwned + Send + Sync + 'static> From<ToolBuilder<T>> for BoundTool {
    fn from(builder: ToolBuilder<T>) -> Self {
        builder.build()
    }
}

impl<T> fmt::Debug for ToolBuilder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolBuilder").field("name", &self.definition.name).finish_non_exhaustive()
    }
}

/// A definition with a handler. Cheap to clone; its schema is compiled once for all clones.
#[derive(Clone)]
pub struct BoundTool(Arc<Bound>);

struct Bound {
    definition: Arc<ToolDefinition>,
    problems: Vec<String>,
    settings: Settings,
    body: Arc<dyn Handler>,
    checked: OnceLock<Checked>,
}

/// What looking at a tool once has given.
struct Checked {
    validator: Result<Arc<Validator>, String>,
    bad_examples: Vec<(String, String)>,
}

impl BoundTool {
    /// The definition.
    #[must_use]
    pub fn definition(&self) -> &Arc<ToolDefinition> {
        &self.0.definition
    }

    /// The name that a model calls it by.
    #[must_use]
    pub fn name(&self) -> &ToolName {
        &self.0.definition.name
    }

    /// What running it twice would do.
    #[must_use]
    pub fn effect(&self) -> Effect {
        self.0.definition.effect
    }

    /// Whether a call may run beside others of its round.
    #[must_use]
    pub fn concurrency(&self) -> Concurrency {
        self.0.settings.concurrency.unwrap_or(match self.effect() {
            Effect::Read => Concurrency::Parallel,
            Effect::Idempotent | Effect::Once => Concurrency::Exclusive,
        })
    }

    /// The facts that every outcome of a call carries, whichever stage answers.
    #[must_use]
    pub fn facts(&self) -> &Map<String, Value> {
        &self.0.settings.facts
    }

    /// How long the handler may take, where the tool says it.
    #[must_use]
    pub fn timeout(&self) -> Option<Duration> {
        self.0.settings.timeout
    }

    /// Everything that is wrong with the tool, for a capability of this id.
    #[must_use]
    pub fn problems(&self, capability: &CapabilityId) -> Vec<WiringError> {
        let name = self.name();
        let mut found = check_name(name, capability).into_iter().collect::<Vec<_>>();
        if self.0.definition.description.trim().is_empty() {
            found.push(WiringError::NoDescription { tool: name.clone(), capability: capability.clone() });
        }
        if !self.0.problems.is_empty() {
            found.push(WiringError::BrokenBinding { tool: name.clone(), problems: self.0.problems.clone() });
        }
        let checked = self.checked();
        if let Err(problem) = &checked.validator {
            found.push(WiringError::InvalidSchema { tool: name.clone(), problem: problem.clone() });
        }
        for (example, problem) in &checked.bad_examples {
            let (example, problem) = (example.clone(), problem.clone());
            found.push(WiringError::BadExample { tool: name.clone(), example, problem });
        }
        if let Some(argument) = &self.0.definition.revision_argument
            && self.0.definition.schema.as_value().pointer(&format!("/properties/{argument}")).is_none()
        {
            found.push(WiringError::NoRevisionArgument { tool: name.clone(), argument: argument.clone() });
        }
        found
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.0.settings
    }

    pub(crate) fn validator(&self) -> Option<&Arc<Validator>> {
        self.checked().validator.as_ref().ok()
    }

    pub(crate) fn prepare(&self, arguments: &Value) -> Result<Box<dyn Ready>, Unprepared> {
        self.0.body.prepare(arguments)
    }

    fn checked(&self) -> &Checked {
        self.0.checked.get_or_init(|| {
            let definition = &self.0.definition;
            let schema = definition.schema.as_value();
            let mut bad_examples = schema::bad_examples(&definition.description);
            schema::bad_examples_within(schema, &mut bad_examples);
            let validator = match schema.get("type") {
                Some(kind) if kind == "object" => Validator::compile(schema).map(Arc::new).map_err(|e| e.to_string()),
                _ => Err("the schema of arguments has to say \"type\": \"object\"".to_owned()),
            };
            Checked { validator, bad_examples }
        })
    }
}

impl fmt::Debug for BoundTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoundTool").field("name", self.name()).field("effect", &self.effect()).finish_non_exhaustive()
    }
}

/// A name is 1 to 128 letters, digits, `_`, `-`, `.`, `:` and `/`, beginning with a letter or `_`. To a provider that takes fewer
/// characters it goes under an alias.
fn check_name(name: &ToolName, capability: &CapabilityId) -> Option<WiringError> {
    let text = name.as_str();
    if text.trim().is_empty() {
        return Some(WiringError::BlankName { capability: capability.clone() });
    }
    let begins = text.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_');
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b':' | b'/');
    if begins && text.bytes().all(plain) && text.len() <= 128 {
        None
    } else {
        Some(WiringError::BadName { tool: name.clone(), capability: capability.clone() })
    }
}

/// Why arguments could not be prepared.
pub(crate) enum Unprepared {
    /// They do not fit the handler's type, though they follow the schema.
    Type {
        /// Where, as a JSON pointer.
        path: String,
        /// What the type says.
        problem: String,
    },
    /// They break a rule of the tool.
    Rule(ToolError),
}

/// A tool's handler with the type of its arguments hidden.
trait Handler: Send + Sync {
    fn prepare(&self, arguments: &Value) -> Result<Box<dyn Ready>, Unprepared>;
}

/// Arguments that passed every check of their own, with what can be done with them.
pub(crate) trait Ready: Send + Sync {
    /// What a human is to be asked first.
    fn question(&self) -> Option<String>;
    /// The revision that is current, where the tool can tell.
    fn current_revision(&self, cx: &ToolContext) -> Option<BoxFuture<'static, Result<Option<String>, ToolError>>>;
    /// The dry check, where the tool has one.
    fn possible(&self, cx: &ToolContext) -> Option<BoxFuture<'static, Result<(), ToolError>>>;
    /// The handler.
    fn run(self: Box<Self>, cx: ToolContext) -> BoxFuture<'static, Result<ToolOutput, ToolError>>;
}

struct Body<T> {
    parts: Arc<Parts<T>>,
}

struct ReadyWith<T> {
    arguments: T,
    parts: Arc<Parts<T>>,
}

impl<T: DeserializeOwned + Send + Sync + 'static> Handler for Body<T> {
    fn prepare(&self, arguments: &Value) -> Result<Box<dyn Ready>, Unprepared> {
        let arguments = match T::deserialize(arguments) {
            Ok(arguments) => arguments,
            // Only a value that does not fit pays for knowing where.
            Err(plain) => {
                return Err(match serde_path_to_error::deserialize::<_, T>(arguments) {
                    Err(error) => Unprepared::Type { path: pointer(error.path()), problem: error.inner().to_string() },
                    Ok(_) => Unprepared::Type { path: String::new(), problem: plain.to_string() },
                });
            }
        };
        for rule in &self.parts.rules {
            rule(&arguments).map_err(Unprepared::Rule)?;
        }
        Ok(Box::new(ReadyWith { arguments, parts: self.parts.clone() }))
    }
}

impl<T: Send + Sync + 'static> Ready for ReadyWith<T> {
    fn question(&self) -> Option<String> {
        self.parts.question.as_ref().and_then(|question| question(&self.arguments))
    }

    fn current_revision(&self, cx: &ToolContext) -> Option<BoxFuture<'static, Result<Option<String>, ToolError>>> {
        self.parts.current.as_ref().map(|current| current(&self.arguments, cx.clone()))
    }

    fn possible(&self, cx: &ToolContext) -> Option<BoxFuture<'static, Result<(), ToolError>>> {
        self.parts.dry.as_ref().map(|check| check(&self.arguments, cx.clone()))
    }

    fn run(self: Box<Self>, cx: ToolContext) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        (self.parts.run)(self.arguments, cx)
    }
}

/// A path of the deserialiser as a JSON pointer.
fn pointer(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;
    let mut out = String::new();
    for segment in path {
        match segment {
            Segment::Seq { index } => out.push_str(&format!("/{index}")),
            Segment::Map { key } | Segment::Enum { variant: key } => {
                out.push('/');
                out.push_str(&key.replace('~', "~0").replace('/', "~1"));
            }
            Segment::Unknown => {}
        }
    }
    out
}

/// The arguments of a handler that takes any object, for tools whose schema is only known when the program runs.
pub type AnyArguments = Map<String, Value>;
