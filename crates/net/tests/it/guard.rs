use crate::support::{Names, Server, client, get, never, plain};
use placet_net::{AddressPolicy, ClientOptions, NetError, ProxySettings, Url};

fn is_refused(error: &NetError) -> bool {
    matches!(error, NetError::AddressRefused { .. })
}

#[tokio::test]
async fn inner_addresses_are_refused_before_anything_is_sent() {
    let server = Server::start().await;
    let names = Names::local(&["inner.test", "0x7f.1"]);
    let client = client(ClientOptions::new().resolver(names).address_policy(AddressPolicy::public_only()));
    for host in ["127.0.0.1", "inner.test", "0x7f.1", "[::1]", "[::ffff:127.0.0.1]", "169.254.169.254"] {
        let url = Url::parse(&format!("http://{host}:{}/", server.port())).unwrap();
        let error = client.send(get(url), never()).await.unwrap_err();
        assert!(is_refused(&error) && !error.is_retryable(), "{host}: {error:?}");
    }
    let url = Url::parse(&format!("https://inner.test:{}/", server.port())).unwrap();
    assert!(is_refused(&client.send(get(url), never()).await.unwrap_err()));
    assert!(!server.is_visited().await);
}

#[tokio::test]
async fn an_allowed_host_is_reached() {
    let server = Server::start().await;
    let policy = AddressPolicy::public_only().allow_host("inner.test");
    let client =
        client(ClientOptions::new().resolver(Names::local(&["inner.test", "other.test"])).address_policy(policy));
    let url = |host: &str| Url::parse(&format!("http://{host}:{}/", server.port())).unwrap();
    let (response, ()) = tokio::join!(client.send(get(url("inner.test")), never()), async {
        let mut peer = server.accept().await;
        peer.request().await;
        peer.answer("200 OK", "", "").await;
    });
    assert_eq!(response.unwrap().status, 200);
    assert!(is_refused(&client.send(get(url("other.test")), never()).await.unwrap_err()));
}

#[tokio::test]
async fn a_guarded_client_shares_no_connection_with_its_origin() {
    let server = Server::start().await;
    let open = plain();
    let (response, mut peer) = tokio::join!(open.send(get(server.url("/")), never()), async {
        let mut peer = server.accept().await;
        peer.request().await;
        peer.answer("200 OK", "", "").await;
        peer
    });
    response.unwrap().bytes(10).await.unwrap();
    let guarded = open.guarded(AddressPolicy::public_only()).unwrap();
    assert!(is_refused(&guarded.send(get(server.url("/")), never()).await.unwrap_err()));
    // The origin still has its connection, and nothing but the second request comes over it.
    let (response, ()) = tokio::join!(open.send(get(server.url("/second")), never()), async {
        assert_eq!(peer.request().await.line(), "GET /second HTTP/1.1");
        peer.answer("200 OK", "", "").await;
    });
    response.unwrap();
}

#[tokio::test]
async fn a_proxy_that_is_not_trusted_is_no_way_around() {
    let proxy = Server::start().await;
    let proxies = ProxySettings::new(&format!("http://127.0.0.1:{}", proxy.port()), "", "").unwrap();
    let options = ClientOptions::new().proxies(proxies);
    let guarded = client(options.clone().address_policy(AddressPolicy::public_only()));
    let url = Url::parse("http://example.test/").unwrap();
    assert!(is_refused(&guarded.send(get(url.clone()), never()).await.unwrap_err()));
    assert!(!proxy.is_visited().await);

    let trusting = client(options.address_policy(AddressPolicy::public_only().trusting_proxy()));
    let (response, ()) = tokio::join!(trusting.send(get(url), never()), async {
        let mut peer = proxy.accept().await;
        assert_eq!(peer.request().await.line(), "GET http://example.test/ HTTP/1.1");
        peer.answer("200 OK", "", "").await;
    });
    response.unwrap();
    let inner = Url::parse("http://10.0.0.1/").unwrap();
    assert!(is_refused(&trusting.send(get(inner), never()).await.unwrap_err()));
}
