//! The gateway as a process: what signals do to it.

use crate::sdk::house::House;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;

fn models(house: &House) -> String {
    let address = house.base.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /v1/models HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_hangup_has_the_configuration_read_again_and_a_wrong_one_changes_nothing() {
    let house = House::open("[models.first]\ntarget = \"echo:echo\"\n", |_| {});
    assert!(models(&house).contains("\"first\""));
    let file = house.folder().join("placet.toml");
    let before = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, before.replace("first", "second")).unwrap();
    house.hang_up();
    while !models(&house).contains("\"second\"") {
        std::thread::yield_now();
    }
    std::fs::write(&file, "[models.third]\ntarget = 3\n").unwrap();
    house.hang_up();
    std::fs::write(&file, before.replace("first", "fourth")).unwrap();
    house.hang_up();
    while !models(&house).contains("\"fourth\"") {
        assert!(models(&house).contains("\"object\":\"list\""));
    }
    assert!(!models(&house).contains("\"third\""));
}

/// What an agent's model asks for: a command that does not end by itself.
fn running(mark: &Path) -> serde_json::Value {
    serde_json::json!({"argv": ["sh", "wait", mark.display().to_string()]})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_outlasts_the_drain_ends_with_the_gateway() {
    use crate::sdk::chat_stream;
    use placet_core::Env;
    use placet_testkit::upstream::{Answer, Upstream};
    let upstream = Upstream::start(&Env::system(), []).await.unwrap();
    let hook = Upstream::start(&Env::system(), []).await.unwrap();
    hook.then(Answer::json(200, &serde_json::json!({"approve": true})));
    let config = format!(
        "[limits]\ndrain = \"100ms\"\n[providers.mine]\nbase_url = \"{}\"\nprotocols = [\"openai_chat\"]\nkey_env = \"SECRET\"\n\
         [approval]\nurl = \"{}\"\n[capabilities.shell]\nkind = \"command\"\nroot = \"work\"\n\
         [agents.clerk]\nmodel = \"mine:real\"\ncapabilities = [\"shell\"]\n",
        upstream.url("v1"),
        hook.url("approve")
    );
    let house = House::open(&config, |folder| {
        std::fs::create_dir(folder.join("work")).unwrap();
        // It says who it is, and ignores a polite request to end.
        std::fs::write(folder.join("work/wait"), "trap '' TERM\necho $$ > \"$1\"\nwhile :; do sleep 1; done\n")
            .unwrap();
    });
    let mark = house.folder().join("pid");
    upstream.then(Answer::stream(chat_stream("", &[("c1", "run_command", running(&mark))])));
    let address = house.base.trim_start_matches("http://").to_owned();
    let asking = std::thread::spawn(move || {
        let body = r#"{"model":"clerk","messages":[{"role":"user","content":"go"}]}"#;
        let mut stream = TcpStream::connect(&address).unwrap();
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    });
    let pid = loop {
        match std::fs::read_to_string(&mark).unwrap_or_default().trim().parse::<i32>() {
            Ok(pid) => break pid,
            Err(_) => std::thread::yield_now(),
        }
    };
    let is_there = || std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "));
    assert!(is_there());
    house.ledger().await;
    // The system may take a moment to clear away who was killed.
    while is_there() {
        std::thread::yield_now();
    }
    let answer = asking.join().unwrap();
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("stopping"), "{answer}");
}

#[test]
fn a_key_is_named_as_toml_has_it() {
    let new = |name: &str| {
        std::process::Command::new(env!("CARGO_BIN_EXE_placet")).args(["keys", "new", name]).output().unwrap()
    };
    for name in ["ann", "a b\"]", "back\\slash", "é.x"] {
        let told = String::from_utf8(new(name).stderr).unwrap();
        let from = told.find("[keys.").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("placet.toml");
        std::fs::write(&file, &told[from..]).unwrap();
        let checked = std::process::Command::new(env!("CARGO_BIN_EXE_placet"))
            .args(["check", "--json", "--config"])
            .arg(&file)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&checked.stdout).into_owned();
        assert!(checked.status.success() && said.contains("\"keys\":1"), "{name}: {said}\n{told}");
    }
    for name in ["", "a\nb"] {
        assert_eq!(new(name).status.code(), Some(2), "{name:?}");
    }
}

#[test]
fn checking_needs_no_home_and_tells_what_serving_would_refuse() {
    let folder = tempfile::tempdir().unwrap();
    let placet = |command: &str, config: &str| {
        let file = folder.path().join("placet.toml");
        std::fs::write(&file, config).unwrap();
        let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_placet"));
        program.env_clear().env("BAD", "sk-\u{1}bad").current_dir(&folder).args([command, "--config"]).arg(&file);
        if command == "serve" {
            program.args(["--home", "home"]);
        }
        let done = program.output().unwrap();
        (done.status.code(), String::from_utf8(done.stderr).unwrap())
    };
    assert_eq!(placet("check", "[models.m]\ntarget = \"echo:echo\"\n"), (Some(0), String::new()));
    let bad = "[models.m]\ntarget = \"p:x\"\n[providers.p]\nbase_url = \"http://h/v1\"\nkey_env = \"BAD\"\n";
    let (checked, served) = (placet("check", bad), placet("serve", bad));
    assert_eq!(checked, served);
    assert!(checked.0 == Some(2) && checked.1.contains("line 3: `providers.p`"), "{checked:?}");
    // Without a place of its own in the file, the store's file stands at home.
    std::fs::create_dir_all(folder.path().join("home/placet.db")).unwrap();
    let (code, told) = placet("serve", "[models.m]\ntarget = \"echo:echo\"\n");
    assert!(code == Some(1) && told.contains("is a folder, expected the store's file"), "{code:?} {told}");
}
