//! Rules as data: JSON Schemas, expressions and webhooks that stand with the board.

use super::expression::{Expression, Scope};
use super::{Proposed, Termination, Verdict, Webhooks};
use crate::error::{BoardError, Result};
use crate::reader::Reader;
use placet_net::Url;
use placet_tools::Validator;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::fmt;

/// The rules of a board as data. They count in every process that serves it, beside what a process has in code.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct StoredRules {
    /// What every proposed write must pass, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub admission: Vec<StoredRule>,
    /// What is asked before silence ends the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub termination: Option<StoredTermination>,
}

impl StoredRules {
    /// No rules.
    #[must_use]
    pub fn new() -> Self {
        StoredRules::default()
    }

    /// Adds a rule.
    #[must_use]
    pub fn rule(mut self, rule: StoredRule) -> Self {
        self.admission.push(rule);
        self
    }

    /// Sets what is asked before silence ends the run.
    #[must_use]
    pub fn termination(mut self, termination: StoredTermination) -> Self {
        self.termination = Some(termination);
        self
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.admission.is_empty() && self.termination.is_none()
    }

    /// Checks that they can be asked.
    ///
    /// # Errors
    /// [`BoardError::InvalidSpec`] says of the first that cannot what is wrong with it.
    pub fn check(&self) -> Result<()> {
        let Some(compiled) = Compiled::of(self)? else { return Ok(()) };
        compiled.admission.iter().try_for_each(|rule| rule.question.check(&OF_A_WRITE))?;
        compiled.termination.iter().try_for_each(|question| question.check(&OF_A_BOARD))
    }
}

/// One rule: for the regions and writers that it names, or for all. It has exactly one of schema, expression and webhook.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredRule {
    /// The regions that it judges; all where it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regions: Option<BTreeSet<String>>,
    /// The writers that it judges; all where it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writers: Option<BTreeSet<String>>,
    /// A JSON Schema that the content must follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// An [`Expression`] that must be true. It knows `writer`, `region`, `kind`, `content`, `size` (the content's bytes) and
    /// `expected_version`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expression: Option<String>,
    /// A URL that is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<String>,
    /// What a refused writer reads; where it is not said, what the rule found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What is asked before silence ends the run: exactly one of expression and webhook.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredTermination {
    /// An [`Expression`] that is true when the work is done. It knows `sequence`, the last of the board, and `premises`, their
    /// values by name (`null` where one has none).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expression: Option<String>,
    /// A URL that is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<String>,
}

/// Rules that can be asked.
#[derive(Debug)]
pub(crate) struct Compiled {
    admission: Vec<Rule>,
    termination: Option<Question>,
}

struct Rule {
    regions: Option<BTreeSet<String>>,
    writers: Option<BTreeSet<String>>,
    reason: Option<String>,
    question: Question,
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule").field("regions", &self.regions).field("question", &self.question).finish_non_exhaustive()
    }
}

#[derive(Debug)]
enum Question {
    Schema(Box<Validator>),
    Expression(Expression),
    Webhook(String),
}

/// What expressions know of a proposed write, and of a board.
const OF_A_WRITE: [&str; 6] = ["writer", "region", "kind", "content", "size", "expected_version"];
const OF_A_BOARD: [&str; 2] = ["sequence", "premises"];

fn invalid(problem: String) -> BoardError {
    BoardError::InvalidSpec { problem }
}

impl Question {
    fn of(schema: Option<&Value>, expression: Option<&String>, webhook: Option<&String>) -> Result<Self> {
        match (schema, expression, webhook) {
            (Some(schema), None, None) => match Validator::compile(schema) {
                Ok(validator) => Ok(Question::Schema(Box::new(validator))),
                Err(error) => Err(invalid(format!("a rule's schema is none: {error}"))),
            },
            (None, Some(text), None) => match Expression::parse(text) {
                Ok(expression) => Ok(Question::Expression(expression)),
                Err(error) => Err(invalid(error.to_string())),
            },
            (None, None, Some(url)) => Ok(Question::Webhook(url.clone())),
            _ => Err(invalid("a rule has exactly one of schema, expression and webhook".to_owned())),
        }
    }
}

impl Question {
    /// Checks what would only be found out when it is asked.
    fn check(&self, known: &[&str]) -> Result<()> {
        match self {
            Question::Schema(_) => Ok(()),
            Question::Expression(expression) => {
                expression.check_names(known).map_err(|error| invalid(error.to_string()))
            }
            Question::Webhook(url) => match Url::parse(url) {
                Ok(_) => Ok(()),
                Err(error) => Err(invalid(format!("a rule's webhook cannot be asked: {error}"))),
            },
        }
    }
}

