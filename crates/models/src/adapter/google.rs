//! Tokens for Google's cloud: given ones, or made from the credentials file of an account.

use super::failure::redact;
use crate::credential::Lookup;
use crate::provider::AskContext;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use placet_core::redact::SecretRegistry;
use placet_core::{ErrorKind, ProviderError, ProviderId, Secret, Timestamp};
use placet_net::{Client, Request, RetryPolicy, Url};
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use serde::Deserialize;
use serde_json::json;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The variable that names the credentials file.
const FILE: &str = "GOOGLE_APPLICATION_CREDENTIALS";
const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
/// A token is not used any more when it has less than this to live.
const SLACK: Duration = Duration::from_secs(60);
const ANSWER_BYTES: usize = 64 * 1024;

/// Who asks Google's cloud. The first of these that is there: a token in a variable; the file that
/// `GOOGLE_APPLICATION_CREDENTIALS` names; the file that `gcloud auth application-default login` writes. From a file, tokens
/// are made when they are needed (a service account signs for them, a person's account trades its refresh token) and used
/// until they run out.
pub struct GoogleAccount {
    tokens: Vec<String>,
    lookup: Lookup,
    made: Mutex<Option<(Secret, Timestamp)>>,
}

/// A credentials file.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum File {
    ServiceAccount(ServiceAccount),
    AuthorizedUser(AuthorizedUser),
}

#[derive(Deserialize)]
struct ServiceAccount {
    client_email: String,
    private_key: Secret,
    #[serde(default)]
    private_key_id: Option<String>,
    #[serde(default = "token_uri")]
    token_uri: String,
}

#[derive(Deserialize)]
struct AuthorizedUser {
    client_id: String,
    client_secret: Secret,
    refresh_token: Secret,
    #[serde(default = "token_uri")]
    token_uri: String,
}

fn token_uri() -> String {
    "https://oauth2.googleapis.com/token".to_owned()
}

#[derive(Deserialize)]
struct Token {
    access_token: Secret,
    #[serde(default)]
    expires_in: u64,
}

impl GoogleAccount {
    /// An account whose ready-made token may stand in one of these variables.
    pub fn new(tokens: Vec<String>, lookup: Lookup) -> Self {
        GoogleAccount { tokens, lookup, made: Mutex::default() }
    }

