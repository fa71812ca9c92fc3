//! Commands as real processes.

use placet_core::redact::SecretRegistry;
use placet_core::{Env, Secret};
use placet_workspace::command::{CommandCall, CommandOptions, ProcessLimits};
use placet_workspace::{Answer, Approval, Commands, Files, FilesOptions, WorkspaceError};
use std::fs;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

struct Place {
    folder: TempDir,
    commands: Arc<Commands>,
}

fn place(options: CommandOptions) -> Place {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let files = Files::open(&Env::system(), folder.path(), FilesOptions::new()).expect("opens");
    let commands = Commands::new(Arc::new(files), options.approval(Approval::Unsandboxed)).expect("good options");
    Place { folder, commands }
}

fn call(argv: &[&str]) -> CommandCall {
    CommandCall { argv: argv.iter().map(|word| (*word).to_owned()).collect(), dir: None, timeout_seconds: Some(60) }
}

fn script(text: &str) -> CommandCall {
    call(&["sh", "-c", text])
}

impl Place {
    async fn answer(&self, call: &CommandCall) -> Result<Answer, WorkspaceError> {
        self.commands.run(&Env::system(), call, &CancellationToken::new()).await
    }

    async fn text(&self, call: &CommandCall) -> String {
        self.answer(call).await.expect("runs").text
    }
}

/// The living processes of a group, by their numbers. Zombies are nobody.
fn group_members(group: u32) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("Linux").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        let Some((_, rest)) = stat.rsplit_once(") ") else { continue };
        let fields: Vec<&str> = rest.split(' ').collect();
        if fields[0] != "Z" && fields[2] == group.to_string() {
            found.push(pid);
        }
    }
    found
}

/// Waits until a group has no member left: a process that was sent a kill is gone a moment later, not at once. One that
/// never goes lets the test run out of its time.
async fn group_is_gone(group: u32) {
    while !group_members(group).is_empty() {
        Env::system().sleep(Duration::from_millis(2)).await;
    }
}

/// Waits until no living process has this word among its arguments.
async fn none_runs_with(word: &str) {
    while runs_with(word) {
        Env::system().sleep(Duration::from_millis(2)).await;
    }
}

/// Whether a living process has this word among its arguments.
fn runs_with(word: &str) -> bool {
    fs::read_dir("/proc").expect("Linux").flatten().any(|entry| {
        fs::read(entry.path().join("cmdline")).is_ok_and(|line| line.split(|b| *b == 0).any(|w| w == word.as_bytes()))
    })
}

/// The group that a command told in its output as `group N`.
fn told_group(text: &str) -> u32 {
    let line = text.lines().find_map(|line| line.strip_prefix("group "));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or_else(|| panic!("no group in {text:?}"))
}

#[tokio::test]
async fn exit_codes_and_output_in_its_order_are_an_answer() {
    let place = place(CommandOptions::new().shell());
    assert_eq!(place.text(&call(&["true"])).await, "exit code 0\n(no output)");
    assert_eq!(place.text(&call(&["echo", "a  b", "$HOME", "*"])).await, "exit code 0\na  b $HOME *\n");
    let answer = place.answer(&script("echo one; echo two >&2; echo three; exit 3")).await.expect("runs");
    assert_eq!(answer.text, "exit code 3\none\ntwo\nthree\n");
    assert_eq!(answer.facts["exit_code"], 3);
    assert_eq!(answer.facts["sandbox"], "L1");
    assert_eq!(answer.facts["timed_out"], false);
    assert!(answer.facts["duration_ms"].is_u64());
    let answer = place.answer(&script("kill -KILL $$")).await.expect("runs");
    assert_eq!(
        (answer.text.as_str(), &answer.facts["signal"]),
        ("ended by signal 9 (SIGKILL)\n(no output)", &9.into())
    );
    assert_eq!(place.text(&call(&["cat"])).await, "exit code 0\n(no output)", "the input is closed");
}

