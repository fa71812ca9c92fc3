//! What can go wrong between us and another machine.

use crate::connect::net_error_in;
use placet_core::{Diagnose, ErrorKind};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// The error underneath, shared so that a [`NetError`] can be cloned.
pub type Cause = Arc<dyn std::error::Error + Send + Sync>;

/// Which of a request's timeouts ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimeoutKind {
    /// Name, connection, proxy and TLS handshake.
    Connect,
    /// From a ready connection to the head of the answer.
    FirstByte,
    /// Silence within the body, while we were waiting for it.
    Idle,
    /// The whole request, from its start to the end of its body.
    Whole,
}

impl fmt::Display for TimeoutKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TimeoutKind::Connect => "connecting",
            TimeoutKind::FirstByte => "waiting for the answer to begin",
            TimeoutKind::Idle => "waiting for more of the answer",
            TimeoutKind::Whole => "the whole request",
        })
    }
}

/// Why a request did not succeed. Names hosts and ports, never paths, queries or credentials.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetError {
    /// Not an address we can send to. `url` is masked.
    #[error("`{url}` is not a usable URL: {reason}")]
    InvalidUrl {
        /// The address, masked.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A header's name or value cannot be sent.
    #[error("header `{name}` cannot be sent: {reason}")]
    InvalidHeader {
        /// The header's name.
        name: String,
        /// What is wrong with it; never its value.
        reason: String,
    },
    /// The client was set up with something unusable. Found when it is built.
    #[error("{setting} cannot be used: {reason}")]
    InvalidSetting {
        /// Which setting, by its variable's or file's name.
        setting: String,
        /// What is wrong with it.
        reason: String,
        /// The error underneath.
        #[source]
        cause: Option<Cause>,
    },
    /// The host's name could not be resolved.
    #[error("the name `{host}` could not be resolved")]
    Dns {
        /// The name.
        host: String,
        /// The error underneath.
        #[source]
        cause: Cause,
    },
    /// No connection could be made.
    #[error("no connection to {authority}")]
    Connect {
        /// Host and port.
        authority: String,
        /// The error underneath.
        #[source]
        cause: Cause,
    },
    /// The TLS handshake failed, or no certificates are trusted.
    #[error("no trusted TLS connection to {authority}")]
    Tls {
        /// Host and port.
        authority: String,
        /// The error underneath.
        #[source]
        cause: Cause,
    },
    /// The proxy could not be reached or refused.
    #[error("the proxy {proxy} gave no connection to {authority}")]
    Proxy {
        /// The proxy's host and port.
        proxy: String,
        /// Host and port that were asked for.
        authority: String,
        /// The error underneath.
        #[source]
        cause: Cause,
    },
    /// The address guard said no.
    #[error("the address policy refuses `{host}`{}: {reason}", address.map(|a| format!(" at {a}")).unwrap_or_default())]
    AddressRefused {
        /// The host as it was asked for.
        host: String,
        /// What it resolved to, if it came that far.
        address: Option<IpAddr>,
        /// Why.
        reason: &'static str,
    },
    /// It took too long.
    #[error("{which} took longer than {after:?} ({authority})")]
    Timeout {
        /// Which timeout ran out.
        which: TimeoutKind,
        /// Its length.
        after: Duration,
        /// Host and port.
        authority: String,
    },
    /// Somebody cancelled the request.
    #[error("the request was cancelled")]
    Cancelled,
    /// The connection broke after the request was sent.
    #[error("the connection to {authority} broke after {received} bytes of the body")]
    Interrupted {
        /// Host and port.
        authority: String,
        /// Bytes of the body that had arrived.
        received: u64,
        /// The error underneath.
        #[source]
        cause: Cause,
    },
    /// What arrived is not HTTP.
    #[error("the answer of {authority} does not follow HTTP")]
    Protocol {
        /// Host and port.
        authority: String,
        /// The error underneath.
        #[source]
        cause: Cause,
    },
    /// The body is longer than the caller reads.
    #[error(
        "the body is longer than the limit of {limit} bytes{}",
        declared.map(|total| format!(" (it has {total})")).unwrap_or_default()
    )]
    BodyTooLarge {
        /// The caller's limit in bytes.
        limit: usize,
        /// The body's length in bytes, if it was declared.
        declared: Option<u64>,
    },
    /// The body was asked for as text and is not UTF-8.
    #[error("the body is not UTF-8 text: byte {at} begins no character")]
    NotText {
        /// Offset in bytes of the first byte that is wrong.
        at: usize,
    },
    /// The async runtime is gone or a background task died.
    #[error("background work for the request was lost: {reason}")]
    Background {
        /// What was lost.
        reason: String,
    },
}

