//! The address guard: which machines a client may reach.

use crate::NetError;
use crate::proxy::{is_at_or_below, is_local};
use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use placet_core::BoxFuture;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll};
use tower_service::Service;

/// Turns a host's name into addresses.
pub trait Resolver: Send + Sync + fmt::Debug {
    /// The addresses of `host`, best first.
    ///
    /// # Errors
    /// Whatever kept the name from being resolved.
    fn resolve(&self, host: &str) -> BoxFuture<'static, std::io::Result<Vec<IpAddr>>>;
}

/// The system's resolver.
#[derive(Clone, Debug, Default)]
pub struct SystemResolver;

impl Resolver for SystemResolver {
    fn resolve(&self, host: &str) -> BoxFuture<'static, std::io::Result<Vec<IpAddr>>> {
        let name = host.parse::<Name>();
        Box::pin(async move {
            let name = name.map_err(std::io::Error::other)?;
            Ok(GaiResolver::new().call(name).await?.map(|address| address.ip()).collect())
        })
    }
}

/// Refuses targets inside our own network: loopback, private, link-local and other addresses that are not public.
///
/// It is enforced on the addresses that are really connected to, after the name was resolved, so that a name that resolves
/// to something else the second time gains nothing. It is meant for clients that fetch what a model or a stranger named; a
/// client of configured base URLs goes without, since a model server often stands on `localhost`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressPolicy {
    allowed: Vec<String>,
    trusts_proxy: bool,
}

impl AddressPolicy {
    /// Only public addresses.
    #[must_use]
    pub fn public_only() -> Self {
        AddressPolicy::default()
    }

    /// Allows a host whatever it resolves to: a name, an IP address as it is written in a URL, or `.name` for everything
    /// below a name.
    #[must_use]
    pub fn allow_host(mut self, host: &str) -> Self {
        self.allowed.push(normal(host));
        self
    }

    /// Allows requests through a proxy. A proxy resolves names by itself, out of our sight, so such requests are refused
    /// unless it is trusted to keep them out of the inner network. Addresses written as such are still checked here.
    #[must_use]
    pub fn trusting_proxy(mut self) -> Self {
        self.trusts_proxy = true;
        self
    }

    fn allows_host(&self, host: &str) -> bool {
        let host = normal(host);
        self.allowed.iter().any(|allowed| match allowed.strip_prefix('.') {
            Some(parent) => host != parent && is_at_or_below(&host, parent),
            None => host == *allowed,
        })
    }

    /// Checks a host before anything is resolved: all that can be said of one that is an address already.
    pub(crate) fn check_literal(&self, host: &str) -> crate::Result<()> {
        match normal(host).parse::<IpAddr>() {
            Ok(address) if !self.allows_host(host) && !is_public_address(address) => Err(refused(host, Some(address))),
            _ => Ok(()),
        }
    }

    /// Checks a host before anything is resolved, and the names of this machine as well.
    pub(crate) fn check_unresolved(&self, host: &str) -> crate::Result<()> {
        self.check_literal(host)?;
        if is_local(normal(host).as_str()) && !self.allows_host(host) {
            return Err(NetError::AddressRefused {
                host: host.to_owned(),
                address: None,
                reason: "it is this machine",
            });
        }
        Ok(())
    }

    /// Checks a host that a proxy will resolve.
    pub(crate) fn check_proxied(&self, host: &str) -> crate::Result<()> {
        if self.allows_host(host) {
            return Ok(());
        }
        self.check_literal(host)?;
        let reason = if !self.trusts_proxy {
            "it would go through a proxy, which resolves names out of our sight and is not trusted to keep them outside"
        } else if is_local(normal(host).as_str()) {
            "it is this machine"
        } else {
            return Ok(());
        };
        Err(NetError::AddressRefused { host: host.to_owned(), address: None, reason })
    }

    /// Leaves of the resolved addresses those that may be reached.
    fn admit(&self, host: &str, addresses: Vec<IpAddr>) -> crate::Result<Vec<IpAddr>> {
        if self.allows_host(host) {
            return Ok(addresses);
        }
        let first = addresses.first().copied();
        let admitted: Vec<_> = addresses.into_iter().filter(|address| is_public_address(*address)).collect();
        match first {
            Some(first) if admitted.is_empty() => Err(refused(host, Some(first))),
            _ => Ok(admitted),
        }
    }
}

fn refused(host: &str, address: Option<IpAddr>) -> NetError {
    NetError::AddressRefused { host: host.to_owned(), address, reason: "it is not a public address" }
}

/// A host as it is compared: small letters, no brackets, no final dot.
fn normal(host: &str) -> String {
    host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.').to_ascii_lowercase()
}

/// Whether an address is reachable from everywhere: not loopback, private, link-local, shared, reserved, multicast,
/// documentation or unspecified, nor an IPv6 form that holds such an IPv4 address.
#[must_use]
pub fn is_public_address(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !(address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation()
        || a == 0
        || a >= 240
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && (b == 18 || b == 19)))
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let parts = address.segments();
    let embedded = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match parts {
        // IPv4-mapped, and NAT64 by the well-known prefix.
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => embedded(high, low),
        // 6to4.
        [0x2002, high, low, ..] => embedded(high, low),
        // Teredo, documentation.
        [0x2001, 0, ..] | [0x2001, 0x0db8, ..] => false,
        [0x3fff, second, ..] if second < 0x1000 => false,
        // Only 2000::/3 is given out as global unicast: this leaves out loopback, unspecified, unique local, link-local,
        // site-local, multicast and everything reserved.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

/// A resolver as hyper-util's connector takes it, with the policy inside: what it does not let through is not dialled.
#[derive(Clone)]
pub(crate) struct GuardedResolver {
    pub(crate) resolver: Arc<dyn Resolver>,
    pub(crate) policy: Option<Arc<AddressPolicy>>,
}

impl fmt::Debug for GuardedResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuardedResolver").field("policy", &self.policy).finish_non_exhaustive()
    }
}