#[tokio::test]
async fn what_cannot_run_says_why() {
    let place = place(CommandOptions::new());
    fs::write(place.folder.path().join("plain.txt"), "no program").expect("written");
    for (argv, words) in [
        (&["no-such-program-here"][..], "there is no program `no-such-program-here`"),
        (&["./none.sh"], "there is no program"),
        (&["./plain.txt"], "cannot be executed"),
        (&[], "is empty"),
        (&["ls -l"], "looks like several"),
        (&["echo", "a\0b"], "NUL"),
    ] {
        let error = place.answer(&call(argv)).await.expect_err("cannot run");
        assert!(error.to_string().contains(words), "{argv:?}: {error}");
        assert_eq!(error.status(), placet_core::Status::Mistaken, "{argv:?}");
    }
    for (dir, words) in
        [("..", "`..`"), ("none", "there is no `none`"), ("plain.txt", "not a directory"), ("/", "absolute")]
    {
        let error =
            place.answer(&CommandCall { dir: Some(dir.into()), ..call(&["pwd"]) }).await.expect_err("cannot run");
        assert!(error.to_string().contains(words), "{dir}: {error}");
    }
    let error =
        place.answer(&CommandCall { timeout_seconds: Some(0), ..call(&["pwd"]) }).await.expect_err("cannot run");
    assert!(error.to_string().contains("from 1 to 3600"), "{error}");
    let error = place.answer(&script("ls")).await.expect_err("no shell");
    assert_eq!(error.status(), placet_core::Status::Refused);
}

#[tokio::test]
async fn it_starts_where_it_was_told_with_a_clean_environment() {
    let place = place(CommandOptions::new().shell().variable("EDITOR", "vi"));
    fs::create_dir_all(place.folder.path().join("a/b")).expect("made");
    std::os::unix::fs::symlink("a/b", place.folder.path().join("link")).expect("linked");
    let real = place.folder.path().canonicalize().expect("there");
    let pwd = |dir: &str| CommandCall { dir: Some(dir.into()), ..call(&["pwd"]) };
    assert_eq!(place.text(&pwd("a/b")).await, format!("exit code 0\n{}/a/b\n", real.display()));
    assert_eq!(place.text(&pwd("link")).await, format!("exit code 0\n{}/a/b\n", real.display()));
    assert_eq!(place.text(&call(&["pwd"])).await, format!("exit code 0\n{}\n", real.display()));

    let text = place.text(&call(&["env"])).await;
    let mut names: Vec<&str> =
        text.lines().skip(1).filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
    names.sort_unstable();
    assert_eq!(names, ["EDITOR", "HOME", "LANG", "PATH", "PLACET_CALL", "TERM"], "{text}");
    let home = text.lines().find_map(|line| line.strip_prefix("HOME=")).expect("a home").to_owned();
    assert!(!std::path::Path::new(&home).exists(), "the home is gone with the command");
    let used = place.text(&script("ls -A \"$HOME\" | wc -l; touch \"$HOME/x\" && stat -c %a \"$HOME\"")).await;
    assert_eq!(used, "exit code 0\n0\n700\n");
    assert_ne!(place.text(&script("echo $HOME")).await, place.text(&script("echo $HOME")).await, "one for each");
}

#[tokio::test]
async fn a_long_output_is_cut_while_it_is_read() {
    let place = place(CommandOptions::new());
    let answer = place.answer(&call(&["seq", "1", "1000000"])).await.expect("runs");
    assert!(
        answer.text.starts_with("exit code 0\n1\n2\n") && answer.text.ends_with("999999\n1000000\n"),
        "{}",
        answer.text
    );
    assert!(answer.text.len() < 20_100, "{}", answer.text.len());
    assert_eq!(answer.facts["output_bytes"], 6_888_896);
    let cut = answer.cut.expect("says what it cut");
    assert_eq!((cut.kept, cut.total), (20_000, 6_888_896));
    assert!(answer.text.contains("[6868896 bytes cut here]"));
}

#[tokio::test]
async fn a_secret_across_the_cut_leaves_no_half() {
    let mut registry = SecretRegistry::new();
    let secret = "correct-horse-battery-staple".repeat(4);
    registry.register(Secret::new("APP_TOKEN", secret.clone()));
    let place = place(CommandOptions::new().output_bytes(1_000).redactor(registry.redactor()));
    // The cut at 250 bytes falls into the secret, wherever it begins within its length.
    for before in (150..250).step_by(9) {
        fs::write(place.folder.path().join("out"), format!("{}\n{secret}\n{}", "x".repeat(before), "y".repeat(5_000)))
            .expect("written");
        let text = place.text(&call(&["cat", "out"])).await;
        assert!(!text.contains("horse") && !text.contains("staple"), "{text}");
    }
}

