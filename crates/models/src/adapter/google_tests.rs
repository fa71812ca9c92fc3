#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use placet_core::env::ManualClock;
use placet_core::{Env, Timestamp};
use placet_net::{ClientOptions, ProxySettings};
use placet_testkit::upstream::{Answer, Upstream};
use ring::signature::{KeyPair, RSA_PKCS1_2048_8192_SHA256, RsaKeyPair, UnparsedPublicKey};
use serde_json::{Value, json};
use std::time::Duration;

/// A key that was made for this test and opens nothing.
const KEY: &str = include_str!("google_test_key.pem");

struct Bench {
    upstream: Upstream,
    account: GoogleAccount,
    client: Client,
    clock: Arc<ManualClock>,
    context: AskContext,
    _folder: tempfile::TempDir,
}

impl Bench {
    async fn new(answers: impl IntoIterator<Item = Answer>, file: impl FnOnce(&str) -> Value) -> Self {
        let clock = ManualClock::new(Timestamp::EPOCH.plus(Duration::from_secs(1_000)));
        let env = Env::system();
        let upstream = Upstream::start(&env, answers).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("account.json");
        std::fs::write(&path, file(&upstream.url("token")).to_string()).unwrap();
        let path = path.to_str().unwrap().to_owned();
        let lookup: Lookup = Arc::new(move |name| (name == "GOOGLE_APPLICATION_CREDENTIALS").then(|| path.clone()));
        let client = Client::new(ClientOptions::new().proxies(ProxySettings::none()), env.clone()).unwrap();
        let mut context = AskContext::new(Env::deterministic(clock.clone(), 1));
        context.env = Env::deterministic(clock.clone(), 1);
        let account = GoogleAccount::new(vec!["GOOGLE_ACCESS_TOKEN".into()], lookup);
        Bench { upstream, account, client, clock, context, _folder: folder }
    }

    async fn token(&self) -> Result<String, ProviderError> {
        let token = self.account.token(&"vertex".into(), &self.client, &self.context).await?;
        Ok(token.expose().to_owned())
    }
}

fn token(value: &str, expires: u64) -> Answer {
    Answer::json(200, &json!({"access_token": value, "expires_in": expires, "token_type": "Bearer"}))
}

fn service_account(uri: &str) -> Value {
    json!({"type": "service_account", "client_email": "robot@project.iam", "private_key_id": "k1", "private_key": KEY,
           "token_uri": uri, "project_id": "project"})
}

#[tokio::test]
async fn a_service_account_signs_for_its_tokens_and_uses_them_until_they_run_out() {
    let bench = Bench::new([token("first", 3600), token("second", 3600)], service_account).await;
    assert_eq!(bench.account.ready(&"vertex".into()), Ok(()));
    assert_eq!(bench.token().await.unwrap(), "first");
    bench.clock.advance(Duration::from_secs(3500));
    assert_eq!(bench.token().await.unwrap(), "first");
    bench.clock.advance(Duration::from_secs(50));
    assert_eq!(bench.token().await.unwrap(), "second");

    let received = &bench.upstream.received()[0];
    assert_eq!(received.header("content-type"), Some("application/x-www-form-urlencoded"));
    let body = String::from_utf8(received.body.clone()).unwrap();
    let assertion = body
        .strip_prefix("grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=")
        .expect("the grant");
    let parts: Vec<&str> = assertion.split('.').collect();
    let part = |text: &str| serde_json::from_slice::<Value>(&URL_SAFE_NO_PAD.decode(text).unwrap()).unwrap();
    assert_eq!(part(parts[0]), json!({"alg": "RS256", "typ": "JWT", "kid": "k1"}));
    let claims = part(parts[1]);
    assert_eq!(
        (&claims["iss"], &claims["iat"], &claims["exp"]),
        (&json!("robot@project.iam"), &json!(1000), &json!(4600))
    );
    assert_eq!(claims["aud"], bench.upstream.url("token"));
    // The signature is that of the key.
    let der = STANDARD.decode(KEY.lines().filter(|line| !line.starts_with('-')).collect::<String>()).unwrap();
    let public = RsaKeyPair::from_pkcs8(&der).unwrap().public_key().as_ref().to_vec();
    let signature = URL_SAFE_NO_PAD.decode(parts[2]).unwrap();
    let signed = format!("{}.{}", parts[0], parts[1]);
    UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, public).verify(signed.as_bytes(), &signature).expect("signed");
}

#[tokio::test]
async fn a_persons_account_trades_its_refresh_token_and_no_error_shows_it() {
    let person = |uri: &str| {
        json!({"type": "authorized_user", "client_id": "id", "client_secret": "hush-hush-1234", "refresh_token": "1//refresh-me-5678",
               "token_uri": uri})
    };
    let bench = Bench::new(
        [token("mine", 100), Answer::json(400, &json!({"error": "invalid_grant: 1//refresh-me-5678"}))],
        person,
    )
    .await;
    assert_eq!(bench.token().await.unwrap(), "mine");
    let body = String::from_utf8(bench.upstream.received()[0].body.clone()).unwrap();
    assert!(
        body.contains("grant_type=refresh_token") && body.contains("refresh_token=1%2F%2Frefresh-me-5678"),
        "{body}"
    );
    bench.clock.advance(Duration::from_secs(90));
    let error = bench.token().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Authentication);
    assert!(!format!("{error:?}").contains("refresh-me"), "{error:?}");
}

#[tokio::test]
async fn a_token_that_stands_in_a_variable_is_used_and_what_is_missing_is_told() {
    let none: Lookup = Arc::new(|_| None);
    let account = GoogleAccount::new(vec!["GOOGLE_ACCESS_TOKEN".into()], none);
    let error = account.ready(&"vertex".into()).unwrap_err();
    assert!(error.message.contains("GOOGLE_APPLICATION_CREDENTIALS"), "{error}");
    let given: Lookup = Arc::new(|name| (name == "GOOGLE_ACCESS_TOKEN").then(|| "ya29.given".to_owned()));
    let account = GoogleAccount::new(vec!["GOOGLE_ACCESS_TOKEN".into()], given);
    assert_eq!(account.ready(&"vertex".into()), Ok(()));
    assert!(!format!("{account:?}").contains("ya29"));
    let bench = Bench::new([], |_| json!({"type": "service_account", "private_key": "sk-secret-9"})).await;
    let error = bench.account.ready(&"vertex".into()).unwrap_err();
    assert!(error.message.contains("account.json") && !error.message.contains("sk-secret"), "{error}");
}
