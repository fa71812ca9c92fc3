use crate::support::{Names, Peer, Server, client, get, never, whole_text};
use crate::tls::{Authority, url};
use placet_net::{ClientOptions, NetError, ProxySettings, Url};
use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;

fn settings(proxy: &Server) -> ProxySettings {
    let address = format!("http://user:hunt%40er2@127.0.0.1:{}", proxy.port());
    ProxySettings::from_vars(|name| match name {
        "ALL_PROXY" => Some(address.clone()),
        "NO_PROXY" => Some("direct.test".to_owned()),
        _ => None,
    })
    .unwrap()
}

/// `user:hunt@er2`.
const AUTHORIZATION: &str = "Basic dXNlcjpodW50QGVyMg==";

#[tokio::test]
async fn http_is_forwarded_with_its_whole_address() {
    let proxy = Server::start().await;
    let client = client(ClientOptions::new().proxies(settings(&proxy)));
    let ask = async {
        for path in ["/a", "/b"] {
            let url = Url::parse(&format!("http://upstream.test:8080{path}?q=1")).unwrap();
            let response = client.send(get(url), never()).await.unwrap();
            assert_eq!(response.text(10).await.unwrap(), "via");
        }
    };
    tokio::join!(ask, async {
        let mut peer = proxy.accept().await;
        for path in ["/a", "/b"] {
            let seen = peer.request().await;
            assert_eq!(seen.line(), format!("GET http://upstream.test:8080{path}?q=1 HTTP/1.1"));
            assert_eq!(seen.header("host"), Some("upstream.test:8080"));
            assert_eq!(seen.header("proxy-authorization"), Some(AUTHORIZATION));
            peer.answer("200 OK", "", "via").await;
        }
    });
}

#[tokio::test]
async fn https_is_tunnelled() {
    let (authority, proxy, upstream) = (Authority::new(), Server::start().await, Server::start().await);
    let client = client(authority.options().proxies(settings(&proxy)));
    let ask = async {
        let response = client.send(get(url("upstream.test", &upstream, "/x")), never()).await.unwrap();
        let text = response.text(10).await.unwrap();
        drop(client);
        text
    };
    let relay = async {
        let mut peer = proxy.accept().await;
        let seen = peer.request().await;
        assert_eq!(seen.line(), format!("CONNECT upstream.test:{} HTTP/1.1", upstream.port()));
        let sent = seen.head.iter().find(|line| line.to_ascii_lowercase().starts_with("proxy-authorization"));
        assert!(sent.unwrap().ends_with(AUTHORIZATION));
        peer.send("HTTP/1.1 200 Connection established\r\n\r\n").await;
        let mut onward = TcpStream::connect(("127.0.0.1", upstream.port())).await.unwrap();
        // Ends when either side does.
        let _ = copy_bidirectional(&mut peer.stream, &mut onward).await;
    };
    let serve = async {
        let mut peer = authority.accept(upstream.accept_stream().await).await;
        let seen = peer.request().await;
        assert_eq!(seen.line(), "GET /x HTTP/1.1");
        assert_eq!(seen.header("proxy-authorization"), None);
        peer.answer("200 OK", "", "deep").await;
    };
    let (text, (), ()) = tokio::join!(ask, relay, serve);
    assert_eq!(text, "deep");
}

