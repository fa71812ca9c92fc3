//! What a board sends by itself: notifications to addresses, and questions to rules behind a URL.
//!
//! Where it goes was said by whoever registered an agent or opened a board, so the client is one that only reaches public
//! addresses unless somebody allowed more: see [`placet_net::AddressPolicy`].

use crate::content::Content;
use crate::error::{BoardError, Result};
use crate::name::BoardId;
use crate::notify::{DeliveryFailure, Notification, Transport};
use crate::rules::{Proposed, Termination, Verdict, Webhooks};
use async_trait::async_trait;
use bytes::Bytes;
use hmac::{Hmac, KeyInit as _, Mac as _};
use placet_core::Secret;
use placet_net::{Client, NetError, Request, Timeouts, Url, retry_after};
use serde::Serialize;
use serde_json::json;
use sha2::Sha256;
use std::fmt;
use std::fmt::Write as _;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The header that a signature stands in.
///
/// Its value is `t=SECONDS,v1=HEX`: the instant of sending in seconds since 1970, and the HMAC-SHA-256 of that number, a
/// dot and the body under the shared secret. Whoever checks it refuses an instant that is minutes old.
pub const SIGNATURE_HEADER: &str = "x-placet-signature";

/// The most bytes that an answer is read of.
const ANSWER_BYTES: usize = 64 * 1024;

/// Carries notifications to addresses and asks rules behind URLs, over HTTP. Cheap to clone.
///
/// It sends once: what did not arrive stays owed, and is sent again by whoever relays.
#[derive(Clone)]
pub struct Outgoing {
    client: Client,
    secret: Option<Secret>,
    timeouts: Timeouts,
}

impl Outgoing {
    /// Sends through this client, waiting ten seconds for an answer.
    #[must_use]
    pub fn new(client: Client) -> Self {
        let timeouts = Timeouts { first_byte: Some(Duration::from_secs(10)), ..Timeouts::default() };
        Outgoing { client, secret: None, timeouts: timeouts.within(Duration::from_secs(15)) }
    }

    /// Signs what it sends, so that the other side knows who sent it.
    #[must_use]
    pub fn signed_with(mut self, secret: Secret) -> Self {
        self.secret = Some(secret);
        self
    }

    /// Waits for this long.
    #[must_use]
    pub fn timeouts(mut self, timeouts: Timeouts) -> Self {
        self.timeouts = timeouts;
        self
    }

    async fn post(&self, url: &str, body: Bytes) -> Result<Answer, NetError> {
        let mut request = Request::post_json(Url::parse(url)?, body.clone()).timeouts(self.timeouts);
        if let Some(secret) = &self.secret {
            let seconds = self.client.env().now().as_millis().div_euclid(1000);
            request = request.header(SIGNATURE_HEADER, &signature(secret, seconds, &body))?;
        }
        let response = self.client.send(request, &CancellationToken::new()).await?;
        let status = response.status.as_u16();
        let retry_after = retry_after(&response.headers, None, self.client.env().now());
        Ok(Answer { status, retry_after, body: response.bytes(ANSWER_BYTES).await? })
    }

    /// Sends a question as JSON, and gives the answer.
    ///
    /// # Errors
    /// [`BoardError::Rule`] where there is none, or it is no success, or not JSON.
    pub async fn call(&self, url: &str, question: &serde_json::Value) -> Result<serde_json::Value> {
        self.ask(url, question).await
    }

    async fn ask(&self, url: &str, question: &impl Serialize) -> Result<serde_json::Value> {
        let rule = |problem: String| BoardError::Rule { problem };
        let question = serde_json::to_vec(question).map_err(|error| rule(error.to_string()))?;
        let answer = self.post(url, question.into()).await.map_err(|error| rule(error.to_string()))?;
        let Answer { status, body, .. } = answer;
        if !(200..300).contains(&status) {
            return Err(rule(format!("it answered with status {status}")));
        }
        serde_json::from_slice(&body).map_err(|error| rule(format!("its answer is not JSON: {error}")))
    }
}

/// What was answered.
struct Answer {
    status: u16,
    retry_after: Option<Duration>,
    body: Bytes,
}

