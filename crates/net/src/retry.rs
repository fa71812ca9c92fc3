//! Trying again: when, how often, after how long. The only place that decides it.

mod after;

pub use after::retry_after;

use crate::NetError;
use after::DESCRIBED_BYTES;
use http::{HeaderMap, StatusCode};
use placet_core::{Env, Random, Timestamp};
use std::fmt;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How often a request is tried again and how long is waited before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Attempts after the first.
    pub max_retries: u32,
    /// The wait before the first retry is random, up to this; the limit doubles with each retry.
    pub base: Duration,
    /// The limit of the random wait never grows beyond this.
    pub cap: Duration,
    /// The longest wait that the other side may ask for. When it asks for more the error is handed on at once: a caller that
    /// can go elsewhere should, and trying earlier is no use.
    pub patience: Duration,
}

impl Default for RetryPolicy {
    /// Two retries, random waits up to 0.5 s and 1 s, at most 30 s; a minute's patience.
    fn default() -> Self {
        RetryPolicy {
            max_retries: 2,
            base: Duration::from_millis(500),
            cap: Duration::from_secs(30),
            patience: Duration::from_secs(60),
        }
    }
}

impl RetryPolicy {
    /// One attempt and no more.
    #[must_use]
    pub fn none() -> Self {
        RetryPolicy { max_retries: 0, ..RetryPolicy::default() }
    }

    /// The wait before retry number `retry` (from 1): uniformly random between nothing and a limit that doubles with each
    /// retry. All of it is random so that clients which failed together do not come back together.
    #[must_use]
    pub fn backoff(&self, retry: u32, random: &dyn Random) -> Duration {
        let doubled = self.base.saturating_mul(2u32.saturating_pow(retry.saturating_sub(1))).min(self.cap);
        let nanos = u64::try_from(doubled.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(random.next_u64().checked_rem(nanos.saturating_add(1)).unwrap_or(0))
    }
}

/// Whether to try again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may succeed later.
    Retry {
        /// How long the other side asks to wait, if it does.
        wait: Option<Duration>,
    },
    /// Trying again changes nothing.
    Stop {
        /// Why, in a few words.
        because: &'static str,
    },
}

impl Verdict {
    const RETRY: Verdict = Verdict::Retry { wait: None };
}

/// An error that knows whether trying again is any use. Its text goes into the report of the attempt.
pub trait Retryable: fmt::Display {
    /// Whether to try again.
    fn verdict(&self) -> Verdict;
}

impl Retryable for NetError {
    fn verdict(&self) -> Verdict {
        if self.is_retryable() {
            Verdict::RETRY
        } else {
            Verdict::Stop { because: "the error does not pass by itself" }
        }
    }
}

/// Codes and phrases of errors that come with a status worth a retry and do not pass: no money, no quota, too long a
/// conversation. Codes stand in quotes so that a message that merely mentions one does not count. All in small letters.
const PERMANENT: [(&str, &str); 13] = [
    ("\"insufficient_quota\"", "the account has no quota left"),
    ("\"billing_error\"", "the account has a billing problem"),
    ("\"billing_hard_limit_reached\"", "the account has reached its spending limit"),
    ("\"billing_not_active\"", "the account's billing is not active"),
    ("\"account_deactivated\"", "the account is deactivated"),
    ("credit balance is too low", "the account has no credit left"),
    ("exceeded your current quota, please check your plan", "the account has no quota left"),
    ("\"context_length_exceeded\"", "the conversation is longer than the model's window"),
    ("\"model_context_window_exceeded\"", "the conversation is longer than the model's window"),
    ("maximum context length", "the conversation is longer than the model's window"),
    ("prompt is too long", "the conversation is longer than the model's window"),
    ("exceeds the context window", "the conversation is longer than the model's window"),
    ("\"request_too_large\"", "the request is too large"),
];

/// Whether an answer with an error's status is worth another attempt.
///
/// In this order: a `body` that names a lasting cause (quota, billing, length of the conversation) stops;
/// `x-should-retry: true` or `false` decides; 408, 409, 429 and every 5xx (529 among them) retry; the rest stops. `body` is
/// the beginning of the error's body, if it was read; `now` serves a `retry-after` that is a date.
#[must_use]
pub fn classify(status: StatusCode, headers: &HeaderMap, body: Option<&[u8]>, now: Timestamp) -> Verdict {
    if let Some(body) = body {
        let text = described(body);
        if let Some((_, because)) = PERMANENT.iter().find(|(phrase, _)| is_permanent(&text, phrase)) {
            return Verdict::Stop { because };
        }
    }
    let retry = || Verdict::Retry { wait: retry_after(headers, body, now) };
    match headers.get("x-should-retry").map(http::HeaderValue::as_bytes) {
        Some(b"true") => return retry(),
        Some(b"false") => return Verdict::Stop { because: "the server says that trying again is no use" },
        _ => {}
    }
    match status.as_u16() {
        408 | 409 | 429 | 500..=599 => retry(),
        _ => Verdict::Stop { because: "the status does not pass by itself" },
    }
}