impl NetError {
    /// Whether the same request may succeed later, all by itself. Whoever has already passed on a part of an answer must
    /// not ask again without saying so.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            NetError::Dns { .. } | NetError::Connect { .. } | NetError::Interrupted { .. } => true,
            NetError::Proxy { cause, .. } => !is_proxy_refusal(cause),
            NetError::Timeout { which, .. } => *which != TimeoutKind::Whole,
            NetError::InvalidUrl { .. }
            | NetError::InvalidHeader { .. }
            | NetError::InvalidSetting { .. }
            | NetError::Tls { .. }
            | NetError::AddressRefused { .. }
            | NetError::Cancelled
            | NetError::Protocol { .. }
            | NetError::BodyTooLarge { .. }
            | NetError::NotText { .. }
            | NetError::Background { .. } => false,
        }
    }
}

/// Whether a proxy says the same the next time: it wants other credentials, or is not whom we trust. hyper-util keeps the
/// type of its error to itself, so its text tells, and a forbidden target is not told from one that is away for a moment.
fn is_proxy_refusal(cause: &Cause) -> bool {
    match net_error_in(&**cause) {
        Some(underneath) => !underneath.is_retryable(),
        None => cause.to_string().contains("authorization"),
    }
}

impl Diagnose for NetError {
    fn kind(&self) -> ErrorKind {
        match self {
            NetError::InvalidUrl { .. } | NetError::InvalidHeader { .. } => ErrorKind::InvalidRequest,
            NetError::InvalidSetting { .. } => ErrorKind::Wiring,
            NetError::Dns { .. } | NetError::Connect { .. } | NetError::Tls { .. } | NetError::Proxy { .. } => {
                ErrorKind::Network
            }
            NetError::AddressRefused { .. } => ErrorKind::Permission,
            NetError::Timeout { .. } => ErrorKind::Timeout,
            NetError::Cancelled => ErrorKind::Cancelled,
            NetError::Interrupted { .. } => ErrorKind::Interrupted,
            NetError::Protocol { .. } | NetError::NotText { .. } => ErrorKind::Protocol,
            NetError::BodyTooLarge { .. } => ErrorKind::LimitReached,
            NetError::Background { .. } => ErrorKind::Internal,
        }
    }

    fn hints(&self) -> Vec<String> {
        let hint = match self {
            NetError::Dns { .. } => "check the host in the base URL, and that this machine can resolve names",
            NetError::Connect { .. } => {
                "check that the server runs and that its port is right; behind a proxy, set HTTPS_PROXY or HTTP_PROXY"
            }
            NetError::Tls { .. } => {
                "if the server's certificate comes from a private authority, name its file in SSL_CERT_FILE or as an \
                 extra certificate file; if no certificates are found, install the system's (ca-certificates)"
            }
            NetError::Proxy { .. } => {
                "check the proxy's URL with its user and password, or except the host from it in NO_PROXY"
            }
            NetError::AddressRefused { .. } => "if the host is meant to be reached, name it among the allowed hosts",
            NetError::Timeout { .. } => "raise the timeout if the other side is known to be slow",
            _ => return Vec::new(),
        };
        vec![hint.to_owned()]
    }
}