#[tokio::test]
async fn out_of_time_the_whole_group_ends() {
    let place = place(CommandOptions::new().shell());
    // A child that holds the pipe, one that does not listen to a polite signal, one in a session of its own, and one that
    // is both.
    let text = "echo group $$; sleep 4711.001 & sh -c 'trap \"\" TERM; sleep 4711.002; sleep 4711.003' & \
                setsid sleep 4711.004 & setsid sh -c 'trap \"\" TERM; sleep 4711.005; sleep 4711.006' & wait";
    let answer = place.answer(&CommandCall { timeout_seconds: Some(1), ..script(text) }).await.expect("answers");
    assert!(answer.text.starts_with("out of time after 1 seconds"), "{}", answer.text);
    assert_eq!(answer.facts["timed_out"], true);
    group_is_gone(told_group(&answer.text)).await;
    for number in 1..=6 {
        none_runs_with(&format!("4711.00{number}")).await;
    }
}

#[tokio::test]
async fn what_it_leaves_in_the_background_ends_with_it() {
    let place = place(CommandOptions::new().shell());
    let answer =
        place.answer(&script("echo group $$; sleep 4712.001 & nohup sleep 4712.002 >/dev/null 2>&1 & echo done")).await;
    let answer = answer.expect("runs");
    assert!(answer.text.starts_with("exit code 0\n") && answer.text.ends_with("done\n"), "{}", answer.text);
    group_is_gone(told_group(&answer.text)).await;
    assert!(!runs_with("4712.001") && !runs_with("4712.002"));
}