/// The value of [`SIGNATURE_HEADER`] for a body that is sent at that second.
#[must_use]
pub fn signature(secret: &Secret, seconds: i64, body: &[u8]) -> String {
    let mut out = format!("t={seconds},v1=");
    // HMAC takes keys of every length.
    if let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.expose().as_bytes()) {
        mac.update(seconds.to_string().as_bytes());
        mac.update(b".");
        mac.update(body);
        for byte in mac.finalize().into_bytes() {
            // Writing to a `String` cannot fail.
            let _ = write!(out, "{byte:02x}");
        }
    }
    out
}

#[async_trait]
impl Transport for Outgoing {
    async fn reach(&self, address: &str, notification: &Notification) -> Result<(), DeliveryFailure> {
        let body = serde_json::to_vec(notification).map_err(|error| DeliveryFailure::refused(error.to_string()))?;
        match self.post(address, body.into()).await {
            Ok(Answer { status: 200..=299, .. }) => Ok(()),
            Ok(Answer { status: status @ (408 | 425 | 429 | 500..=599), retry_after, .. }) => {
                Err(DeliveryFailure::new(format!("the agent answered with status {status}")).after(retry_after))
            }
            Ok(Answer { status, .. }) => {
                Err(DeliveryFailure::refused(format!("the agent answered with status {status}")))
            }
            Err(error @ (NetError::InvalidUrl { .. } | NetError::AddressRefused { .. })) => {
                Err(DeliveryFailure::refused(error.to_string()))
            }
            Err(error) => Err(DeliveryFailure::new(error.to_string())),
        }
    }

    fn check(&self, address: &str) -> Result<(), String> {
        let checked = Url::parse(address).and_then(|url| self.client.check_url(&url));
        checked.map_err(|error| error.to_string())
    }
}

/// A proposed write as a rule behind a URL reads it. The content is the text that was sent.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Question<'a> {
    Contribution { board_id: &'a BoardId, writer: &'a str, level: &'a str, content: &'a Content },
    Premise { board_id: &'a BoardId, writer: &'a str, premise: &'a str, value: &'a Content, expected_version: u64 },
}

impl<'a> Question<'a> {
    fn new(board_id: &'a BoardId, proposed: &'a Proposed) -> Self {
        match proposed {
            Proposed::Contribution { writer, level, content } => {
                Question::Contribution { board_id, writer, level, content }
            }
            Proposed::Premise { writer, premise, value, expected_version } => {
                Question::Premise { board_id, writer, premise, value, expected_version: *expected_version }
            }
        }
    }
}

#[async_trait]
impl Webhooks for Outgoing {
    async fn judge(&self, url: &str, board: &BoardId, proposed: &Proposed) -> Result<Verdict> {
        let answer = self.ask(url, &Question::new(board, proposed)).await?;
        match (answer.get("accept").and_then(serde_json::Value::as_bool), answer.get("reject")) {
            (Some(true), _) => Ok(Verdict::Accept),
            (_, Some(serde_json::Value::String(reason))) => Ok(Verdict::Reject(reason.clone())),
            _ => Err(BoardError::Rule {
                problem: "it answered neither {\"accept\": true} nor {\"reject\": \"why\"}".to_owned(),
            }),
        }
    }

    async fn decide(&self, url: &str, board: &BoardId) -> Result<Termination> {
        let answer = self.ask(url, &json!({ "board_id": board })).await?;
        match answer.get("complete").and_then(serde_json::Value::as_bool) {
            Some(true) => Ok(Termination::Complete),
            Some(false) => Ok(Termination::Continue),
            None => Err(BoardError::Rule { problem: "it answered no {\"complete\": true or false}".to_owned() }),
        }
    }
}

impl fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outgoing").field("signed", &self.secret.is_some()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_that_of_the_standard() {
        // HMAC-SHA-256 of `1700000000.{"a":1}` under `secret`, by another implementation.
        let signed = signature(&Secret::new("TEST", "secret"), 1_700_000_000, b"{\"a\":1}");
        assert_eq!(signed, EXPECTED);
    }

    const EXPECTED: &str = "t=1700000000,v1=49f24e537407743fa4a0242bb63b94b9a47ee99cbbe071ccd8a22550ae411686";
}
