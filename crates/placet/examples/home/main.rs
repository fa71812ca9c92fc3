//! A home assistant behind a model's name. It runs on any machine, with no key:
//!
//! ```text
//! cargo run -p placet --example home --features server
//! curl http://127.0.0.1:8080/v1/chat/completions -H 'content-type: application/json' \
//!   -d '{"model": "home", "messages": [{"role": "user", "content": "Briefing, please"}]}'
//! curl http://127.0.0.1:8080/v1/hooks/doorbell -H 'content-type: application/json' -d '{"who": "The postman"}'
//! ```
//!
//! "Memorise that the key is under the mat", "Memory, please", "Remind me at 2027-01-01T08:00:00Z to feed the cat". Any SDK
//! can talk to it as to a model.

mod house;

use placet::flows::Notice;
use placet::net::{Client, ClientOptions};
use placet::server::{Config, Gateway, Listener, Parts};
use placet::store::{SharedStore, Tenant};
use placet::{Env, MemoryStore, Runtime};
use std::io::Write as _;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (env, tenant) = (Env::system(), Tenant::new("home"));
    // In memory; a store on disk keeps reminders and memories over a restart.
    let store: SharedStore = Arc::new(MemoryStore::new(env.clock().clone()));
    let brain = Arc::new(house::Brain::new());
    let runtime = Runtime::builder(env.clone(), store.clone()).tenant(tenant.clone()).provider(brain.clone()).build();
    let flows = house::house(runtime, "brain:brain", |notice: Notice| async move {
        let _ = writeln!(std::io::stdout(), "reminder for {}", notice.text);
        Ok(())
    })?;
    let config = Config::default();
    let listener = Listener::bind(config.listen).await?;
    writeln!(std::io::stdout(), "the model `home` at http://{}", listener.address())?;
    let client = Client::new(ClientOptions::default(), env.clone())?;
    let parts = Parts { env, client, store, tenant, mounts: Vec::new(), flows: Some(flows), limiter: None };
    let gateway = Gateway::new(config, parts)?;
    let stop = CancellationToken::new();
    let mut serving = std::pin::pin!(listener.serve(gateway, stop.clone()));
    tokio::select! {
        () = &mut serving => {}
        _ = tokio::signal::ctrl_c() => {
            stop.cancel();
            serving.await;
        }
    }
    writeln!(std::io::stdout(), "the brain was asked {} times", brain.asked())?;
    Ok(())
}
