//! Who decides whether a call that is right may run: a policy, and a human where the policy or the tool asks for one.

use async_trait::async_trait;
use placet_core::event::ApprovalRequested;
use placet_core::{ApprovalId, CapabilityId, Origins, RunId, ToolCall, ToolDefinition};
use serde_json::{Map, Value};
use std::sync::Arc;

use crate::context::Private;

/// What a policy may look at.
#[derive(Debug)]
#[non_exhaustive]
pub struct PolicyRequest<'a> {
    /// The call.
    pub call: &'a ToolCall,
    /// Its arguments, already checked against the schema and the tool's own rules.
    pub arguments: &'a Map<String, Value>,
    /// The tool, its effect included.
    pub tool: &'a ToolDefinition,
    /// The capability that holds it.
    pub capability: &'a CapabilityId,
    /// The run, where there is one.
    pub run: Option<&'a RunId>,
    /// The revision that the decision rests on, where the tool has one.
    pub revision: Option<&'a str>,
    /// Where what the caller has read so far came from.
    pub origins: &'a Origins,
    /// Values that code handed over.
    pub private: &'a Private,
}

/// What a policy answers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// It may run.
    Allow,
    /// It may not. The reason goes to the model.
    Deny {
        /// Why, in a sentence.
        reason: String,
    },
    /// A human is to be asked.
    Ask {
        /// The question, in a sentence.
        question: String,
    },
}

impl Verdict {
    /// No, because.
    pub fn deny(reason: impl Into<String>) -> Self {
        Verdict::Deny { reason: reason.into() }
    }

    /// Ask a human.
    pub fn ask(question: impl Into<String>) -> Self {
        Verdict::Ask { question: question.into() }
    }

    /// Reads a verdict that came from outside: `{"verdict": "allow"}`, `{"verdict": "deny", "reason": …}` or
    /// `{"verdict": "ask", "question": …}`. Anything else denies.
    #[must_use]
    pub fn from_value(value: &Value) -> Self {
        let field = |name: &str| value.get(name).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty());
        match (field("verdict"), field("reason"), field("question")) {
            (Some("allow"), _, _) => Verdict::Allow,
            (Some("deny"), reason, _) => Verdict::deny(reason.unwrap_or("the policy gave no reason")),
            (Some("ask"), _, Some(question)) => Verdict::ask(question),
            _ => Verdict::deny("the policy's answer cannot be read"),
        }
    }
}

/// A policy failed, and so the call is denied. The text is kept for the journal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the policy failed: {0}")]
pub struct PolicyFailure(pub String);

/// Decides whether a call may run. It fails closed: an error, a panic, a blank question or no answer in time denies.
#[async_trait]
pub trait Policy: Send + Sync {
    /// Judges one call.
    ///
    /// # Errors
    /// [`PolicyFailure`] when it cannot tell; the call is denied.
    async fn judge(&self, request: &PolicyRequest<'_>) -> Result<Verdict, PolicyFailure>;
}

/// Allows everything that got this far.
#[derive(Debug, Clone, Copy, Default)]
pub struct AllowAll;

#[async_trait]
impl Policy for AllowAll {
    async fn judge(&self, _request: &PolicyRequest<'_>) -> Result<Verdict, PolicyFailure> {
        Ok(Verdict::Allow)
    }
}

/// A policy made of a function that need not wait.
#[derive(Clone)]
pub struct PolicyFn<F>(pub F);

impl<F> std::fmt::Debug for PolicyFn<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PolicyFn")
    }
}

#[async_trait]
impl<F> Policy for PolicyFn<F>
where
    F: Fn(&PolicyRequest<'_>) -> Verdict + Send + Sync,
{
    async fn judge(&self, request: &PolicyRequest<'_>) -> Result<Verdict, PolicyFailure> {
        Ok((self.0)(request))
    }
}

/// What a human answered. It names the question and the content that were shown, so that an answer to another question,
/// or to other content, approves nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Decision {
    /// The question that was answered.
    pub approval: ApprovalId,
    /// The hash of the content that was shown.
    pub content_hash: String,
    /// Yes or no.
    pub approved: bool,
    /// Who decided.
    pub by: String,
    /// Why.
    pub reason: Option<String>,
}

impl Decision {
    /// Yes to this question.
    pub fn approve(question: &ApprovalRequested, by: impl Into<String>) -> Self {
        Decision {
            approval: question.approval.clone(),
            content_hash: question.content_hash.clone(),
            approved: true,
            by: by.into(),
            reason: None,
        }
    }

    /// No to this question.
    pub fn deny(question: &ApprovalRequested, by: impl Into<String>, reason: Option<String>) -> Self {
        Decision { approved: false, reason, ..Decision::approve(question, by) }
    }
}

/// Asking a human failed, and so the call is denied. The text is kept for the journal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("nobody could be asked: {0}")]
pub struct ApproverFailure(pub String);

/// Asks a human. It fails closed: an error, a panic, an answer to something else, or no answer in time denies.
#[async_trait]
pub trait Approver: Send + Sync {
    /// Puts the question and waits for the answer. Dropped when the time is up or the run is cancelled.
    ///
    /// # Errors
    /// [`ApproverFailure`] when nobody can be asked; the call is denied.
    async fn decide(
        &self,
        question: &ApprovalRequested,
        request: &PolicyRequest<'_>,
    ) -> Result<Decision, ApproverFailure>;
}

#[async_trait]
impl<P: Policy + ?Sized> Policy for Arc<P> {
    async fn judge(&self, request: &PolicyRequest<'_>) -> Result<Verdict, PolicyFailure> {
        (**self).judge(request).await
    }
}

#[async_trait]
impl<A: Approver + ?Sized> Approver for Arc<A> {
    async fn decide(
        &self,
        question: &ApprovalRequested,
        request: &PolicyRequest<'_>,
    ) -> Result<Decision, ApproverFailure> {
        (**self).decide(question, request).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_malformed_verdict_denies() {
        assert_eq!(Verdict::from_value(&json!({"verdict": "allow"})), Verdict::Allow);
        assert_eq!(Verdict::from_value(&json!({"verdict": "ask", "question": "Sure?"})), Verdict::ask("Sure?"));
        for odd in [
            json!({}),
            json!(true),
            json!("allow"),
            json!({"allowed": true}),
            json!({"verdict": true}),
            json!({"verdict": "Allow"}),
            json!({"verdict": "ask"}),
            json!({"verdict": "ask", "question": "  "}),
        ] {
            assert!(matches!(Verdict::from_value(&odd), Verdict::Deny { .. }), "{odd}");
        }
    }
}
