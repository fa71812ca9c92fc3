//! A gateway in a page of code: `cargo run --example gateway -- placet.toml`.

use placet_core::Env;
use placet_net::{Client, ClientOptions};
use placet_server::{Config, Gateway, Listener, Parts};
use placet_store::{SqliteOptions, SqliteStore, Tenant};
use std::path::Path;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::env::args().nth(1).ok_or("usage: gateway placet.toml")?;
    #[expect(clippy::disallowed_methods, reason = "an example is a program: it reads its environment at start")]
    let lookup: placet_models::Lookup = Arc::new(|name: &str| std::env::var(name).ok());
    let lanes = std::env::args().nth(2).map_or(Ok(2), |lanes| lanes.parse())?;
    let config = Config::read(Path::new(&file), &lookup)?;
    let env = Env::system();
    let listener = Listener::bind(config.listen).await?.lanes(lanes);
    let path = config.store.clone().ok_or("name a [store] path")?;
    let parts = Parts {
        client: Client::new(ClientOptions::default(), env.clone())?,
        store: Arc::new(SqliteStore::open(path, SqliteOptions::new(env.clock().clone()))?),
        tenant: Tenant::new("example"),
        mounts: Vec::new(),
        flows: None,
        limiter: None,
        env,
    };
    let gateway = Gateway::new(config, parts)?;
    let stop = CancellationToken::new();
    let serving = listener.serve(gateway, stop.clone());
    let mut serving = std::pin::pin!(serving);
    tokio::select! {
        () = &mut serving => {}
        _ = tokio::signal::ctrl_c() => {
            stop.cancel();
            serving.await;
        }
    }
    Ok(())
}
