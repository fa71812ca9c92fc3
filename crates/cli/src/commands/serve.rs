//! `placet serve`: the gateway, until it is asked to stop.

use crate::args::ServeArgs;
use crate::commands::check;
use crate::failure::{Code, Done, Failure};
use crate::house::House;
use crate::interrupt::Interrupts;
use crate::memory;
use crate::output::{Tone, printable};
use placet_models::Lookup;
use placet_server::{Config, Gateway, Listener, Parts, reload};
use placet_store::{SharedStore, SqliteOptions, SqliteStore};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio_util::sync::CancellationToken;

/// How often the configuration's file is looked at.
const LOOK: Duration = Duration::from_secs(2);
/// How many models are shown at start.
const SHOWN: usize = 5;

pub(crate) async fn serve(house: &House, args: &ServeArgs) -> Done {
    let lookup = check::lookup();
    let file = check::config_file(args.config.as_deref())?;
    let client = check::client(&house.env)?;
    let read = check::read(file.as_deref(), &lookup, &house.env, &client);
    let mut config = read.map_err(|error| check::wrong(&error))?;
    if let Some(listen) = args.listen {
        if config.keys.is_empty() && !listen.ip().is_loopback() {
            return Err(Failure::new(
                Code::Usage,
                format!("{listen} can be reached from other machines, and no key is set"),
            )
            .hint("add a key with [keys.NAME] in the configuration, or listen on 127.0.0.1"));
        }
        config.listen = listen;
    }
    let store = open(house, &config).await?;
    let place = store.describe();
    let stop = CancellationToken::new();
    let boards = match &config.boards {
        Some(entry) => Some(crate::commands::board::serve::beside_models(house, store.clone(), entry, stop.clone())?),
        None => None,
    };
    let (mounts, sweep) = boards.map_or((Vec::new(), None), |(mount, sweep)| (vec![mount], Some(sweep)));
    let parts = Parts {
        env: house.env.clone(),
        client,
        store,
        tenant: house.tenant.clone(),
        mounts,
        flows: None,
        limiter: None,
    };
    let listener = Listener::bind(config.listen).await.map_err(|error| {
        Failure::new(Code::Failed, format!("{} cannot be listened on: {error}", config.listen))
            .hint("something else may listen there already; --listen 127.0.0.1:0 takes any free port")
    })?;
    let listener = memory::in_lanes(listener);
    let mut interrupts = Interrupts::but_for_hangups();
    let gateway = Gateway::new(config, parts)?;
    told(house, &gateway, &listener, &place);
    let watching =
        house.env.spawn("configuration", watch(house.env.clone(), house.output, gateway.clone(), lookup, file));
    let serving = listener.serve(gateway, stop.clone());
    let mut serving = std::pin::pin!(serving);
    tokio::select! {
        () = &mut serving => {}
        () = interrupts.next() => {
            house.output.note("stopping: answers that have begun go on to their end; again to stop at once");
            stop.cancel();
            tokio::select! {
                () = &mut serving => {}
                () = interrupts.next() => {}
            }
        }
    }
    watching.abort();
    if let Some(sweep) = sweep {
        sweep.stop().await;
    }
    // What agents still run is theirs alone, and nobody is left to hear of it.
    placet_workspace::command::end_all();
    Ok(())
}

async fn open(house: &House, config: &Config) -> Result<SharedStore, Failure> {
    match &config.store {
        None => house.open_store().await,
        Some(url) if url.starts_with("postgres://") || url.starts_with("postgresql://") => {
            house.connect(&placet_core::Secret::new("store.url_env", url)).await
        }
        Some(path) => {
            let path = PathBuf::from(path);
            crate::home::is_no_folder(&path)?;
            if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
                crate::home::ensure(folder)?;
            }
            Ok(Arc::new(SqliteStore::open(path, SqliteOptions::new(house.env.clock().clone()))?))
        }
    }
}

/// Where it listens, which models it serves and from where.
fn told(house: &House, gateway: &Gateway, listener: &Listener, store: &str) {
    let output = &house.output;
    let config = gateway.config();
    let served = gateway.served();
    let url = format!("http://{}", listener.address());
    if output.json {
        let models: Vec<_> =
            served.named.iter().map(|model| serde_json::json!({"id": model.id, "from": model.from})).collect();
        let open: Vec<_> =
            served.open.iter().map(|one| serde_json::json!({"provider": one.id, "from": one.from})).collect();
        output.json_line(&serde_json::json!({
            "listening": url, "models": models, "open": open, "keys": config.keys.len(), "store": store,
            "config": config.file, "boards": config.boards.as_ref().map(|_| format!("{url}/v1/boards")),
        }));
        return;
    }
    let source = match &config.file {
        Some(file) => file.display().to_string(),
        None => "no file; what the environment knows".to_owned(),
    };
    output.line(&format!("{} listens on {}", output.paint(Tone::Good, "placet"), output.paint(Tone::Strong, &url)));
    for model in served.named.iter().take(SHOWN) {
        output.line(&format!(
            "  {}  from {}",
            output.paint(Tone::Strong, &printable(&model.id)),
            printable(&model.from)
        ));
    }
    if served.named.len() > SHOWN {
        output.line(&format!("  and {} more: GET {url}/v1/models", served.named.len() - SHOWN));
    }
    if !served.open.is_empty() {
        let open: Vec<String> = served.open.iter().map(|one| format!("{} ({})", one.id, one.from)).collect();
        output.line(&printable(&format!("  any model of {}", open.join(", "))));
    }
    if config.boards.is_some() {
        output.line(&format!("  boards at {url}/v1/boards"));
    }
    let keys = match config.keys.len() {
        0 => "no key is needed, from this machine alone".to_owned(),
        1 => "1 key".to_owned(),
        count => format!("{count} keys"),
    };
    output.line(&output.paint(Tone::Quiet, &printable(&format!("  configuration: {source}; {keys}; store: {store}"))));
}

/// Puts a changed configuration in force, when its file changes or the process is told to look.
async fn watch(
    env: placet_core::Env,
    output: crate::output::Output,
    gateway: Arc<Gateway>,
    lookup: Lookup,
    file: Option<PathBuf>,
) {
    let mut told = Hangups::new();
    let mut before = stamp(file.as_deref());
    loop {
        let is_told = tokio::select! {
            () = told.next() => true,
            () = env.sleep(LOOK), if file.is_some() => false,
        };
        let now = stamp(file.as_deref());
        if !is_told && now == before {
            continue;
        }
        before = now;
        match reload(&gateway, &lookup) {
            Ok(notes) => {
                output.note("the configuration was read again and is in force");
                notes.iter().for_each(|note| output.note(&printable(note)));
            }
            Err(error) => output.note(&printable(&format!("the configuration stays as it was: {error}"))),
        }
    }
}

fn stamp(file: Option<&std::path::Path>) -> Option<(SystemTime, u64)> {
    let metadata = std::fs::metadata(file?).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

/// Hears `SIGHUP`.
struct Hangups {
    #[cfg(unix)]
    signal: Option<tokio::signal::unix::Signal>,
}

impl Hangups {
    fn new() -> Self {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            Hangups { signal: signal(SignalKind::hangup()).ok() }
        }
        #[cfg(not(unix))]
        Hangups {}
    }

    async fn next(&mut self) {
        #[cfg(unix)]
        if let Some(signal) = &mut self.signal
            && signal.recv().await.is_some()
        {
            return;
        }
        std::future::pending::<()>().await;
    }
}
