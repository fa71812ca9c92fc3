//! Processes that are measured.

use crate::Failure;
use crate::client::{connect, exchange};
use crate::table::{Protocol, request};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The key that the gateway wants.
pub(crate) const KEY: &str = "key-of-the-bench";

/// A process, ended with its handle.
pub(crate) struct Part {
    process: Child,
    pub(crate) port: u16,
    began: Instant,
    first: std::cell::Cell<Option<Duration>>,
}

impl Drop for Part {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The port that stands after the name of a part.
pub(crate) fn port(args: &[String]) -> Result<u16, Failure> {
    Ok(args.get(1).ok_or("no port")?.parse()?)
}

/// A port that was free a moment ago.
fn free() -> std::io::Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

impl Part {
    fn start(mut command: Command, port: u16) -> Result<Self, Failure> {
        let began = Instant::now();
        let process = command.stdout(Stdio::null()).spawn()?;
        Ok(Part { process, port, began, first: std::cell::Cell::default() })
    }

    fn own(args: &[&str], port: u16) -> Result<Self, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(args).env("UPSTREAM_KEY", "key-of-the-server");
        Part::start(command, port)
    }

    pub(crate) fn models() -> Result<Self, Failure> {
        let port = free()?;
        Part::own(&["server", &port.to_string()], port)
    }

    pub(crate) fn proxy(models: u16) -> Result<Self, Failure> {
        let port = free()?;
        Part::own(&["proxy", &port.to_string(), &models.to_string()], port)
    }

    /// A gateway with everything on: a key, routing, usage, the ledger in SQLite, metrics.
    pub(crate) fn gateway(models: u16, folder: &Path, program: Option<&str>) -> Result<Self, Failure> {
        let port = free()?;
        let file = folder.join("placet.toml");
        std::fs::write(&file, configuration(port, models))?;
        let file = file.display().to_string();
        let Some(program) = program else { return Part::own(&["gateway", &file], port) };
        let mut command = Command::new(program);
        command.args(["serve", "--config", &file]).env("UPSTREAM_KEY", "key-of-the-server").env("PLACET_HOME", folder);
        Part::start(command, port)
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Waits until it answers.
    pub(crate) async fn ready(&self, path: &str, key: &str) -> Result<(), Failure> {
        let question = request(&self.address(), path, key, &Protocol::Chat.question("plain-chat", false, false));
        loop {
            let answered = async {
                let mut answer = Vec::new();
                exchange(&mut connect(&self.address()).await?, &question, &mut answer).await
            };
            match answered.await {
                Ok(_) => break,
                Err(error) if self.began.elapsed() > Duration::from_secs(20) => return Err(error),
                Err(_) => tokio::time::sleep(Duration::from_millis(2)).await,
            }
        }
        self.first.set(Some(self.began.elapsed()));
        Ok(())
    }

    /// How long it took to answer first, and its processor time until now.
    pub(crate) fn started(&self) -> String {
        let wall = self.first.get().unwrap_or_default().as_millis();
        format!("{wall} ms ({:.0} ms of processor time)", self.processor() / 1000.0)
    }

    /// Microseconds of processor time that all its threads have had; not a number where the system does not tell.
    pub(crate) fn processor(&self) -> f64 {
        let Ok(threads) = std::fs::read_dir(format!("/proc/{}/task", self.process.id())) else { return f64::NAN };
        let spent = threads.flatten().filter_map(|thread| {
            let told = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
            told.split(' ').next()?.parse::<f64>().ok()
        });
        spent.sum::<f64>() / 1000.0
    }

    /// The memory that is its own.
    pub(crate) fn memory(&self) -> String {
        let told = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", self.process.id())).unwrap_or_default();
        let kilobytes = told.lines().find_map(|line| line.strip_prefix("Pss:")?.trim().split(' ').next()?.parse().ok());
        kilobytes.map_or("unknown".to_owned(), |kilobytes: f64| format!("{:.1} MB", kilobytes / 1024.0))
    }
}

fn configuration(port: u16, models: u16) -> String {
    use sha2::Digest as _;
    let hash: String = sha2::Sha256::digest(KEY).iter().map(|byte| format!("{byte:02x}")).collect();
    let mut text = format!(
        "[server]\nlisten = \"127.0.0.1:{port}\"\n[store]\npath = \"ledger.db\"\n[telemetry]\nmetrics = true\n\
         [keys.bench]\nsha256 = \"{hash}\"\n"
    );
    for protocol in Protocol::ALL {
        let (word, name) = (protocol.short(), protocol.name());
        let version = if protocol == Protocol::Gemini { "v1beta" } else { "v1" };
        text.push_str(&format!(
            "[providers.{word}]\nbase_url = \"http://127.0.0.1:{models}/{version}\"\nprotocols = [\"{name}\"]\n\
             key_env = \"UPSTREAM_KEY\"\n[models.plain-{word}]\ntarget = \"{word}:model-of-{word}\"\n\
             price = {{ input = \"1\", output = \"2\" }}\n"
        ));
    }
    text
}