impl Service<Name> for GuardedResolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = NetError;
    type Future = BoxFuture<'static, crate::Result<Self::Response>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<crate::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            let host = name.as_str();
            let failed = |cause| NetError::Dns { host: host.to_owned(), cause };
            let mut addresses = this.resolver.resolve(host).await.map_err(|error| failed(Arc::new(error)))?;
            if let Some(policy) = &this.policy {
                addresses = policy.admit(host, addresses)?;
            }
            if addresses.is_empty() {
                return Err(failed(Arc::new(std::io::Error::other("it has no addresses"))));
            }
            // Port 0 is replaced by the connector with the target's.
            Ok(addresses.into_iter().map(|ip| SocketAddr::new(ip, 0)).collect::<Vec<_>>().into_iter())
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn only_addresses_of_the_open_internet_are_public() {
        for (text, public) in [
            ("93.184.216.34", true),
            ("1.1.1.1", true),
            ("100.63.255.255", true),
            ("100.64.0.1", false),
            ("100.128.0.1", true),
            ("172.15.0.1", true),
            ("172.16.0.1", false),
            ("10.0.0.1", false),
            ("192.168.0.1", false),
            ("127.0.0.1", false),
            ("127.9.9.9", false),
            ("169.254.169.254", false),
            ("0.0.0.0", false),
            ("0.1.2.3", false),
            ("192.0.0.8", false),
            ("192.0.2.1", false),
            ("198.18.0.1", false),
            ("198.20.0.1", true),
            ("224.0.0.1", false),
            ("240.0.0.1", false),
            ("255.255.255.255", false),
            ("2606:4700:4700::1111", true),
            ("::1", false),
            ("::", false),
            ("::127.0.0.1", false),
            ("::ffff:127.0.0.1", false),
            ("::ffff:8.8.8.8", true),
            ("64:ff9b::a00:1", false),
            ("64:ff9b::808:808", true),
            ("64:ff9b:1::808:808", false),
            ("2002:7f00:1::", false),
            ("2002:808:808::1", true),
            ("2001:0:4136:e378:8000:63bf:3fff:fdd2", false),
            ("2001:db8::1", false),
            ("2001:4860:4860::8888", true),
            ("3fff::1", false),
            ("fc00::1", false),
            ("fd00:ec2::254", false),
            ("fe80::1", false),
            ("fec0::1", false),
            ("ff02::1", false),
            ("100::1", false),
        ] {
            assert_eq!(is_public_address(text.parse().unwrap()), public, "{text}");
        }
    }

    #[test]
    fn allowed_hosts_are_matched_whole() {
        let policy = AddressPolicy::public_only().allow_host("Ollama.internal").allow_host(".corp").allow_host("[::1]");
        for (host, allowed) in [
            ("ollama.internal", true),
            ("OLLAMA.internal.", true),
            ("x.ollama.internal", false),
            ("a.corp", true),
            ("corp", false),
            ("acorp", false),
            ("[::1]", true),
            ("::1", true),
        ] {
            assert_eq!(policy.allows_host(host), allowed, "{host}");
        }
    }

    #[test]
    fn mixed_answers_keep_their_public_part() {
        let policy = AddressPolicy::public_only();
        let (inner, outer): (IpAddr, IpAddr) = ("10.0.0.1".parse().unwrap(), "1.1.1.1".parse().unwrap());
        assert_eq!(policy.admit("h", vec![inner, outer]).unwrap(), vec![outer]);
        assert!(
            matches!(policy.admit("h", vec![inner]), Err(NetError::AddressRefused { address: Some(a), .. }) if a == inner)
        );
        assert_eq!(policy.clone().allow_host("h").admit("h", vec![inner]).unwrap(), vec![inner]);
    }

    #[test]
    fn a_proxy_is_not_trusted_by_default() {
        let policy = AddressPolicy::public_only();
        assert!(policy.check_proxied("example.com").is_err());
        let policy = policy.trusting_proxy();
        assert!(policy.check_proxied("example.com").is_ok());
        for host in ["10.0.0.1", "[::1]", "localhost", "a.localhost"] {
            assert!(policy.check_proxied(host).is_err(), "{host}");
        }
        assert!(policy.allow_host("10.0.0.1").check_proxied("10.0.0.1").is_ok());
    }

    #[test]
    fn what_is_known_of_a_host_before_it_is_resolved_is_told() {
        let policy = AddressPolicy::public_only();
        for host in ["127.0.0.1", "[::1]", "10.0.0.1", "169.254.169.254", "localhost", "LOCALHOST.", "a.localhost"] {
            assert!(policy.check_unresolved(host).is_err(), "{host}");
            assert!(policy.clone().allow_host(host).check_unresolved(host).is_ok(), "{host}");
        }
        for host in ["example.com", "93.184.216.34"] {
            assert!(policy.check_unresolved(host).is_ok(), "{host}");
        }
    }
}
