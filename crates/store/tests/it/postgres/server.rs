//! The server that the environment names, a schema of its own for each test, and a wire to it that can be cut.

use placet_core::Env;
use placet_store::{PostgresOptions, PostgresStore};
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_postgres::config::Host;
use tokio_postgres::{Client, Config, NoTls};

/// A schema on the server that is nobody else's.
pub(super) struct Place {
    pub(super) url: String,
    pub(super) schema: String,
    pub(super) env: Env,
}

/// Runs a test on the server, if there is one.
pub(super) async fn on_server(name: &str, test: impl AsyncFnOnce(&Place)) {
    let env = Env::system();
    let schema = format!("test_{:016x}", env.random().next_u64());
    let Some(url) = url() else {
        eprintln!("SKIPPED postgres {name}: PLACET_TEST_POSTGRES names no server");
        return;
    };
    let place = Place { url, schema, env };
    test(&place).await;
    place.client().await.batch_execute(&format!("DROP SCHEMA IF EXISTS {} CASCADE", place.schema)).await.unwrap();
}

#[expect(clippy::disallowed_methods, reason = "who runs the tests says where the server is")]
fn url() -> Option<String> {
    let url = std::env::var("PLACET_TEST_POSTGRES").ok().filter(|url| !url.is_empty());
    let required = std::env::var("PLACET_REQUIRE_POSTGRES").is_ok_and(|value| value == "1");
    assert!(url.is_some() || !required, "PLACET_REQUIRE_POSTGRES=1, but PLACET_TEST_POSTGRES names no server");
    url
}

impl Place {
    pub(super) fn options(&self) -> PostgresOptions {
        let mut options = PostgresOptions::default();
        options.schema.clone_from(&self.schema);
        options
    }

    pub(super) async fn store(&self) -> PostgresStore {
        PostgresStore::connect(&self.url, self.options(), &self.env).await.unwrap()
    }

    /// A connection beside the store's.
    pub(super) async fn client(&self) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await.unwrap();
        self.env.spawn("test connection", async move { _ = connection.await });
        client.batch_execute(&format!("SET search_path TO {}", self.schema)).await.unwrap();
        client
    }

    /// Waits until a query on the server gives a row.
    pub(super) async fn until(&self, client: &Client, query: &str) -> tokio_postgres::Row {
        for _ in 0..3000 {
            if let Some(row) = client.query(query, &[]).await.unwrap().into_iter().next() {
                return row;
            }
            self.env.sleep(Duration::from_millis(10)).await;
        }
        panic!("it never came to: {query}");
    }

    /// The name under which the connections of a role are seen on the server.
    pub(super) fn seen_as(&self, role: &str) -> String {
        format!("placet/{}/{role}", self.schema)
    }
}

/// Where the wire is cut, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// Before the server hears of a transaction.
    BeforeBegin,
    /// Before the server hears of the commit, and of what was sent along with it.
    BeforeCommit,
    /// When the server has committed, before its answer is heard.
    AfterCommit,
}

/// A wire to the server that can be cut.
pub(super) struct Wire {
    pub(super) url: String,
    cut: Arc<Mutex<Option<Cut>>>,
}

impl Wire {
    pub(super) async fn to(place: &Place) -> Self {
        let config: Config = place.url.parse().unwrap();
        let Some(Host::Tcp(host)) = config.get_hosts().first() else { panic!("the server is reached by TCP") };
        let server = format!("{host}:{}", config.get_ports().first().copied().unwrap_or(5432));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = place.url.replace(&server, &listener.local_addr().unwrap().to_string());
        assert_ne!(url, place.url, "the server's URL names its host and port");
        let cut = Arc::new(Mutex::new(None));
        let (env, shared) = (place.env.clone(), cut.clone());
        place.env.spawn("wire", async move {
            while let Ok((near, _)) = listener.accept().await {
                let far = TcpStream::connect(&server).await.unwrap();
                env.spawn("wire", carry(near, far, shared.clone()));
            }
        });
        Wire { url, cut }
    }

    /// The next passing of that point cuts the connection.
    pub(super) fn cut(&self, cut: Cut) {
        *self.cut.lock().unwrap() = Some(cut);
    }

    pub(super) fn is_cut(&self) -> bool {
        self.cut.lock().unwrap().is_none()
    }
}

/// Carries bytes both ways, and ends, which closes both ends, where it is to be cut.
async fn carry(mut near: TcpStream, mut far: TcpStream, cut: Arc<Mutex<Option<Cut>>>) {
    let (mut asked, mut answered) = (vec![0; 65536], vec![0; 65536]);
    let passes = |at: Cut, bytes: &[u8], mark: &[u8]| {
        let mut cut = cut.lock().unwrap();
        let passes = *cut == Some(at) && bytes.windows(mark.len()).any(|window| window == mark);
        if passes {
            *cut = None;
        }
        passes
    };
    loop {
        tokio::select! {
            read = near.read(&mut asked) => {
                let Ok(len @ 1..) = read else { return };
                let bytes = &asked[..len];
                if passes(Cut::BeforeBegin, bytes, b"BEGIN\0") || passes(Cut::BeforeCommit, bytes, b"COMMIT\0") {
                    return;
                }
                if far.write_all(bytes).await.is_err() {
                    return;
                }
            }
            read = far.read(&mut answered) => {
                let Ok(len @ 1..) = read else { return };
                let bytes = &answered[..len];
                if passes(Cut::AfterCommit, bytes, b"COMMIT\0") || near.write_all(bytes).await.is_err() {
                    return;
                }
            }
        }
    }
}
