//! A folder, a home, and the program in a clean environment.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A folder of its own, and a home for the program's runs.
pub(crate) struct Bench {
    root: tempfile::TempDir,
}

/// What the program said, and how it ended.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    #[track_caller]
    pub(crate) fn done(self) -> Self {
        assert_eq!(self.code, Some(0), "{self:#?}");
        self
    }

    #[track_caller]
    pub(crate) fn ended_with(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    /// Each line of the output as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Vec<serde_json::Value> {
        let read = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        self.out.lines().map(read).collect()
    }
}

impl Bench {
    pub(crate) fn new() -> Self {
        let bench = Bench { root: tempfile::tempdir().unwrap() };
        std::fs::create_dir(bench.folder()).unwrap();
        bench
    }

    /// The folder that agents are handed.
    pub(crate) fn folder(&self) -> PathBuf {
        self.root.path().join("folder")
    }

    /// Writes a file into the folder.
    pub(crate) fn file(&self, path: &str, content: &str) -> &Self {
        let path = self.folder().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
        self
    }

    /// Writes a script for the `scripted` model, outside the folder, and gives the model's reference.
    pub(crate) fn script(&self, turns: serde_json::Value) -> String {
        let path = self.root.path().join("script.json");
        let script = serde_json::json!({ "follow": "conversation", "turns": turns });
        std::fs::write(&path, script.to_string()).unwrap();
        format!("scripted:{}", path.display())
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    /// The program, not started yet: no variable of this process reaches it.
    pub(crate) fn program(&self, args: &[&str]) -> Command {
        let mut command = Command::new(Path::new(env!("CARGO_BIN_EXE_placet")));
        command
            .args(args)
            .current_dir(self.folder())
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("PLACET_HOME", self.home())
            // Nothing listens on the port of discard: the look for a local Ollama ends at once.
            .env("OLLAMA_HOST", "127.0.0.1:9")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub(crate) fn placet(&self, args: &[&str]) -> Said {
        said(self.program(args).output().unwrap())
    }

    /// The id of the run that was started last.
    pub(crate) fn last_run(&self) -> String {
        let listed = self.placet(&["runs", "list", "--json"]).done().json();
        listed[0]["run"].as_str().expect("a run").to_owned()
    }
}

pub(crate) fn said(output: Output) -> Said {
    Said {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}
