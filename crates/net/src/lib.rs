//! The one HTTP client of the project: TLS, proxies, pools, timeouts, retry and the address guard.
//!
//! It stands on hyper and hyper-util's pooled client, which cost little more than a raw proxy does. Everybody who speaks
//! HTTP goes through it, so that these hold everywhere:
//!
//! - A [`Client`] is cheap to clone and starts cold: certificates are read at the first https request, in the background.
//! - Each [`Request`] has its [`Timeouts`] and a cancellation token. Cancelling it, or dropping the [`Response`], closes the
//!   connection, so that the other side learns of it.
//! - Time, randomness and tasks come from the [`Env`](placet_core::Env) the client is given.
//! - What is shown of a request (a [`Url`], its headers, a [`NetError`]) never contains a credential.
//! - Retry is decided in one place: [`classify`], [`retry_after`], [`RetryPolicy`], [`Retrying`].
//!
//! # What it must never do
//!
//! Read the environment for its settings (a caller hands them in; the one exception is the location of the system's
//! certificates, `SSL_CERT_FILE` and `SSL_CERT_DIR`, which the loader of those certificates honours), follow a redirect by
//! itself (the next address would escape whoever approved the first), or know any provider's message format beyond how it
//! says "try again later".

mod client;
mod connect;
mod direct;
mod error;
mod guard;
mod headers;
mod proxy;
mod request;
mod response;
mod retry;
mod tls;
mod url;

pub use client::{Client, ClientOptions};
pub use error::{Cause, NetError, TimeoutKind};
pub use guard::{AddressPolicy, Resolver, SystemResolver, is_public_address};
pub use headers::{MaskedHeaders, is_sensitive_header, mark_sensitive_headers};
pub use proxy::ProxySettings;
pub use request::{Request, Timeouts};
pub use response::{Body, Excerpt, Response};
pub use retry::{Attempt, RetryPolicy, Retryable, Retrying, Try, Verdict, classify, retry_after};
pub use url::{Url, percent_decoded, percent_decoded_bytes, percent_encoded};

/// What this crate's calls answer.
pub type Result<T, E = NetError> = std::result::Result<T, E>;