/// Waits until the command has said where it stands, in a file.
async fn told_in(path: &std::path::Path) -> String {
    loop {
        match fs::read_to_string(path) {
            Ok(text) if text.ends_with('\n') => return text,
            _ => tokio::task::yield_now().await,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_or_dropped_it_ends_with_all_its_processes() {
    let place = place(CommandOptions::new().shell());
    let file = place.folder.path().join("group");
    let text = "sleep 4713.001 & echo group $$ > group; wait";

    let cancel = CancellationToken::new();
    let (env, asked) = (Env::system(), script(text));
    let running = place.commands.run(&env, &asked, &cancel);
    let (answer, group) = tokio::join!(running, async {
        let group = told_group(&told_in(&file).await);
        cancel.cancel();
        group
    });
    let answer = answer.expect("answers");
    assert!(answer.text.starts_with("cancelled"), "{}", answer.text);
    group_is_gone(group).await;

    fs::remove_file(&file).expect("removed");
    let cancel = CancellationToken::new();
    let running = place.commands.run(&env, &asked, &cancel);
    let group = tokio::select! {
        answer = running => panic!("ended by itself: {answer:?}"),
        text = told_in(&file) => told_group(&text),
    };
    group_is_gone(group).await;
    none_runs_with("4713.001").await;
}

#[tokio::test]
async fn limits_hold_for_what_it_starts() {
    let place =
        place(CommandOptions::new().shell().limits(ProcessLimits::default().file_bytes(1_000_000).processes(3_000)));
    // The limits come from outside, an instant after the start: the script waits for them.
    let text = "until grep -q 'Max core file size *0 *0 ' /proc/self/limits; do sleep 0.01; done; \
                grep -E 'file size|processes|cpu' /proc/self/limits; \
                dd if=/dev/zero of=big bs=100000 count=100 2>/dev/null; echo $?; wc -c < big";
    let text = place.text(&script(text)).await;
    for words in [
        "Max cpu time              1200",
        "Max file size             1000000",
        "Max processes             3000",
        "\n1000000\n",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[tokio::test]
async fn a_daemon_that_hides_is_not_waited_for() {
    let place = place(CommandOptions::new().shell());
    let text = place
        .text(&script(
            "setsid env -i /bin/sh -c 'echo $$ > pid; exec sleep 4714.001' & until test -s pid; do :; done; echo started",
        ))
        .await;
    assert!(text.starts_with("exit code 0\nstarted\n(a process that left the command's group"), "{text}");
    let pid = fs::read_to_string(place.folder.path().join("pid")).expect("told");
    let pid = rustix::process::Pid::from_raw(pid.trim().parse().expect("a number")).expect("a process");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("ended by the test");
}

#[tokio::test]
async fn a_child_in_a_session_of_its_own_ends_with_a_command_that_ends() {
    let place = place(CommandOptions::new().shell());
    // It holds neither the output nor the group, and its parent is gone before the command ends.
    let text =
        "(setsid sh -c 'echo > up; sleep 4715.001; sleep 4715.002' >/dev/null 2>&1 &); until test -s up; do :; done";
    assert_eq!(place.text(&script(text)).await, "exit code 0\n(no output)");
    none_runs_with("4715.001").await;
    none_runs_with("4715.002").await;
}

/// Not a test by itself: what [`a_program_that_is_killed_takes_its_commands_along`] starts, and kills.
#[tokio::test]
async fn the_program_that_is_killed() {
    let Ok(folder) = std::env::var("PLACET_TEST_KILL_FOLDER") else { return };
    let files = Files::open(&Env::system(), &folder, FilesOptions::new()).expect("opens");
    let options = CommandOptions::new().shell().approval(Approval::Unsandboxed);
    let commands = Commands::new(Arc::new(files), options).expect("good options");
    let text = "setsid sleep 4716.001 & echo $HOME > home; exec sleep 4716.002";
    let _ = commands.run(&Env::system(), &script(text), &CancellationToken::new()).await;
}

#[tokio::test]
async fn a_program_that_is_killed_takes_its_commands_along() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let mut program = std::process::Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "command::the_program_that_is_killed"])
        .env("PLACET_TEST_KILL_FOLDER", folder.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("starts");
    let home = told_in(&folder.path().join("home")).await;
    while !(runs_with("4716.001") && runs_with("4716.002")) {
        tokio::task::yield_now().await;
    }
    program.kill().expect("killed");
    program.wait().expect("ended");
    none_runs_with("4716.002").await;
    // What it had started, and its home, go when commands are next put together.
    assert!(std::path::Path::new(home.trim()).exists());
    let _ = place(CommandOptions::new());
    none_runs_with("4716.001").await;
    assert!(!std::path::Path::new(home.trim()).exists());
}

#[tokio::test]
async fn whatever_answers_a_command_says_its_sandbox() {
    use placet_core::{Arguments, CallId, ToolCall};
    use placet_tools::{CallContext, Grant, Options, Pipeline, Registry};
    let place = place(CommandOptions::new().deny(["rm"]));
    let asking = {
        let files = Files::open(&Env::system(), place.folder.path(), FilesOptions::new()).expect("opens");
        Commands::new(Arc::new(files), CommandOptions::new()).expect("good options")
    };
    let outcome = async |commands: &Arc<Commands>, arguments: serde_json::Value| {
        let registry = Registry::assemble(vec![Grant::from(commands.capability())]).expect("one tool");
        let call = ToolCall {
            id: CallId::parse("call_1").expect("an id"),
            provider_id: None,
            name: "run_command".into(),
            arguments: Arguments::from_text(arguments.to_string()),
            native: None,
        };
        let pipeline = Pipeline::new(registry, Options::default());
        pipeline.run(&call, CallContext::new(&Env::system())).await.expect("an answer").outcome
    };
    for (commands, arguments, stage) in [
        (&place.commands, serde_json::json!({"argv": ["true"]}), "execute"),
        (&place.commands, serde_json::json!({"argv": ["no-such-program-here"]}), "execute"),
        (&place.commands, serde_json::json!({"argv": ["rm", "x"]}), "arguments"),
        (&place.commands, serde_json::json!({"argv": "true"}), "arguments"),
        (&asking, serde_json::json!({"argv": ["true"]}), "approved"),
    ] {
        let outcome = outcome(commands, arguments).await;
        assert_eq!((outcome.stage.as_str(), outcome.facts.get("sandbox")), (stage, Some(&"L1".into())), "{outcome:?}");
    }
}
