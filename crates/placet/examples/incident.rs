//! Three agents solve one incident on a board: a program that watches, a model that looks into logs, and a person who
//! decides. The model is `offline`, so it runs on any machine:
//!
//! ```text
//! cargo run -p placet --example incident --features board,workspace
//! ```
//!
//! None of the three knows the others. Each is woken by what it subscribes to, reads the board, and writes to it.

use placet::board::kit::{decide, run_beside};
use placet::board::{Agent, AgentBoard, BoardError, BoardId, BoardSpec, Boards, Bounds, Content, Limits, Region};
use placet::board::{SetRequest, WriteRequest};
use placet::store::Tenant;
use placet::workspace::{Files, FilesOptions};
use placet::{Env, Grant, MemoryStore, Runtime};
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let env = Env::system();
    let logs = make_logs()?;

    let store = Arc::new(MemoryStore::new(env.clock().clone()));
    let boards = Boards::new(store, Tenant::new("example"), &env);
    let spec = BoardSpec::new(Limits::new(Duration::from_secs(60), Duration::from_secs(10)))
        .region(Region::level("signals"))
        .region(Region::level("findings"))
        .premise("verdict", Content::of("open")?);
    let control = boards.open(&BoardId::new("disk-full")?, &spec).await?;

    // The model: woken by signals, it is asked with the log folder in its hands and nothing else.
    let runtime = placet::in_memory();
    let analyst = decide({
        let (env, logs) = (env.clone(), logs.clone());
        move |board, _| look_into_logs(runtime.clone(), env.clone(), logs.clone(), board)
    });
    let declared = Agent::new("analyst").subscribes_to(["signals"]).writes_to(["findings"]);
    let analyst = run_beside(&control, &env, declared, analyst).await?;

    // The person: woken by findings. Somebody who reads and types would stand here; this one agrees at once.
    let person = decide(|board: Arc<dyn AgentBoard>, _| async move {
        let verdict = board.read_premise("verdict").await?;
        let findings = board.read_level("findings", Bounds::from(0)).await?;
        if let Some(finding) = findings.items.last() {
            let decided = Content::of(&format!("solved: {}", finding.content))?;
            board.set_premise(SetRequest::new("verdict", decided, verdict.version)).await?;
        }
        Ok(())
    });
    let person = run_beside(&control, &env, Agent::new("person").subscribes_to(["findings"]), person).await?;

    // The program that watches: plain code that writes what it sees.
    let monitor = control.as_agent("monitor");
    let seen = Content::of(&serde_json::json!({"host": "db1", "disk": "97 %"}))?;
    monitor.write(WriteRequest::new("signals", seen).key("db1-disk-97")).await?;

    // Solved once the verdict has changed.
    let reader = control.reader();
    while reader.read_premise("verdict").await?.version == 1 {
        let head = reader.head().await?;
        reader.grown_past(head).await?;
    }
    control.abort("solved").await?;
    analyst.stop().await;
    person.stop().await;

    let mut out = std::io::stdout().lock();
    for change in reader.read_board(Bounds::from(0)).await?.items {
        let writer = change.writer.as_deref().unwrap_or("-");
        writeln!(out, "{:>3}  {:<9} {writer:<8} {}", change.sequence, change.region, change.content)?;
    }
    std::fs::remove_dir_all(logs)?;
    Ok(())
}

/// Asks the model, and writes its answer to the board.
async fn look_into_logs(
    runtime: Runtime,
    env: Env,
    logs: PathBuf,
    board: Arc<dyn AgentBoard>,
) -> Result<(), BoardError> {
    let failed = |problem: String| BoardError::Rule { problem };
    let files = Files::open(&env, &logs, FilesOptions::new()).map_err(|error| failed(error.to_string()))?;
    let asked = runtime
        .run("offline:offline")
        .input("Which .log files mention 'No space left'?")
        .grant(Grant::from(Arc::new(files).capability()))
        .await
        .map_err(|error| failed(error.to_string()))?;
    board.write(WriteRequest::new("findings", Content::of(&asked.text)?)).await?;
    Ok(())
}

/// A folder with the logs of the incident.
fn make_logs() -> std::io::Result<PathBuf> {
    let folder = std::env::temp_dir().join(format!("placet-incident-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("web.log"), "GET / 200\nGET /pay 500\n")?;
    std::fs::write(folder.join("db1.log"), "checkpoint\nERROR: could not write: No space left on device\n")?;
    Ok(folder)
}
