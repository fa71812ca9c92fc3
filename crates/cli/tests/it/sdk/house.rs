//! The program as it serves.

pub(crate) use super::client::{Sdk, sdks};
use placet_core::Env;
use placet_server::{LedgerLine, read_ledger};
use placet_store::{SharedStore, SqliteOptions, SqliteStore, Tenant};
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

/// The credential of the provider behind the gateway.
pub(crate) const SECRET: &str = "sk-very-secret-value-0123456789";

/// A running `placet serve`, with a folder of its own. It is stopped when it is dropped.
pub(crate) struct House {
    folder: tempfile::TempDir,
    child: Child,
    /// Where it listens.
    pub(crate) base: String,
}

impl House {
    /// Serves `config`, to which an address is added. `prepare` fills the folder first.
    pub(crate) fn open(config: &str, prepare: impl FnOnce(&Path)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        prepare(folder.path());
        let (child, base) = begin(folder.path(), config);
        House { folder, child, base }
    }

    /// Ends it as a crash does: at once, with nothing put in order.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Serves this configuration in the same folder, after the one before was killed. It listens somewhere else.
    pub(crate) fn again(&mut self, config: &str) {
        (self.child, self.base) = begin(self.folder.path(), config);
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Tells it that its terminal has hung up.
    pub(crate) fn hang_up(&self) {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.child.id()).unwrap());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGHUP).unwrap();
    }

    /// Asks it to stop, waits until it has, and reads what it wrote down.
    pub(crate) async fn ledger(mut self) -> Vec<LedgerLine<'static>> {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.child.id()).unwrap());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
        assert!(self.child.wait().unwrap().success());
        let store = self.store();
        read_ledger(&store, &Tenant::new("local"), 0, 10_000).await.unwrap().1
    }
}

impl House {
    /// What it keeps.
    pub(crate) fn store(&self) -> SharedStore {
        let home = self.folder.path().join("home");
        let mut files = std::fs::read_dir(&home).unwrap().map(|entry| entry.unwrap().path());
        let database: PathBuf = files.find(|path| path.extension().is_some_and(|extension| extension == "db")).unwrap();
        let options = SqliteOptions::new(Env::system().clock().clone());
        Arc::new(SqliteStore::open(database, options).unwrap())
    }
}

/// Starts the program in a folder, and gives where it listens.
fn begin(folder: &Path, config: &str) -> (Child, String) {
    let config = match config.contains("[server]") {
        true => config.replace("[server]", "[server]\nlisten = \"127.0.0.1:0\""),
        false => format!("[server]\nlisten = \"127.0.0.1:0\"\n{config}"),
    };
    std::fs::write(folder.join("placet.toml"), config).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_placet"))
        .args(["serve", "--json"])
        .current_dir(folder)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("PLACET_HOME", folder.join("home"))
        .env("SECRET", SECRET)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let told: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
    (child, told["listening"].as_str().unwrap().to_owned())
}

impl Drop for House {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