    fn set(&self, name: &str) -> Option<String> {
        (self.lookup)(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
    }

    fn given(&self) -> Option<Secret> {
        self.tokens.iter().find_map(|name| Some(Secret::new(name, self.set(name)?)))
    }

    fn file(&self) -> Option<PathBuf> {
        if let Some(path) = self.set(FILE) {
            return Some(path.into());
        }
        let path = PathBuf::from(self.set("HOME")?).join(".config/gcloud/application_default_credentials.json");
        path.exists().then_some(path)
    }

    fn read(&self, provider: &ProviderId) -> Result<File, ProviderError> {
        let error = |message: String| ProviderError::new(ErrorKind::Authentication, provider.clone(), message);
        let Some(path) = self.file() else {
            let names = self.tokens.join(" or ");
            return Err(error(format!("no account: neither {names} nor {FILE} is set")).with_hint(format!(
                "set {FILE} to a credentials file, or run `gcloud auth application-default login`"
            )));
        };
        let text = std::fs::read_to_string(&path)
            .map_err(|cause| error(format!("the credentials file {} cannot be read: {cause}", path.display())))?;
        // The text of serde's error could quote a secret.
        serde_json::from_str(&text).map_err(|cause| {
            error(format!(
                "the credentials file {} is none of a service account or a person (line {})",
                path.display(),
                cause.line()
            ))
        })
    }

    /// Whether there is anything to make tokens from.
    ///
    /// # Errors
    /// [`ProviderError`] of kind *authentication* that says what is missing.
    pub(super) fn ready(&self, provider: &ProviderId) -> Result<(), ProviderError> {
        if self.given().is_some() { Ok(()) } else { self.read(provider).map(drop) }
    }

    /// A token that is good for a while.
    ///
    /// # Errors
    /// [`ProviderError`] where there is no account, or nobody gives it a token.
    pub(super) async fn token(
        &self,
        provider: &ProviderId,
        client: &Client,
        context: &AskContext,
    ) -> Result<Secret, ProviderError> {
        if let Some(given) = self.given() {
            return Ok(given);
        }
        let now = context.env.now();
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((token, _)) = made.filter(|(_, until)| until.since(now) > SLACK) {
            return Ok(token);
        }
        let error = |message: String| ProviderError::new(ErrorKind::Authentication, provider.clone(), message);
        let mut secrets = SecretRegistry::new();
        let (uri, form) = match self.read(provider)? {
            File::ServiceAccount(account) => {
                secrets.register(account.private_key.clone());
                let assertion = account.assertion(now).map_err(|problem| error(problem.to_owned()))?;
                let grant = "urn:ietf:params:oauth:grant-type:jwt-bearer";
                (account.token_uri, form(&[("grant_type", grant), ("assertion", &assertion)]))
            }
            File::AuthorizedUser(user) => {
                secrets.register(user.client_secret.clone());
                secrets.register(user.refresh_token.clone());
                let fields = [
                    ("grant_type", "refresh_token"),
                    ("client_id", &user.client_id),
                    ("client_secret", user.client_secret.expose()),
                    ("refresh_token", user.refresh_token.expose()),
                ];
                (user.token_uri, form(&fields))
            }
        };
        let redactor = secrets.redactor();
        let net = |cause: placet_net::NetError| redact(super::failure::from_net(provider, &cause), &redactor);
        let request = Request::post(Url::parse(&uri).map_err(net)?, form)
            .header("content-type", "application/x-www-form-urlencoded")
            .map_err(net)?;
        let policy = RetryPolicy::default();
        let response = client.send_retrying(request, &policy, &context.cancel, |_| {}).await.map_err(net)?;
        let status = response.status;
        let body = response.bytes(ANSWER_BYTES).await.map_err(net)?;
        if !status.is_success() {
            let told: String = String::from_utf8_lossy(&body).chars().take(300).collect();
            let failed = error(format!("the account got no token (status {}): {told}", status.as_u16()));
            return Err(redact(failed.with_hint(format!("check the account that {FILE} names")), &redactor));
        }
        let token: Token = serde_json::from_slice(&body)
            .map_err(|_| redact(error("the answer to a request for a token holds none".to_owned()), &redactor))?;
        let token_secret = token.access_token.named("the account's token");
        let until = now.plus(Duration::from_secs(token.expires_in));
        *self.made.lock().unwrap_or_else(PoisonError::into_inner) = Some((token_secret.clone(), until));
        Ok(token_secret)
    }
}

impl ServiceAccount {
    /// A signed claim to be this account.
    fn assertion(&self, now: Timestamp) -> Result<String, &'static str> {
        let unusable = "the private key of the service account is unusable: expected an RSA key in PKCS#8 form";
        let pem: String = self.private_key.expose().lines().filter(|line| !line.starts_with("-----")).collect();
        let der = STANDARD.decode(pem.trim()).map_err(|_| unusable)?;
        let key = RsaKeyPair::from_pkcs8(&der).map_err(|_| unusable)?;
        let at = now.since(Timestamp::EPOCH).as_secs();
        let mut head = json!({"alg": "RS256", "typ": "JWT"});
        if let Some(id) = &self.private_key_id {
            head["kid"] = json!(id);
        }
        let claims = json!({
            "iss": self.client_email, "scope": SCOPE, "aud": self.token_uri, "iat": at, "exp": at + 3600
        });
        let text = |value: &serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", text(&head), text(&claims));
        let mut signature = vec![0; key.public().modulus_len()];
        key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), signed.as_bytes(), &mut signature).map_err(|_| unusable)?;
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}

/// Fields as a form is sent.
fn form(fields: &[(&str, &str)]) -> String {
    let mut out = String::new();
    for (name, value) in fields {
        if !out.is_empty() {
            out.push('&');
        }
        out.push_str(name);
        out.push('=');
        for byte in value.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
                other => out.push_str(&format!("%{other:02X}")),
            }
        }
    }
    out
}

impl fmt::Debug for GoogleAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GoogleAccount").field("tokens", &self.tokens).finish_non_exhaustive()
    }
}
