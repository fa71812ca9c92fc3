//! The SDKs that talk to a gateway, each in a process of its own language.

use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

/// The SDKs of one language.
#[derive(Clone, Debug)]
pub(crate) struct Sdk {
    pub(crate) language: &'static str,
    command: Vec<String>,
}

/// The SDKs that are here; where there are none, `test` says that it is skipped.
pub(crate) fn sdks(test: &str) -> Vec<Sdk> {
    let script = |name: &str| format!("{}/../cli/tests/sdk/{name}", env!("CARGO_MANIFEST_DIR"));
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
