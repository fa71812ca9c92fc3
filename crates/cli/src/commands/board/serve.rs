//! `placet board serve`: boards over HTTP, behind the gateway's listener and its door, and nothing else.

use super::args::ServeArgs;
use super::test_mode::TestMode;
use crate::failure::{Code, Done, Failure};
use crate::house::House;
use crate::interrupt::Interrupts;
use crate::memory;
use crate::vars;
use placet_board::http::{BODY_BYTES, BoardsEndpoint, Grant, Tokens};
use placet_board::{Boards, BoardsOptions, Outgoing, Sweep, SweepOptions};
use placet_core::Secret;
use placet_net::{AddressPolicy, Client, ClientOptions, ProxySettings};
use placet_server::{BoardsEntry, BoardsMount, Config, Gateway, Listener, Mount, Parts};
use placet_store::{MemoryStore, SharedStore};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long answers may go on once the program is asked to end.
const DRAIN: Duration = Duration::from_secs(5);

pub(super) async fn serve(house: &House, args: &ServeArgs) -> Done {
    if args.tokens.is_none() && !args.listen.ip().is_loopback() {
        return Err(Failure::new(
            Code::Usage,
            format!("without tokens, {} is open to everybody who reaches it", args.listen),
        )
        .hint("give --tokens FILE, or listen on 127.0.0.1"));
    }
    let store: SharedStore = if args.memory || args.test_mode {
        Arc::new(MemoryStore::new(house.env.clock().clone()))
    } else {
        house.open_store().await?
    };
    let stop = CancellationToken::new();
    let (mount, sweep): (Arc<dyn Mount>, Option<Sweep>) = if args.test_mode {
        let client = calling(house, &["127.0.0.1".to_owned(), "localhost".to_owned()])?;
        (Arc::new(TestMode::new(house.env.clone(), Outgoing::new(client))), None)
    } else {
        let signing = match &args.signing_key {
            Some(path) => Some(Secret::new("the signing key", super::file(path)?.trim().to_owned())),
            None => None,
        };
        let boards = boards(house, store.clone(), &args.call_host, signing, BoardsOptions::default())?;
        let mut endpoint = BoardsEndpoint::new(boards.clone(), "/v1").until(stop.clone());
        if let Some(path) = &args.tokens {
            endpoint = endpoint.access(Arc::new(tokens(&super::file(path)?)?));
        }
        // Runs that are overdue are closed, and what is owed is sent, also where nobody writes.
        (Arc::new(BoardsMount::new(endpoint)), Some(boards.sweep(SweepOptions::default())))
    };
    let mut config = Config::default();
    config.listen = args.listen;
    config.hosts = args.host.iter().map(|host| host.to_ascii_lowercase()).collect();
    config.open = false;
    config.metrics = false;
    config.limits.body = BODY_BYTES;
    config.limits.drain = DRAIN;
    let listener = Listener::bind(args.listen).await.map_err(|error| {
        Failure::new(Code::Failed, format!("cannot listen on {}: {error}", args.listen))
            .hint("--listen names another address; port 0 takes a free one")
    })?;
    let listener = memory::in_lanes(listener);
    let address = listener.address();
    let parts = Parts {
        env: house.env.clone(),
        client: calling(house, &[])?,
        store,
        tenant: house.tenant.clone(),
        mounts: vec![mount],
        flows: None,
        limiter: None,
    };
    let gateway = Gateway::new(config, parts)?;
    if house.output.json {
        house.output.json_line(&serde_json::json!({"listening": address.to_string()}));
    } else {
        let place = if args.memory || args.test_mode { "memory".to_owned() } else { house.place() };
        house.output.line(&format!("boards of {place}: http://{address}/v1/boards"));
    }
    let mut interrupts = Interrupts::new();
    let mut serving = std::pin::pin!(listener.serve(gateway, stop.clone()));
    tokio::select! {
        () = &mut serving => {}
        () = interrupts.next() => {
            stop.cancel();
            tokio::select! {
                () = &mut serving => {}
                () = interrupts.next() => {}
            }
        }
    }
    if let Some(sweep) = sweep {
        sweep.stop().await;
    }
    Ok(())
}

/// The boards of `placet serve` below its configuration's `[boards]`, with what sweeps them.
pub(crate) fn beside_models(
    house: &House,
    store: SharedStore,
    entry: &BoardsEntry,
    stop: CancellationToken,
) -> Result<(Arc<dyn Mount>, Sweep), Failure> {
    let options = BoardsOptions::default().decisions(entry.decisions).content(entry.content);
    let boards = boards(house, store, &entry.call_hosts, entry.key.clone(), options)?;
    let sweep = boards.sweep(SweepOptions::default());
    Ok((Arc::new(BoardsMount::new(BoardsEndpoint::new(boards, "/v1").until(stop))), sweep))
}

fn boards(
    house: &House,
    store: SharedStore,
    call_hosts: &[String],
    signing: Option<Secret>,
    options: BoardsOptions,
) -> Result<Boards, Failure> {
    let mut outgoing = Outgoing::new(calling(house, call_hosts)?);
    if let Some(secret) = signing {
        outgoing = outgoing.signed_with(secret);
    }
    let options = options.transport(Arc::new(outgoing.clone())).webhooks(Arc::new(outgoing));
    Ok(Boards::with_options(store, house.tenant.clone(), &house.env, options))
}

/// The client that calls agents and rules: of hosts that are not public, those that were named.
fn calling(house: &House, hosts: &[String]) -> Result<Client, Failure> {
    let policy = hosts.iter().fold(AddressPolicy::public_only(), |policy, host| policy.allow_host(host));
    let proxies = ProxySettings::from_vars(|name: &str| vars::var(name))?;
    let options = ClientOptions::default().proxies(proxies).address_policy(policy);
    Ok(Client::new(options, house.env.clone())?)
}

/// Reads the file of tokens.
fn tokens(text: &str) -> Result<Tokens, Failure> {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Line {
        sha256: String,
        boards: Option<BTreeSet<String>>,
        agents: Option<BTreeSet<String>>,
        regions: Option<BTreeSet<String>>,
        #[serde(default)]
        manages: bool,
    }
    let hint = r#"it is a list of objects: [{"sha256": "…", "agents": ["ann"], "manages": false}]"#;
    let lines: Vec<Line> = serde_json::from_str(text).map_err(|error| {
        Failure::new(Code::Usage, format!("the file of tokens cannot be read: {error}"))
            .hint(hint)
            .hint("`printf %s TOKEN | sha256sum` gives the digest of a token")
    })?;
    if let Some(wrong) = lines.iter().position(|line| !is_digest(&line.sha256)) {
        let told = format!("the sha256 of the token at place {} is not 64 hexadecimal digits", wrong + 1);
        return Err(Failure::new(Code::Usage, told).hint("`printf %s TOKEN | sha256sum` gives the digest of a token"));
    }
    Ok(lines.into_iter().fold(Tokens::new(), |tokens, line| {
        let Line { sha256, boards, agents, regions, manages } = line;
        tokens.with(sha256, Grant { boards, agents, regions, manages })
    }))
}

fn is_digest(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