/// Google says "exceeded your current quota, please check your plan" of limits by the minute as well, and then adds when to
/// come back.
fn is_permanent(text: &str, phrase: &str) -> bool {
    text.contains(phrase) && !(phrase.starts_with("exceeded") && text.contains("\"retrydelay\""))
}

fn described(body: &[u8]) -> String {
    String::from_utf8_lossy(&body[..body.len().min(DESCRIBED_BYTES)]).to_ascii_lowercase()
}

/// What an attempt is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Try {
    /// Which attempt it is, from 1.
    pub number: u32,
    /// How much is left of the time for all attempts, if that is bounded.
    pub remaining: Option<Duration>,
    /// Whether no other follows, however it ends.
    pub is_last: bool,
}

/// What is reported of an attempt that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Which attempt it was, from 1.
    pub number: u32,
    /// What went wrong.
    pub cause: String,
    /// What follows: another attempt after this wait, or the end, and why.
    pub next: Result<Duration, &'static str>,
}

/// Who hears of attempts that failed.
type Report<'a> = Box<dyn FnMut(&Attempt) + Send + 'a>;

/// Runs something until it succeeds, cannot succeed, or may no longer be tried.
///
/// Waits on the clock of the environment. A wait that would end after the time for all attempts is not begun.
pub struct Retrying<'a> {
    policy: &'a RetryPolicy,
    env: &'a Env,
    cancel: &'a CancellationToken,
    within: Option<Duration>,
    report: Option<Report<'a>>,
}

impl<'a> Retrying<'a> {
    /// By `policy`, on the clock and with the randomness of `env`, until `cancel`.
    #[must_use]
    pub fn new(policy: &'a RetryPolicy, env: &'a Env, cancel: &'a CancellationToken) -> Self {
        Retrying { policy, env, cancel, within: None, report: None }
    }

    /// Bounds the time of all attempts and the waits between them.
    #[must_use]
    pub fn within(mut self, whole: Duration) -> Self {
        self.within = Some(whole);
        self
    }

    /// Tells `report` of every attempt that failed.
    #[must_use]
    pub fn reporting(mut self, report: impl FnMut(&Attempt) + Send + 'a) -> Self {
        self.report = Some(Box::new(report));
        self
    }

    /// Runs `attempt`.
    ///
    /// # Errors
    /// The last attempt's error, or [`NetError::Cancelled`] when it was cancelled between two attempts. An attempt that runs
    /// while it is cancelled must end by itself.
    pub async fn run<T, E, F>(mut self, mut attempt: impl FnMut(Try) -> F) -> Result<T, E>
    where
        E: Retryable + From<NetError>,
        F: Future<Output = Result<T, E>>,
    {
        let start = self.env.clock().steady();
        let mut number = 0;
        loop {
            number += 1;
            let is_last = number > self.policy.max_retries;
            let error = match attempt(Try { number, remaining: self.remaining(start), is_last }).await {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            let next = self.next(number, error.verdict(), self.remaining(start));
            if let Some(report) = &mut self.report {
                report(&Attempt { number, cause: error.to_string(), next });
            }
            let Ok(wait) = next else { return Err(error) };
            tokio::select! {
                biased;
                () = self.cancel.cancelled() => return Err(NetError::Cancelled.into()),
                () = self.env.sleep(wait) => {}
            }
        }
    }

    fn remaining(&self, start: Duration) -> Option<Duration> {
        self.within.map(|whole| whole.saturating_sub(self.env.clock().steady().saturating_sub(start)))
    }

    /// The wait before the next attempt, or why there is none.
    fn next(&self, number: u32, verdict: Verdict, remaining: Option<Duration>) -> Result<Duration, &'static str> {
        let asked = match verdict {
            Verdict::Stop { because } => return Err(because),
            Verdict::Retry { wait } => wait,
        };
        if self.cancel.is_cancelled() {
            return Err("it was cancelled");
        }
        if number > self.policy.max_retries {
            return Err("no retries are left");
        }
        if asked.is_some_and(|asked| asked > self.policy.patience) {
            return Err("the other side asks for a longer wait than is allowed");
        }
        // Asked-for waits get the random part on top: the others who were told the same come back spread.
        let backoff = self.policy.backoff(number, &**self.env.random());
        let wait = asked.map_or(backoff, |asked| asked.saturating_add(backoff.min(self.policy.base)));
        match remaining {
            Some(remaining) if wait >= remaining => Err("the time for the whole request would be over by then"),
            _ => Ok(wait),
        }
    }
}

impl fmt::Debug for Retrying<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retrying").field("policy", &self.policy).field("within", &self.within).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
