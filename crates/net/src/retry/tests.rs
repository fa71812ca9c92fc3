#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use super::*;
use http::{HeaderName, HeaderValue};
use placet_core::env::{ManualClock, SeededRandom};
use proptest::prelude::*;
use std::sync::{Arc, Mutex};

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.insert(HeaderName::try_from(*name).unwrap(), HeaderValue::try_from(*value).unwrap());
    }
    headers
}

/// Sun, 06 Nov 1994 08:49:37 GMT, the date of the HTTP specification's examples.
const NOW: Timestamp = Timestamp::from_millis(784_111_777_000);

#[test]
fn the_wait_is_read_in_every_form() {
    let google = r#"{"error":{"code":429,"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo",
        "retryDelay" : "34.074824224s"}]}}"#;
    for (pairs, body, wait) in [
        (&[][..], "", None),
        (&[("retry-after-ms", "1500")], "", Some(1500)),
        (&[("retry-after-ms", "20.5"), ("retry-after", "9")], "", Some(20)),
        (&[("retry-after-ms", "soon"), ("retry-after", "9")], "", Some(9000)),
        (&[("retry-after", "0")], "", Some(0)),
        (&[("retry-after", " 1.5 ")], "", Some(1500)),
        (&[("retry-after", "-3")], "", None),
        (&[("retry-after", "NaN")], "", None),
        (&[("retry-after", "1e300")], "", Some(7 * 24 * 3600 * 1000)),
        (&[("retry-after", "inf")], "", Some(7 * 24 * 3600 * 1000)),
        (&[("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT")], "", Some(30_000)),
        (&[("retry-after", "Sunday, 06-Nov-94 08:49:47 GMT")], "", Some(10_000)),
        (&[("retry-after", "Sun Nov  6 08:49:39 1994")], "", Some(2000)),
        (&[("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT")], "", Some(0)),
        (&[("retry-after", "tomorrow")], "", None),
        (&[], google, Some(34_074)),
        (&[], r#"{"error":{"message":"Rate limit reached. Please try again in 1.5s. Visit …"}}"#, Some(1500)),
        (&[], "please TRY AGAIN IN 250ms.", Some(250)),
        (&[], "Please try again in 6m0s", Some(360_000)),
        (&[], "try again in 1h2m3.5s", Some(3_723_500)),
        (&[], "Please retry in 20 seconds.", Some(20_000)),
        (&[], "Retry after 2 minutes", Some(120_000)),
        (&[], "try again in a while, then retry in 3s", Some(3000)),
        (&[], "try again in 20", None),
        (&[], "\"retryDelay\":", None),
        (&[("retry-after", "2")], google, Some(2000)),
        (&[("x-ratelimit-reset-requests", "1s"), ("x-ratelimit-remaining-requests", "0")], "", Some(1000)),
        (&[("x-ratelimit-reset-requests", "1s"), ("x-ratelimit-remaining-requests", "3")], "", None),
        (
            &[
                ("x-ratelimit-reset-requests", "120ms"),
                ("x-ratelimit-remaining-requests", "0"),
                ("x-ratelimit-reset-tokens", "6m0s"),
                ("x-ratelimit-remaining-tokens", "0"),
            ],
            "",
            Some(360_000),
        ),
    ] {
        let body = (!body.is_empty()).then_some(body.as_bytes());
        let found = retry_after(&headers(pairs), body, NOW).map(|wait| wait.as_millis());
        assert_eq!(found, wait, "{pairs:?} {body:?}");
    }
}

