//! From an address to a connection: name, guard, proxy, TCP, TLS.

use crate::guard::{AddressPolicy, GuardedResolver, Resolver};
use crate::proxy::ProxySettings;
use crate::tls::Trust;
use crate::{Cause, NetError};
use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::client::proxy::matcher::Intercept;
use hyper_util::rt::TokioIo;
use placet_core::BoxFuture;
use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpStream;
use tower_service::Service;

type Dialler = HttpConnector<GuardedResolver>;
/// A connection as far as a proxy: TCP, or TLS to an https proxy.
type ProxyStream = MaybeHttpsStream<TokioIo<TcpStream>>;

/// Makes the pool's connections.
#[derive(Clone)]
pub(crate) struct Connector {
    parts: Arc<Parts>,
}

struct Parts {
    /// Guarded, for targets.
    direct: Dialler,
    /// Unguarded: a proxy is configured, and often stands inside.
    to_proxy: Dialler,
    proxies: ProxySettings,
    policy: Option<Arc<AddressPolicy>>,
    trust: Arc<Trust>,
}

impl Connector {
    pub(crate) fn new(
        resolver: Arc<dyn Resolver>,
        proxies: ProxySettings,
        policy: Option<Arc<AddressPolicy>>,
        trust: Arc<Trust>,
    ) -> Self {
        let direct = dialler(resolver.clone(), policy.clone());
        let to_proxy = dialler(resolver, None);
        Connector { parts: Arc::new(Parts { direct, to_proxy, proxies, policy, trust }) }
    }
}

impl Connector {
    /// Whether a target is reached by plain HTTP and without a proxy.
    pub(crate) fn is_plain(&self, target: &Uri) -> bool {
        target.scheme() == Some(&http::uri::Scheme::HTTP) && self.parts.proxies.route(target).is_none()
    }

    /// A connection to such a target.
    pub(crate) async fn plain(&self, target: Uri) -> crate::Result<Leg> {
        self.parts.clone().unencrypted(target).await
    }
}

fn dialler(resolver: Arc<dyn Resolver>, policy: Option<Arc<AddressPolicy>>) -> Dialler {
    let mut dialler = HttpConnector::new_with_resolver(GuardedResolver { resolver, policy });
    dialler.enforce_http(false);
    // Without it a small write waits for the other side's delayed acknowledgement: 40 ms in the middle of a stream.
    dialler.set_nodelay(true);
    dialler.set_keepalive(Some(Duration::from_secs(60)));
    dialler
}

impl Service<Uri> for Connector {
    type Response = MaybeHttpsStream<Leg>;
    type Error = NetError;
    type Future = BoxFuture<'static, crate::Result<Self::Response>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<crate::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, target: Uri) -> Self::Future {
        let parts = self.parts.clone();
        Box::pin(async move {
            if target.scheme_str() == Some("https") {
                let authority = authority(&target);
                let config = parts.trust.configs(&authority).await?.origin;
                let mut connector = HttpsConnector::from((Unencrypted { parts }, config));
                connector.call(target).await.map_err(|error| tls_error(authority, error))
            } else {
                Ok(MaybeHttpsStream::Http(parts.unencrypted(target).await?))
            }
        })
    }
}

/// The way to a target before TLS is spoken with it.
#[derive(Clone)]
struct Unencrypted {
    parts: Arc<Parts>,
}

impl Service<Uri> for Unencrypted {
    type Response = Leg;
    type Error = NetError;
    type Future = BoxFuture<'static, crate::Result<Leg>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<crate::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, target: Uri) -> Self::Future {
        let parts = self.parts.clone();
        Box::pin(async move { parts.unencrypted(target).await })
    }
}

impl Parts {
    async fn unencrypted(self: Arc<Self>, target: Uri) -> crate::Result<Leg> {
        let host = target.host().unwrap_or_default();
        let Some(proxy) = self.proxies.route(&target) else {
            if let Some(policy) = &self.policy {
                policy.check_literal(host)?;
            }
            let stream = dial(self.direct.clone(), target).await?;
            return Ok(Leg { stream: MaybeHttpsStream::Http(stream), is_forwarded: false });
        };
        if let Some(policy) = &self.policy {
            policy.check_proxied(host)?;
        }
        let authority = authority(&target);
        let mut way = ToProxy { parts: self.clone() };
        let is_tunnelled = target.scheme_str() == Some("https");
        let connected = if is_tunnelled {
            let mut tunnel = Tunnel::new(proxy.uri().clone(), way);
            if let Some(user) = proxy.basic_auth() {
                tunnel = tunnel.with_auth(user.clone());
            }
            tunnel.call(target).await.map_err(|error| Arc::new(error) as Cause)
        } else {
            way.call(proxy.uri().clone()).await.map_err(|error| Arc::new(error) as Cause)
        };
        let stream = connected.map_err(|cause| NetError::Proxy { proxy: proxy_name(&proxy), authority, cause })?;
        Ok(Leg { stream, is_forwarded: !is_tunnelled })
    }
}

fn proxy_name(proxy: &Intercept) -> String {
    authority(proxy.uri())
}

/// The way to a proxy.
#[derive(Clone)]
struct ToProxy {
    parts: Arc<Parts>,
}

impl Service<Uri> for ToProxy {
    type Response = ProxyStream;
    type Error = NetError;
    type Future = BoxFuture<'static, crate::Result<ProxyStream>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<crate::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, proxy: Uri) -> Self::Future {
        let parts = self.parts.clone();
        Box::pin(async move {
            if proxy.scheme_str() != Some("https") {
                return Ok(MaybeHttpsStream::Http(dial(parts.to_proxy.clone(), proxy).await?));
            }
            let authority = authority(&proxy);
            let config = parts.trust.configs(&authority).await?.proxy;
            let mut connector = HttpsConnector::from((parts.to_proxy.clone(), config));
            connector.call(proxy).await.map_err(|error| tls_error(authority, error))
        })
    }
}

async fn dial(mut dialler: Dialler, target: Uri) -> crate::Result<TokioIo<TcpStream>> {
    let authority = authority(&target);
    dialler.call(target).await.map_err(|error| match net_error_in(&error) {
        Some(known) => known,
        None => NetError::Connect { authority, cause: Arc::new(error) },
    })
}

fn tls_error(authority: String, error: Box<dyn Error + Send + Sync>) -> NetError {
    match net_error_in(&*error) {
        Some(known) => known,
        None => NetError::Tls { authority, cause: Arc::from(error) },
    }
}

/// Our own error, if one lies within the chain of another library's.
pub(crate) fn net_error_in(error: &(dyn Error + 'static)) -> Option<NetError> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(known) = error.downcast_ref::<NetError>() {
            return Some(known.clone());
        }
        next = error.source();
    }
    None
}

/// Host and port of an address, for messages.
pub(crate) fn authority(uri: &Uri) -> String {
    uri.authority().map_or_else(String::new, |authority| authority.as_str().to_owned())
}

/// A connection up to the point where TLS with the target or plain HTTP begins.
pub(crate) struct Leg {
    stream: ProxyStream,
    /// A proxy forwards what is sent, so it wants whole addresses.
    is_forwarded: bool,
}

impl Connection for Leg {
    fn connected(&self) -> Connected {
        self.stream.connected().proxy(self.is_forwarded)
    }
}

impl Read for Leg {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl Write for Leg {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::SystemResolver;

    #[tokio::test]
    async fn small_writes_are_not_held_back() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
        let stream = dial(dialler(Arc::new(SystemResolver), None), target).await.unwrap();
        assert!(stream.inner().nodelay().unwrap());
    }
}
