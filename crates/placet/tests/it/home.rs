//! The home assistant of the examples, without a key, on a real port.

#[path = "../../examples/home/house.rs"]
mod house;

use crate::client::sdks;
use placet::flows::Notice;
use placet_core::Env;
use placet_core::record::Digest;
use placet_net::{Client, ClientOptions, Request, Url};
use placet_runtime::Runtime;
use placet_server::{Config, Gateway, Listener, Parts};
use placet_store::{MemoryStore, SharedStore, Tenant};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// The protocols by what the client scripts call them.
const APIS: [&str; 4] = ["chat", "responses", "messages", "gemini"];

/// A gateway in this process that serves the house to two people.
struct Served {
    base: String,
    brain: Arc<house::Brain>,
    client: Client,
    told: mpsc::UnboundedReceiver<String>,
    stop: CancellationToken,
    serving: placet_core::env::Task,
}

fn key(who: &str) -> String {
    format!("pk_of-{who}")
}

async fn serve() -> Served {
    let (env, tenant) = (Env::system(), Tenant::new("home"));
    let store: SharedStore = Arc::new(MemoryStore::new(env.clock().clone()));
    let brain = Arc::new(house::Brain::new());
    let runtime = Runtime::builder(env.clone(), store.clone()).tenant(tenant.clone()).provider(brain.clone()).build();
    let (tell, told) = mpsc::unbounded_channel();
    let flows = house::house(runtime, "brain:brain", move |notice: Notice| {
        let tell = tell.clone();
        async move {
            tell.send(notice.text).unwrap();
            Ok(())
        }
    });
    let entry = |who: &str| format!("[keys.{who}]\nsha256 = \"{}\"\n", Digest::of(key(who).as_bytes()));
    let config = format!("[server]\nlisten = \"127.0.0.1:0\"\n{}{}", entry("ann"), entry("bob"));
    let nothing: placet_models::Lookup = Arc::new(|_: &str| None);
    let config = Config::parse(&config, "test", Path::new("."), &nothing).unwrap();
    let client = Client::new(ClientOptions::default(), env.clone()).unwrap();
    let listener = Listener::bind(config.listen).await.unwrap();
    let base = format!("http://{}", listener.address());
    let parts = Parts {
        env: env.clone(),
        client: client.clone(),
        store,
        tenant,
        mounts: Vec::new(),
        flows: Some(flows.unwrap()),
        limiter: None,
    };
    let gateway = Gateway::new(config, parts).unwrap();
    let stop = CancellationToken::new();
    let serving = env.spawn("gateway", listener.serve(gateway, stop.clone()));
    Served { base, brain, client, told, stop, serving }
}

#[tokio::test(flavor = "multi_thread")]
async fn e16_a_router_brain_without_keys() {
    let mut served = serve().await;
    let (mut asked, mut kept) = (0, Vec::new());
    for sdk in sdks("e16") {
        let (mut spoken, mut reminders, mut wanted) = (Vec::new(), Vec::new(), Vec::new());
        // Both at the same instant, soon.
        let soon = Env::system().now().plus(Duration::from_secs(2));
        for (api, stream) in APIS.into_iter().flat_map(|api| [false, true].map(|stream| (api, stream))) {
            let own = format!("{} {api} {stream}", sdk.language);
            let note = format!("the key {own} is under the mat");
            let talk = |who: &str, text: String| json!({"api": api, "model": "home", "stream": stream, "user": text, "key": key(who)});
            spoken.extend([
                talk("ann", format!("Memorise that {note}")),
                talk("ann", "Memory, please".to_owned()),
                talk("bob", "Memory, please".to_owned()),
                talk("ann", format!("Remind me at {soon} to water plant {own}")),
                talk("bob", format!("Remind me at {soon} to feed cat {own}")),
                talk("bob", "Briefing, please".to_owned()),
                // Where the model keeps to none of the desks, nobody makes one up.
                talk("ann", "Xyzzy".to_owned()),
            ]);
            kept.push(note);
            wanted.push((own.clone(), kept.join("; ")));
            reminders.extend([format!("ann: water plant {own}"), format!("bob: feed cat {own}")]);
        }
        let (base, asks) = (served.base.clone(), sdk.clone());
        let talks = tokio::task::spawn_blocking(move || asks.hold(&base, spoken)).await.unwrap();
        for ((own, kept), talks) in wanted.iter().zip(talks.chunks(7)) {
            let said: Vec<&str> = talks[..6].iter().map(|talk| talk.last()["text"].as_str().unwrap()).collect();
            assert_eq!(said[..3], ["Noted.", kept, "Nothing yet."], "{own} {said:#?}");
            assert!(said[3].ends_with(&format!("to water plant {own}.")), "{own} {said:#?}");
            assert!(said[4].ends_with(&format!("to feed cat {own}.")), "{own} {said:#?}");
            for part in ["Weather: sunny.", "Reminders to come: ", "That is all, from 2 of us."] {
                assert!(said[5].contains(part), "{own} {said:#?}");
            }
            assert!(talks[6].error()["status"].as_u64().is_some_and(|status| status >= 500), "{own} {:#}", talks[6].0);
            // What is no desk of the house was told so once: memorise, remind, remind, and the one that is none at all.
            asked += 7 + 4;
        }
        assert_eq!(served.brain.asked(), asked, "{sdk:?}");
        let mut due = Vec::new();
        while due.len() < reminders.len() {
            due.push(served.told.recv().await.unwrap());
        }
        due.sort();
        reminders.sort();
        assert_eq!(due, reminders, "{sdk:?}");
    }
    let bell = Url::parse(&format!("{}/v1/hooks/doorbell", served.base)).unwrap();
    let ring = Request::post_json(bell, json!({"who": "The postman"}).to_string());
    let ring = ring.header("x-api-key", &key("bob")).unwrap();
    let rung = served.client.send(ring, &CancellationToken::new()).await.unwrap();
    assert_eq!((rung.status.as_u16(), rung.text(1000).await.unwrap().as_str()), (200, "The postman is at the door."));
    served.stop.cancel();
    served.serving.join().await.unwrap();
}