#[tokio::test]
async fn a_proxy_may_speak_tls_itself() {
    let (authority, proxy, upstream) = (Authority::new(), Server::start().await, Server::start().await);
    let address = format!("https://proxy.test:{}", proxy.port());
    let client = client(authority.options().proxies(ProxySettings::new(&address, &address, "").unwrap()));
    let ask = async {
        let plain = Url::parse("http://plain.test/y").unwrap();
        let response = client.send(get(plain), never()).await.unwrap();
        assert_eq!(response.text(10).await.unwrap(), "via");
        let response = client.send(get(url("upstream.test", &upstream, "/x")), never()).await.unwrap();
        assert_eq!(response.text(10).await.unwrap(), "deep");
        drop(client);
    };
    let relay = async {
        let mut peer = authority.accept(proxy.accept_stream().await).await;
        assert_eq!(peer.request().await.line(), "GET http://plain.test/y HTTP/1.1");
        peer.answer("200 OK", "", "via").await;
        let mut peer = authority.accept(proxy.accept_stream().await).await;
        assert!(peer.request().await.line().starts_with("CONNECT upstream.test:"));
        peer.send("HTTP/1.1 200 OK\r\n\r\n").await;
        let mut onward = TcpStream::connect(("127.0.0.1", upstream.port())).await.unwrap();
        let _ = copy_bidirectional(&mut peer.stream, &mut onward).await;
    };
    let serve = async {
        let mut peer = authority.accept(upstream.accept_stream().await).await;
        peer.request().await;
        peer.answer("200 OK", "", "deep").await;
    };
    tokio::join!(ask, relay, serve);
}

#[tokio::test]
async fn a_proxy_that_refuses_is_named_without_its_password() {
    let proxy = Server::start().await;
    let client = client(Authority::new().options().proxies(settings(&proxy)));
    for (status, may_pass) in [("407 Proxy Authentication Required", false), ("503 Service Unavailable", true)] {
        let target = Url::parse("https://upstream.test/").unwrap();
        let (response, ()) = tokio::join!(client.send(get(target), never()), async {
            let mut peer: Peer<TcpStream> = proxy.accept().await;
            peer.request().await;
            peer.answer(status, "", "").await;
        });
        let error = response.unwrap_err();
        assert!(matches!(&error, NetError::Proxy { proxy: name, .. } if name.ends_with(&proxy.port().to_string())));
        assert_eq!(error.is_retryable(), may_pass, "{error:?}");
        assert!(!whole_text(&error).contains("er2"), "{}", whole_text(&error));
    }
    assert!(!format!("{client:?}").contains("er2"), "{client:?}");
}

#[tokio::test]
async fn a_proxy_that_is_away_may_come_back() {
    let proxy = Server::start().await;
    let client = client(ClientOptions::new().proxies(settings(&proxy)));
    drop(proxy);
    for target in ["http://upstream.test/", "https://upstream.test/"] {
        let error = client.send(get(Url::parse(target).unwrap()), never()).await.unwrap_err();
        assert!(matches!(error, NetError::Proxy { .. }) && error.is_retryable(), "{target}: {error:?}");
    }
}

#[tokio::test]
async fn exceptions_go_direct() {
    let (proxy, upstream) = (Server::start().await, Server::start().await);
    let options =
        ClientOptions::new().proxies(settings(&proxy)).resolver(Names::local(&["direct.test", "a.direct.test"]));
    let client = client(options);
    for host in ["direct.test", "a.direct.test", "127.0.0.1"] {
        let target = Url::parse(&format!("http://{host}:{}/x", upstream.port())).unwrap();
        let (response, ()) = tokio::join!(client.send(get(target), never()), async {
            let mut peer = upstream.accept().await;
            let seen = peer.request().await;
            assert_eq!(seen.line(), "GET /x HTTP/1.1");
            assert_eq!(seen.header("proxy-authorization"), None);
            peer.answer("200 OK", "", "").await;
        });
        response.unwrap();
    }
    assert!(!proxy.is_visited().await);
}

#[tokio::test]
async fn a_proxy_that_is_not_trusted_gets_nothing() {
    let (authority, stranger, proxy) = (Authority::new(), Authority::new(), Server::start().await);
    let address = format!("https://proxy.test:{}", proxy.port());
    let client = client(stranger.options().proxies(ProxySettings::new(&address, &address, "").unwrap()));
    for target in ["http://upstream.test/", "https://upstream.test/"] {
        let (response, ()) = tokio::join!(client.send(get(Url::parse(target).unwrap()), never()), async {
            authority.acceptor(&[]).accept(proxy.accept_stream().await).await.unwrap_err();
        });
        let error = response.unwrap_err();
        assert!(matches!(error, NetError::Proxy { .. }) && !error.is_retryable(), "{error:?}");
    }
}
