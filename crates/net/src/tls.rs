//! TLS configuration, made at the first https request.

use crate::{Cause, NetError};
use placet_core::Env;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::path::Path;
use std::sync::Arc;
use tokio::sync::{OnceCell, oneshot};

/// Whom we trust. Certificates of the system are parsed once, when first needed: that costs milliseconds, which a program
/// that talks to a local server need not spend at its start.
pub(crate) struct Trust {
    extra: Vec<CertificateDer<'static>>,
    system: bool,
    http2: bool,
    env: Env,
    loaded: OnceCell<TlsConfigs>,
}

/// One configuration for the servers we ask, which may speak HTTP/2, one for proxies, which are spoken to in HTTP/1.1.
#[derive(Clone)]
pub(crate) struct TlsConfigs {
    pub(crate) origin: Arc<ClientConfig>,
    pub(crate) proxy: Arc<ClientConfig>,
}

impl Trust {
    pub(crate) fn new(extra: Vec<CertificateDer<'static>>, system: bool, http2: bool, env: Env) -> Self {
        Trust { extra, system, http2, env, loaded: OnceCell::new() }
    }

    /// The configurations; `authority` is whom they are needed for, for the error.
    pub(crate) async fn configs(&self, authority: &str) -> crate::Result<TlsConfigs> {
        let failed = |cause: Cause| NetError::Tls { authority: authority.to_owned(), cause };
        self.loaded
            .get_or_try_init(async || {
                let (done, loaded) = oneshot::channel();
                let (extra, system, http2) = (self.extra.clone(), self.system, self.http2);
                let load = move || {
                    // Nobody listens any more when the request was cancelled.
                    let _ = done.send(build(extra, system, http2));
                };
                self.env.tasks().spawn_blocking("load trusted certificates", Box::new(load));
                loaded
                    .await
                    .map_err(|_| NetError::Background { reason: "loading the trusted certificates".to_owned() })?
                    .map_err(failed)
            })
            .await
            .cloned()
    }
}

fn build(extra: Vec<CertificateDer<'static>>, system: bool, http2: bool) -> Result<TlsConfigs, Cause> {
    let mut roots = RootCertStore::empty();
    // Checked when the client was built.
    roots.add_parsable_certificates(extra);
    if system {
        let found = rustls_native_certs::load_native_certs();
        let (added, _) = roots.add_parsable_certificates(found.certs);
        // A system store often holds a file or two that cannot be read; that matters only if nothing else is there.
        if added == 0 && roots.is_empty() {
            let first = found.errors.first().map(|error| format!(" ({error})")).unwrap_or_default();
            return Err(Arc::new(std::io::Error::other(format!("no trusted certificates were found{first}"))));
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut proxy = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Arc::new(error) as Cause)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    proxy.alpn_protocols = vec![b"http/1.1".to_vec()];
    let mut origin = proxy.clone();
    if http2 {
        origin.alpn_protocols.insert(0, b"h2".to_vec());
    }
    Ok(TlsConfigs { origin: Arc::new(origin), proxy: Arc::new(proxy) })
}

/// Reads the certificates of a file that somebody named: one that cannot be used is an error, at once.
pub(crate) fn read_certificates(path: &Path) -> crate::Result<Vec<CertificateDer<'static>>> {
    let unusable = |reason: &str, cause: Option<Cause>| NetError::InvalidSetting {
        setting: format!("the certificate file {}", path.display()),
        reason: reason.to_owned(),
        cause,
    };
    let certificates = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| unusable("it cannot be read as PEM", Some(Arc::new(error))))?;
    if certificates.is_empty() {
        return Err(unusable("it holds no certificate in PEM form", None));
    }
    for certificate in &certificates {
        RootCertStore::empty()
            .add(certificate.clone())
            .map_err(|error| unusable("it holds a certificate that is malformed", Some(Arc::new(error))))?;
    }
    Ok(certificates)
}
