use crate::support::{Names, Peer, Server, client, get, never, whole_text};
use placet_net::{Client, ClientOptions, NetError, Url};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use std::io::Write as _;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::server::TlsStream;

/// A certificate authority of its own, and a server certificate of it for `upstream.test`.
pub(crate) struct Authority {
    pub(crate) file: tempfile::NamedTempFile,
    config: ServerConfig,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let root = params.self_signed(&key).unwrap();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(root.pem().as_bytes()).unwrap();
        let issuer = Issuer::new(params, key);
        let server_key = KeyPair::generate().unwrap();
        let names = vec!["upstream.test".to_owned(), "proxy.test".to_owned()];
        let server = CertificateParams::new(names).unwrap().signed_by(&server_key, &issuer).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![server.der().clone()], PrivateKeyDer::Pkcs8(server_key.serialize_der().into()))
            .unwrap();
        Authority { file, config }
    }

    pub(crate) fn acceptor(&self, protocols: &[&str]) -> TlsAcceptor {
        let mut config = self.config.clone();
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        TlsAcceptor::from(Arc::new(config))
    }

    pub(crate) async fn accept(&self, stream: TcpStream) -> Peer<TlsStream<TcpStream>> {
        Peer::new(self.acceptor(&["http/1.1"]).accept(stream).await.unwrap())
    }

    /// Trusts this authority and no other.
    pub(crate) fn options(&self) -> ClientOptions {
        ClientOptions::new().system_certificates(false).certificate_file(self.file.path()).resolver(Names::local(&[
            "upstream.test",
            "proxy.test",
            "elsewhere.test",
        ]))
    }

    pub(crate) fn client(&self) -> Client {
        client(self.options())
    }
}

pub(crate) fn url(host: &str, server: &Server, path: &str) -> Url {
    Url::parse(&format!("https://{host}:{}{path}", server.port())).unwrap()
}

#[tokio::test]
async fn a_named_authority_is_trusted() {
    let (authority, server) = (Authority::new(), Server::start().await);
    let client = authority.client();
    let (response, ()) = tokio::join!(client.send(get(url("upstream.test", &server, "/x")), never()), async {
        let mut peer = authority.accept(server.accept_stream().await).await;
        let seen = peer.request().await;
        assert_eq!(seen.line(), "GET /x HTTP/1.1");
        peer.answer("200 OK", "", "safe").await;
    });
    assert_eq!(response.unwrap().text(10).await.unwrap(), "safe");
}

#[tokio::test]
async fn a_stranger_and_a_wrong_name_are_not_trusted() {
    let (authority, stranger, server) = (Authority::new(), Authority::new(), Server::start().await);
    for (client, host) in [(stranger.client(), "upstream.test"), (authority.client(), "elsewhere.test")] {
        let (response, ()) = tokio::join!(client.send(get(url(host, &server, "/")), never()), async {
            let stream = server.accept_stream().await;
            // The client ends the handshake.
            authority.acceptor(&[]).accept(stream).await.unwrap_err();
        });
        let error = response.unwrap_err();
        assert!(matches!(error, NetError::Tls { .. }), "{error:?}");
        assert!(!error.is_retryable());
        assert!(whole_text(&error).contains("certificate"), "{}", whole_text(&error));
    }
}

#[tokio::test]
async fn nothing_trusted_is_an_empty_trust() {
    let server = Server::start().await;
    let options = ClientOptions::new().system_certificates(false).resolver(Names::local(&["upstream.test"]));
    let client = client(options);
    let (response, _) = tokio::join!(client.send(get(url("upstream.test", &server, "/")), never()), async {
        Authority::new().acceptor(&[]).accept(server.accept_stream().await).await
    });
    assert!(matches!(response, Err(NetError::Tls { .. })));
}

#[tokio::test]
async fn http2_is_agreed_on_and_shares_one_connection() {
    let (authority, server) = (Authority::new(), Server::start().await);
    let client = authority.client();
    let serve = async {
        let stream = authority.acceptor(&["h2", "http/1.1"]).accept(server.accept_stream().await).await.unwrap();
        let answer = |request: http::Request<hyper::body::Incoming>| async move {
            let text = format!("{} {:?}", request.uri().path(), request.version());
            Ok::<_, std::convert::Infallible>(http::Response::new(http_body_util::Full::new(bytes::Bytes::from(text))))
        };
        let executor = hyper_util::rt::TokioExecutor::new();
        let io = hyper_util::rt::TokioIo::new(stream);
        let connection =
            hyper::server::conn::http2::Builder::new(executor).serve_connection(io, hyper::service::service_fn(answer));
        // Ends when the client goes away.
        let _ = connection.await;
    };
    let ask = async {
        // Whether a server speaks HTTP/2 is known once a connection stands; from then on it is shared.
        let first = client.send(get(url("upstream.test", &server, "/0")), never()).await.unwrap();
        assert_eq!(first.text(100).await.unwrap(), "/0 HTTP/2.0");
        let (first, second) = tokio::join!(
            client.send(get(url("upstream.test", &server, "/1")), never()),
            client.send(get(url("upstream.test", &server, "/2")), never()),
        );
        for (response, text) in [(first, "/1 HTTP/2.0"), (second, "/2 HTTP/2.0")] {
            let response = response.unwrap();
            assert_eq!(response.version, http::Version::HTTP_2);
            assert_eq!(response.text(100).await.unwrap(), text);
        }
        assert!(!server.is_visited().await, "a second connection was made");
    };
    tokio::select! {
        () = ask => {}
        () = serve => panic!("the server ended first"),
    }
}

#[tokio::test]
async fn an_unusable_certificate_file_is_found_when_the_client_is_built() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"no certificate").unwrap();
    let garbage = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let mut malformed = tempfile::NamedTempFile::new().unwrap();
    malformed.write_all(garbage.as_bytes()).unwrap();
    let missing = file.path().with_extension("missing");
    for (path, reason) in [(file.path(), "holds no"), (malformed.path(), "malformed"), (&missing, "cannot be read")] {
        let options = ClientOptions::new().certificate_file(path);
        let error = Client::new(options, placet_core::Env::system()).unwrap_err();
        assert!(matches!(error, NetError::InvalidSetting { .. }) && error.to_string().contains(reason), "{error}");
    }
}
