//! A gateway, and a client that is a socket.

use placet_board::Boards;
use placet_board::http::BoardsEndpoint;
use placet_core::Env;
use placet_net::{Client, ClientOptions};
use placet_runtime::schedule::Scheduler;
use placet_server::{BoardsMount, Config, Gateway, LedgerLine, Limiter, Listener, Mount, Parts, read_ledger};
use placet_store::{MemoryStore, SharedStore, Tenant};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    pub(crate) gateway: Arc<Gateway>,
    store: SharedStore,
    stop: CancellationToken,
    task: Option<placet_core::env::Task>,
}

pub(crate) fn served_config(config: &str) -> Config {
    let config = format!("[server]\nlisten = \"127.0.0.1:0\"\n{config}");
    let lookup: placet_models::Lookup =
        Arc::new(|name: &str| (name == "SECRET").then(|| "sk-very-secret-value".to_owned()));
    Config::parse(&config, "test", Path::new("."), &lookup).unwrap()
}

pub(crate) async fn serve(config: &str) -> Served {
    serve_in_lanes(config, 0).await
}

pub(crate) async fn serve_in_lanes(config: &str, lanes: usize) -> Served {
    serve_with(config, lanes, None).await
}

pub(crate) async fn serve_limited(config: &str, limiter: Arc<dyn Limiter>) -> Served {
    serve_with(config, 0, Some(limiter)).await
}

async fn serve_with(config: &str, lanes: usize, limiter: Option<Arc<dyn Limiter>>) -> Served {
    let env = Env::system();
    let config = served_config(config);
    let listener = Listener::bind(config.listen).await.unwrap().lanes(lanes);
    let store: SharedStore = Arc::new(MemoryStore::new(env.clock().clone()));
    let stop = CancellationToken::new();
    let mut mounts: Vec<Arc<dyn Mount>> = Vec::new();
    if config.boards.is_some() {
        let boards = Boards::new(store.clone(), Tenant::new("test"), &env);
        mounts.push(Arc::new(BoardsMount::new(BoardsEndpoint::new(boards, "/v1").until(stop.clone()))));
    }
    let parts = Parts {
        client: Client::new(ClientOptions::default(), env.clone()).unwrap(),
        store: store.clone(),
        tenant: Tenant::new("test"),
        mounts,
        flows: None,
        limiter,
        env: env.clone(),
    };
    let gateway = Gateway::new(config, parts).unwrap();
    let address = listener.address();
    let task = env.spawn("gateway", listener.serve(gateway.clone(), stop.clone()));
    Served { address, gateway, store, stop, task: Some(task) }
}

impl Served {
    /// Stops the gateway and gives its ledger.
    pub(crate) async fn ledger(mut self) -> Vec<LedgerLine<'static>> {
        self.stop.cancel();
        self.task.take().unwrap().join().await.unwrap();
        read_ledger(&self.store, &Tenant::new("test"), 0, 1000).await.unwrap().1
    }

    /// Waits until this many lines of the ledger are written, and gives them.
    pub(crate) async fn lines_until(&self, count: usize) -> Vec<LedgerLine<'static>> {
        loop {
            let lines = read_ledger(&self.store, &Tenant::new("test"), 0, 1000).await.unwrap().1;
            if lines.len() >= count {
                return lines;
            }
            tokio::task::yield_now().await;
        }
    }

    /// How many jobs are scheduled whose ids begin so.
    pub(crate) async fn jobs(&self, beginning: &str) -> usize {
        let scheduler = Scheduler::builder(Env::system(), self.store.clone(), Tenant::new("test")).build();
        let jobs = scheduler.list(None, 100).await.unwrap();
        jobs.iter().filter(|job| job.job.id.starts_with(beginning)).count()
    }

    /// Waits until there are this many.
    pub(crate) async fn jobs_until(&self, beginning: &str, count: usize) {
        while self.jobs(beginning).await != count {
            tokio::task::yield_now().await;
        }
    }

    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }

    pub(crate) async fn post(&self, path: &str, body: &str) -> Answer {
        self.post_with(path, "", body).await
    }

    /// `headers`: whole lines.
    pub(crate) async fn post_with(&self, path: &str, headers: &str, body: &str) -> Answer {
        let length = body.len();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n",
            self.address
        );
        self.raw(&[head.as_bytes(), body.as_bytes()].concat()).await
    }

    pub(crate) async fn get(&self, path: &str, headers: &str) -> Answer {
        let head = format!("GET {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n{headers}\r\n", self.address);
        self.raw(head.as_bytes()).await
    }

    /// Sends bytes and reads until the other side closes.
    pub(crate) async fn raw(&self, bytes: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        // A gateway that has read enough may close before everything is written.
        let _ = stream.write_all(bytes).await;
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all).await;
        Answer::read(&all)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    /// Whether the body had its end.
    pub(crate) is_whole: bool,
}

impl Answer {
    fn read(all: &[u8]) -> Self {
        let end = all.windows(4).position(|window| window == b"\r\n\r\n").map_or(all.len(), |at| at + 4);
        let head = String::from_utf8_lossy(&all[..end]).to_ascii_lowercase();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        let mut rest = &all[end..];
        if !head.contains("transfer-encoding: chunked") {
            let declared = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok());
            let is_whole = status != 0 && declared.is_none_or(|length: usize| length == rest.len());
            return Answer { status, head, body: rest.to_vec(), is_whole };
        }
        let mut body = Vec::new();
        let mut is_whole = false;
        while let Some(line) = rest.windows(2).position(|window| window == b"\r\n") {
            let length = usize::from_str_radix(std::str::from_utf8(&rest[..line]).unwrap(), 16).unwrap();
            if length == 0 {
                is_whole = true;
                break;
            }
            let from = line + 2;
            body.extend_from_slice(&rest[from..(from + length).min(rest.len())]);
            rest = rest.get(from + length + 2..).unwrap_or_default();
        }
        Answer { status, head, body, is_whole }
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

/// A provider `mine` at `url`, with more lines of configuration.
pub(crate) fn provider(url: &str, protocols: &str, more: &str) -> String {
    format!("{more}\n[providers.mine]\nbase_url = \"{url}\"\nprotocols = [{protocols}]\nkey_env = \"SECRET\"\n")
}