#[test]
fn statuses_and_causes_decide() {
    for (status, pairs, body, retried) in [
        (408, &[][..], "", true),
        (409, &[], "", true),
        (429, &[], "", true),
        (500, &[], "", true),
        (502, &[], "", true),
        (503, &[], "", true),
        (504, &[], "", true),
        (529, &[], r#"{"type":"error","error":{"type":"overloaded_error"}}"#, true),
        (400, &[], "", false),
        (401, &[], "", false),
        (403, &[], "", false),
        (404, &[], "", false),
        (413, &[], "", false),
        (422, &[], "", false),
        (301, &[], "", false),
        (200, &[], "", false),
        (400, &[("x-should-retry", "true")], "", true),
        (500, &[("x-should-retry", "false")], "", false),
        (500, &[("x-should-retry", "perhaps")], "", true),
        (429, &[], r#"{"error":{"type":"insufficient_quota","code":"insufficient_quota"}}"#, false),
        (429, &[("x-should-retry", "true")], r#"{"error":{"code":"insufficient_quota"}}"#, false),
        (429, &[], r#"{"error":{"message":"no insufficient_quota here"}}"#, true),
        (500, &[], r#"{"error":{"type":"billing_error"}}"#, false),
        (500, &[], r#"{"error":{"code":"Context_Length_Exceeded"}}"#, false),
        (503, &[], "This model's maximum context length is 8192 tokens", false),
        (429, &[], "You exceeded your current quota, please check your plan and billing details.", false),
        (
            429,
            &[],
            r#"{"error":{"message":"You exceeded your current quota, please check your plan","details":[{"retryDelay":"7s"}]}}"#,
            true,
        ),
    ] {
        let verdict = classify(StatusCode::from_u16(status).unwrap(), &headers(pairs), Some(body.as_bytes()), NOW);
        assert_eq!(matches!(verdict, Verdict::Retry { .. }), retried, "{status} {pairs:?} {body}: {verdict:?}");
    }
    let asked = classify(StatusCode::TOO_MANY_REQUESTS, &headers(&[("retry-after", "7")]), None, NOW);
    assert_eq!(asked, Verdict::Retry { wait: Some(Duration::from_secs(7)) });
}

proptest! {
    #[test]
    fn a_backoff_stays_below_its_limit(seed: u64, retry in 0u32..70, base in 0u64..10_000, cap in 0u64..60_000) {
        let policy = RetryPolicy {
            base: Duration::from_millis(base), cap: Duration::from_millis(cap), ..RetryPolicy::default()
        };
        let limit = (u128::from(base) << retry.saturating_sub(1).min(60)).min(u128::from(cap));
        prop_assert!(policy.backoff(retry, &SeededRandom::new(seed)).as_millis() <= limit);
    }

    #[test]
    fn no_answer_panics(value in ".{0,30}", body in prop::collection::vec(any::<u8>(), 0..60), status in 100u16..1000) {
        let mut headers = HeaderMap::new();
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert("retry-after", value.clone());
            headers.insert("retry-after-ms", value);
        }
        let _ = classify(StatusCode::from_u16(status).unwrap(), &headers, Some(&body), NOW);
        let words = format!("try again in {value}");
        let _ = retry_after(&HeaderMap::new(), Some(words.as_bytes()), NOW);
    }
}

#[test]
fn backoffs_fill_their_range() {
    let (policy, random) = (RetryPolicy::default(), SeededRandom::new(3));
    let drawn: Vec<_> = (0..200).map(|_| policy.backoff(1, &random).as_millis()).collect();
    assert!(drawn.iter().any(|wait| *wait < 100) && drawn.iter().any(|wait| *wait > 400), "{drawn:?}");
}

#[derive(Debug)]
enum Failure {
    Net(NetError),
    Says(Verdict),
}

impl From<NetError> for Failure {
    fn from(error: NetError) -> Self {
        Failure::Net(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Net(error) => error.fmt(f),
            Failure::Says(_) => f.write_str("it failed"),
        }
    }
}

impl Retryable for Failure {
    fn verdict(&self) -> Verdict {
        match self {
            Failure::Net(error) => error.verdict(),
            Failure::Says(verdict) => verdict.clone(),
        }
    }
}

/// A world whose clock moves on by the waits that are reported.
struct World {
    clock: Arc<ManualClock>,
    env: Env,
    cancel: CancellationToken,
    seen: Arc<Mutex<Vec<Attempt>>>,
}

impl World {
    fn new() -> Self {
        let clock = ManualClock::new(NOW);
        let env = Env::deterministic(clock.clone(), 1);
        World { clock, env, cancel: CancellationToken::new(), seen: Arc::default() }
    }

    /// Runs a script of verdicts; `None` is success. Returns the number of the attempt that succeeded.
    async fn run(
        &self,
        policy: &RetryPolicy,
        within: Option<Duration>,
        script: &[Option<Verdict>],
    ) -> Result<u32, Failure> {
        let mut retrying = Retrying::new(policy, &self.env, &self.cancel).reporting(|attempt| {
            self.seen.lock().unwrap().push(attempt.clone());
        });
        if let Some(whole) = within {
            retrying = retrying.within(whole);
        }
        let running = retrying.run(|attempt| {
            let says = script[usize::try_from(attempt.number).unwrap() - 1].clone();
            async move { says.map_or(Ok(attempt.number), |verdict| Err(Failure::Says(verdict))) }
        });
        let mut running = std::pin::pin!(running);
        loop {
            if let std::task::Poll::Ready(result) = futures_util::poll!(&mut running) {
                return result;
            }
            // It sleeps: exactly as long as it has just reported.
            let wait = self.seen.lock().unwrap().last().unwrap().next.unwrap();
            self.clock.advance(wait);
        }
    }

    fn waits(&self) -> Vec<Result<Duration, &'static str>> {
        self.seen.lock().unwrap().iter().map(|attempt| attempt.next).collect()
    }
}

const AGAIN: Option<Verdict> = Some(Verdict::RETRY);

fn asked(seconds: u64) -> Option<Verdict> {
    Some(Verdict::Retry { wait: Some(Duration::from_secs(seconds)) })
}

#[tokio::test]
async fn it_succeeds_at_the_last_attempt() {
    let world = World::new();
    let number = world.run(&RetryPolicy::default(), None, &[AGAIN, AGAIN, None]).await.unwrap();
    assert_eq!(number, 3);
    assert_eq!(world.waits().len(), 2);
    assert!(world.waits()[0].unwrap() <= Duration::from_millis(500));
    assert!(world.waits()[1].unwrap() <= Duration::from_secs(1));
    let attempt = world.seen.lock().unwrap()[0].clone();
    assert_eq!((attempt.number, attempt.cause.as_str()), (1, "it failed"));
}

#[tokio::test]
async fn it_ends_after_the_last_attempt() {
    let world = World::new();
    assert!(matches!(world.run(&RetryPolicy::default(), None, &[AGAIN, AGAIN, AGAIN]).await, Err(Failure::Says(_))));
    assert_eq!(world.waits()[2], Err("no retries are left"));
    let world = World::new();
    assert!(world.run(&RetryPolicy::none(), None, &[AGAIN]).await.is_err());
    assert_eq!(world.waits().len(), 1);
}

#[tokio::test]
async fn it_stops_where_trying_again_is_no_use() {
    let world = World::new();
    let stop = Some(Verdict::Stop { because: "no quota" });
    assert!(world.run(&RetryPolicy::default(), None, &[AGAIN, stop]).await.is_err());
    assert_eq!(world.waits()[1], Err("no quota"));
}

#[tokio::test]
async fn it_waits_as_long_as_it_was_asked_to() {
    let world = World::new();
    world.run(&RetryPolicy::default(), None, &[asked(20), None]).await.unwrap();
    let wait = world.waits()[0].unwrap();
    assert!(wait >= Duration::from_secs(20) && wait <= Duration::from_millis(20_500), "{wait:?}");
    let world = World::new();
    assert!(world.run(&RetryPolicy::default(), None, &[asked(61)]).await.is_err());
    assert!(world.waits()[0].is_err());
}

#[tokio::test]
async fn the_whole_deadline_bounds_the_waits() {
    let world = World::new();
    let within = Some(Duration::from_secs(30));
    assert!(world.run(&RetryPolicy::default(), within, &[asked(20), asked(20)]).await.is_err());
    assert_eq!(world.waits().len(), 2);
    assert!(world.waits()[0].is_ok());
    assert_eq!(world.waits()[1], Err("the time for the whole request would be over by then"));
}

#[tokio::test]
async fn an_attempt_hears_what_time_is_left() {
    let world = World::new();
    let policy = RetryPolicy::default();
    let mut seen = Vec::new();
    let retrying = Retrying::new(&policy, &world.env, &world.cancel).within(Duration::from_secs(9));
    let result: Result<(), Failure> = retrying
        .run(|attempt| {
            seen.push(attempt);
            async { Ok(()) }
        })
        .await;
    result.unwrap();
    assert_eq!(seen, [Try { number: 1, remaining: Some(Duration::from_secs(9)), is_last: false }]);
}

#[tokio::test]
async fn cancelling_ends_a_wait() {
    let world = World::new();
    let policy = RetryPolicy::default();
    let running = Retrying::new(&policy, &world.env, &world.cancel)
        .run(|_| async { Err::<(), _>(Failure::Says(Verdict::Retry { wait: Some(Duration::from_secs(5)) })) });
    let mut running = std::pin::pin!(running);
    assert!(futures_util::poll!(&mut running).is_pending());
    world.cancel.cancel();
    assert!(matches!(running.await, Err(Failure::Net(NetError::Cancelled))));
}
