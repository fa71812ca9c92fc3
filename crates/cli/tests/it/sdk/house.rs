//! The program as it serves, and the SDKs that talk to it.

use placet_core::Env;
use placet_server::{LedgerLine, read_ledger};
use placet_store::{SharedStore, SqliteOptions, SqliteStore, Tenant};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
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

/// The SDKs of one language.
#[derive(Clone, Debug)]
pub(crate) struct Sdk {
    pub(crate) language: &'static str,
    command: Vec<String>,
}

/// The SDKs that are here; where there are none, `test` says that it is skipped.
pub(crate) fn sdks(test: &str) -> Vec<Sdk> {
    let script = |name: &str| format!("{}/tests/sdk/{name}", env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    match std::env::var("PLACET_SDK_PYTHON") {
        Ok(python) => found.push(Sdk { language: "python", command: vec![python, script("client.py")] }),
        Err(_) => eprintln!("SKIPPED {test} (python): PLACET_SDK_PYTHON names no Python with the SDKs"),
    }
    match std::env::var("PLACET_SDK_NODE") {
        Ok(folder) => {
            let own = format!("{folder}/node_modules/.bin/node");
            let node = if Path::new(&own).exists() { own } else { "node".to_owned() };
            found.push(Sdk { language: "node", command: vec![node, script("client.mjs"), folder] });
        }
        Err(_) => eprintln!("SKIPPED {test} (node): PLACET_SDK_NODE names no folder with the SDKs"),
    }
    found
}

impl Sdk {
    /// Holds conversations, one after the other, and gives what was seen of each.
    pub(crate) fn hold(&self, base: &str, mut talks: Vec<Value>) -> Vec<Talk> {
        talks.iter_mut().filter(|talk| talk.get("base").is_none()).for_each(|talk| talk["base"] = base.into());
        let mut child = Command::new(&self.command[0])
            .args(&self.command[1..])
            .env("NO_PROXY", "127.0.0.1,localhost")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{:?}: {error}", self.command));
        child.stdin.take().unwrap().write_all(Value::from(talks).to_string().as_bytes()).unwrap();
        let (mut out, mut err) = (String::new(), String::new());
        let mut stderr = child.stderr.take().unwrap();
        let errors = std::thread::spawn(move || {
            let _ = stderr.read_to_string(&mut err);
            err
        });
        child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        let errors = errors.join().unwrap();
        assert!(child.wait().unwrap().success(), "{}: {errors}", self.language);
        let seen: Vec<Value> = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out} {errors}"));
        seen.into_iter().map(Talk).collect()
    }

    pub(crate) fn hold_one(&self, base: &str, talk: Value) -> Talk {
        self.hold(base, vec![talk]).pop().unwrap()
    }
}

/// What a client saw of one conversation.
#[derive(Clone, Debug)]
pub(crate) struct Talk(pub(crate) Value);

impl Talk {
    pub(crate) fn turns(&self) -> &[Value] {
        assert!(self.0["error"].is_null(), "{:#}", self.0);
        self.0["turns"].as_array().unwrap()
    }

    pub(crate) fn last(&self) -> &Value {
        self.turns().last().unwrap()
    }

    pub(crate) fn error(&self) -> &Value {
        assert!(!self.0["error"].is_null(), "{:#}", self.0);
        &self.0["error"]
    }

    /// Everything the client was sent, as it read it.
    pub(crate) fn seen(&self) -> String {
        self.0["seen"].to_string()
    }
}
