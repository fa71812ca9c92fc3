//! The gateway beside a plain reverse proxy, on this machine: `cargo bench -p placet-server --bench beside`.
//!
//! The proxy is a hyper server in front of hyper's pooled client that touches no body: about what handing on costs at the
//! least. Both stand before the same model server, which answers at once, and are asked in turns by one client, so that what
//! else runs on the machine meets both alike. The figure to trust is processor time for a request; it is read from `/proc`,
//! so on systems other than Linux only the waiting times are told.
//!
//! `--program PATH` measures a `placet` program instead of a gateway made of this crate, `--seconds N` and `--rounds N` how
//! long, `--only WORD` the rows whose name holds that word.

#![allow(clippy::disallowed_methods, reason = "a program by itself: it reads its arguments and starts its own parts")]
#![allow(clippy::print_stdout, reason = "it prints a table")]
#![allow(clippy::disallowed_types, reason = "one thread that generates load shares its figures among its tasks")]

mod client;
mod parts;
mod server;
mod table;

use client::Load;
use parts::Part;
use std::time::Duration;
use table::{Row, Row as Measured};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Failure = Box<dyn std::error::Error>;

/// What is asked for.
struct Wish {
    program: Option<String>,
    seconds: f64,
    rounds: usize,
    only: Option<String>,
}

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let after = |name: &str| {
        let at = args.iter().position(|arg| arg == name)?;
        args.get(at + 1).cloned()
    };
    match args.first().map(String::as_str) {
        Some("server") => return server::models(parts::port(&args)?),
        Some("proxy") => return server::proxy(parts::port(&args)?, parts::port(&args[1..])?),
        Some("gateway") => return server::gateway(args.get(1).ok_or("no configuration")?),
        _ => {}
    }
    // Whoever lists or tries tests finds none here.
    if !args.iter().any(|arg| arg == "--bench") {
        return Ok(());
    }
    let number = |name: &str, usual: f64| after(name).map_or(Ok(usual), |text| text.parse::<f64>());
    let wish = Wish {
        program: after("--program"),
        seconds: number("--seconds", 2.0)?,
        rounds: number("--rounds", 3.0)?.max(1.0) as usize,
        only: after("--only"),
    };
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(compare(&wish))
}

async fn compare(wish: &Wish) -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let models = Part::models()?;
    models.ready("/v1/chat/completions", "").await?;
    let proxy = Part::proxy(models.port)?;
    proxy.ready("/v1/chat/completions", "").await?;
    let gateway = Part::gateway(models.port, folder.path(), wish.program.as_deref())?;
    gateway.ready("/v1/chat/completions", parts::KEY).await?;
    println!("first answer of the gateway {} after its start; {} then", gateway.started(), gateway.memory());
    let mut rows: Vec<Row> = Vec::new();
    for row in table::rows() {
        if wish.only.as_ref().is_some_and(|word| !row.name.contains(word.as_str())) {
            continue;
        }
        table::check(&row, &models, &gateway).await?;
        rows.push(row);
    }
    for _ in 0..wish.rounds {
        for row in &mut rows {
            measure(row, &proxy, &gateway, Duration::from_secs_f64(wish.seconds)).await?;
        }
    }
    table::print(&rows);
    println!("\nmemory of the gateway afterwards: {}", gateway.memory());
    Ok(())
}

async fn measure(row: &mut Measured, proxy: &Part, gateway: &Part, span: Duration) -> Result<(), Failure> {
    let beside = Load { part: proxy, request: row.plain(proxy), clients: row.clients, events: None, span };
    row.proxy.push(beside.run().await.map_err(|error| format!("{}: the proxy: {error}", row.name))?);
    let ours = Load { part: gateway, request: row.asked(gateway), clients: row.clients, events: row.events, span };
    row.gateway.push(ours.run().await.map_err(|error| format!("{}: the gateway: {error}", row.name))?);
    Ok(())
}
