//! Asks somebody over HTTP before a call runs. Whatever is no clear yes is a no.

use async_trait::async_trait;
use placet_core::event::ApprovalRequested;
use placet_core::{Redactor, Secret};
use placet_net::{Client, Request, Timeouts, Url};
use placet_tools::{Approver, ApproverFailure, Decision, PolicyRequest};
use serde_json::{Value, json};
use std::time::Duration;

/// The most bytes of an answer that are read.
const ANSWER: usize = 64 * 1024;

/// Posts each question as JSON and reads the decision from the answer.
pub(crate) struct PostedApprovals {
    pub(crate) client: Client,
    pub(crate) url: Url,
    pub(crate) key: Option<Secret>,
    /// How long an answer may take.
    pub(crate) patience: Duration,
    pub(crate) redactor: Redactor,
}

impl PostedApprovals {
    fn question(&self, question: &ApprovalRequested, request: &PolicyRequest<'_>) -> Value {
        let mut arguments = Value::Object(request.arguments.clone());
        self.redactor.redact_json(&mut arguments);
        json!({
            "approval": question.approval,
            "question": question.question,
            "tool": question.tool,
            "capability": question.capability,
            "arguments": arguments,
            "call": question.call,
            "run": request.run,
            "content_hash": question.content_hash,
        })
    }

    async fn ask(&self, question: &ApprovalRequested, body: &Value) -> Result<Value, String> {
        // The pipeline's clock is the one that counts; this one only lets nothing hang.
        let beyond = self.patience + Duration::from_secs(5);
        let timeouts = Timeouts { first_byte: Some(beyond), idle: Some(beyond), ..Timeouts::default() }.within(beyond);
        let request = Request::post_json(self.url.clone(), body.to_string())
            .timeouts(timeouts)
            .header("idempotency-key", question.approval.as_str())
            .map_err(|error| error.to_string())?;
        let request = match &self.key {
            Some(key) => request.bearer(key).map_err(|error| error.to_string())?,
            None => request,
        };
        // Dropped with the question, the request is broken off.
        let response = self.client.send_until_dropped(request).await.map_err(|error| error.to_string())?;
        if !response.status.is_success() {
            return Err(format!("the question was answered with {}", response.status));
        }
        let bytes = response.bytes(ANSWER).await.map_err(|error| error.to_string())?;
        serde_json::from_slice(&bytes).map_err(|error| format!("the answer is no JSON: {error}"))
    }
}

#[async_trait]
impl Approver for PostedApprovals {
    async fn decide(
        &self,
        question: &ApprovalRequested,
        request: &PolicyRequest<'_>,
    ) -> Result<Decision, ApproverFailure> {
        let answer = self.ask(question, &self.question(question, request)).await.map_err(ApproverFailure)?;
        read(question, &answer)
    }
}

/// `{"approve": true}`, or `{"deny": "why"}` (or `{"approve": false}`); with `by`, who says so.
fn read(question: &ApprovalRequested, answer: &Value) -> Result<Decision, ApproverFailure> {
    let by = answer.get("by").and_then(Value::as_str).map(str::trim).filter(|by| !by.is_empty());
    let by = by.unwrap_or("approval hook");
    match (answer.get("approve"), answer.get("deny")) {
        (Some(Value::Bool(true)), None) => Ok(Decision::approve(question, by)),
        (Some(Value::Bool(false)), None) => Ok(Decision::deny(question, by, None)),
        (None | Some(Value::Bool(false)), Some(Value::String(why))) => {
            Ok(Decision::deny(question, by, Some(why.clone())))
        }
        _ => Err(ApproverFailure("the answer holds neither {\"approve\": true} nor {\"deny\": \"why\"}".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn only_a_clear_yes_is_one() {
        let question: ApprovalRequested = serde_json::from_value(json!({
            "approval": "appr_1", "call": "call_1", "tool": "write", "question": "May it?", "content_hash": "00",
        }))
        .unwrap();
        let read = |answer: Value| super::read(&question, &answer);
        let yes = read(json!({"approve": true, "by": "ann"})).unwrap();
        assert_eq!((yes.approved, yes.by.as_str()), (true, "ann"));
        let no = read(json!({"deny": "not today"})).unwrap();
        assert_eq!((no.approved, no.reason.as_deref()), (false, Some("not today")));
        assert!(!read(json!({"approve": false})).unwrap().approved);
        for odd in [
            json!(true),
            json!({}),
            json!({"approve": "yes"}),
            json!({"approve": 1}),
            json!({"approve": true, "deny": "why"}),
            json!({"deny": true}),
            json!(["approve"]),
        ] {
            assert!(read(odd.clone()).is_err(), "{odd}");
        }
    }
}