impl Compiled {
    pub(crate) fn of(rules: &StoredRules) -> Result<Option<Self>> {
        if rules.is_empty() {
            return Ok(None);
        }
        let rule = |rule: &StoredRule| {
            let question = Question::of(rule.schema.as_ref(), rule.expression.as_ref(), rule.webhook.as_ref())?;
            let (regions, writers) = (rule.regions.clone(), rule.writers.clone());
            Ok(Rule { regions, writers, reason: rule.reason.clone(), question })
        };
        let admission = rules.admission.iter().map(rule).collect::<Result<_>>()?;
        let termination = match &rules.termination {
            None => None,
            Some(asked) => Some(Question::of(None, asked.expression.as_ref(), asked.webhook.as_ref())?),
        };
        Ok(Some(Compiled { admission, termination }))
    }

    pub(crate) fn judges(&self) -> bool {
        !self.admission.is_empty()
    }

    pub(crate) fn terminates(&self) -> bool {
        self.termination.is_some()
    }

    /// What the rules say of a write, the first that refuses it.
    pub(crate) async fn judge(
        &self,
        proposed: &Proposed,
        board: &Reader,
        webhooks: Option<&dyn Webhooks>,
    ) -> Result<Verdict> {
        let mut value = None;
        for rule in &self.admission {
            let named =
                |names: &Option<BTreeSet<String>>, name| names.as_ref().is_none_or(|names| names.contains(name));
            if !named(&rule.regions, proposed.region()) || !named(&rule.writers, proposed.writer()) {
                continue;
            }
            let found = match &rule.question {
                Question::Webhook(url) => match ask(webhooks)?.judge(url, board.board_id(), proposed).await? {
                    Verdict::Accept => None,
                    Verdict::Reject(reason) => Some(reason),
                },
                question => {
                    if value.is_none() {
                        match proposed.content().to_value() {
                            Ok(content) => value = Some(content),
                            Err(error) => return Ok(Verdict::Reject(error.to_string())),
                        }
                    }
                    look(question, proposed, value.as_ref().unwrap_or(&Value::Null))
                }
            };
            if let Some(found) = found {
                return Ok(Verdict::Reject(rule.reason.clone().unwrap_or(found)));
            }
        }
        Ok(Verdict::Accept)
    }

    /// What the predicate says; that the work is done where there is none.
    pub(crate) async fn decide(&self, board: &Reader, webhooks: Option<&dyn Webhooks>) -> Result<Termination> {
        let expression = match &self.termination {
            None | Some(Question::Schema(_)) => return Ok(Termination::Complete),
            Some(Question::Webhook(url)) => return ask(webhooks)?.decide(url, board.board_id()).await,
            Some(Question::Expression(expression)) => expression,
        };
        let mut premises = Map::new();
        for region in board.read_regions().await? {
            if region.kind != crate::model::RegionKind::Premise {
                continue;
            }
            let value = match board.read_premise(&region.name).await {
                Ok(state) => state.value.to_value()?,
                Err(BoardError::UnsetPremise { .. }) => Value::Null,
                Err(error) => return Err(error),
            };
            premises.insert(region.name.to_string(), value);
        }
        let scope = Scope::from([("sequence", json!(board.head().await?)), ("premises", Value::Object(premises))]);
        match expression.holds(&scope) {
            Ok(true) => Ok(Termination::Complete),
            Ok(false) => Ok(Termination::Continue),
            Err(error) => Err(BoardError::Rule { problem: error.to_string() }),
        }
    }
}

fn ask(webhooks: Option<&dyn Webhooks>) -> Result<&dyn Webhooks> {
    webhooks.ok_or_else(|| BoardError::Rule { problem: "this process asks no webhooks".to_owned() })
}

/// What is wrong with a write, if something is.
fn look(question: &Question, proposed: &Proposed, content: &Value) -> Option<String> {
    match question {
        Question::Webhook(_) => None,
        Question::Schema(validator) => {
            let problems = validator.problems(content);
            let told = problems.iter().map(|problem| match problem.path.as_str() {
                "" => problem.problem.clone(),
                path => format!("{path}: {}", problem.problem),
            });
            let told: Vec<_> = told.collect();
            (!told.is_empty()).then(|| told.join("; "))
        }
        Question::Expression(expression) => {
            let (kind, version) = match proposed {
                Proposed::Contribution { .. } => ("level", Value::Null),
                Proposed::Premise { expected_version, .. } => ("premise", json!(expected_version)),
            };
            let scope = Scope::from([
                ("writer", json!(proposed.writer())),
                ("region", json!(proposed.region())),
                ("kind", json!(kind)),
                ("content", content.clone()),
                ("size", json!(proposed.content().as_bytes().len())),
                ("expected_version", version),
            ]);
            match expression.holds(&scope) {
                Ok(true) => None,
                Ok(false) => Some(format!("it does not hold that {expression}")),
                Err(error) => Some(error.to_string()),
            }
        }
    }
}
