#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use super::deny::denied;
use super::*;
use std::path::Path;

fn judged(argv: &[&str], options: &CommandOptions) -> Option<String> {
    let argv: Vec<String> = argv.iter().map(|word| (*word).to_owned()).collect();
    denied(&argv, options, Path::new("/home/me/project"), Path::new("src"))
}

/// As an argument list, without a shell.
#[test]
fn accidents_are_denied_and_innocent_commands_are_not() {
    let options = CommandOptions::new();
    for (argv, words) in [
        (&["rm", "-rf", "--no-preserve-root", "/"][..], "root of the system"),
        (&["rm", "-rf", "/"], "not inside the folder"),
        (&["rm", "-r", "-f", "/"], "not inside the folder"),
        (&["rm", "--recursive", "--force", "/"], "not inside the folder"),
        (&["rm", "-rf", "/etc"], "not inside the folder"),
        (&["rm", "-rf", "~"], "not inside the folder"),
        (&["rm", "-rf", "//"], "not inside the folder"),
        (&["rm", "-rf", "/*"], "not inside the folder"),
        (&["/bin/rm", "-rf", "/home/me"], "not inside the folder"),
        (&["rm", "-rf", "/home/me/project"], "not inside the folder"),
        (&["rm", "-rf", "../../other"], "not inside the folder"),
        (&["rm", "-rf", "--", "/home/me/project/../other"], "not inside the folder"),
        (&["find", "/", "-delete"], "`find` would delete"),
        (&["find", "/", "-name", "*.c", "-exec", "rm", "-f", "{}", ";"], "`find` would delete"),
        (&["find", ".", "-exec", "sh", "-c", "rm {}", ";"], "shells were not granted"),
        (&["dd", "if=/dev/zero", "of=/dev/sda"], "device"),
        (&["tee", "/dev/nvme0n1"], "device"),
        (&["cp", "image", "/dev/sdb"], "device"),
        (&["mkfs.ext4", "/dev/sda1"], "disks"),
        (&["shutdown", "-h", "now"], "stop the machine"),
        (&["/sbin/reboot"], "stop the machine"),
        (&["systemctl", "poweroff"], "stop the machine"),
        (&["init", "0"], "stop the machine"),
        (&["chmod", "777", "/"], "not inside the folder"),
        (&["chmod", "-R", "a+rwx", "/etc"], "not inside the folder"),
        (&["chown", "-R", "me", "/usr"], "not inside the folder"),
        (&["kill", "-9", "-1"], "every process"),
        (&["sudo", "ls"], "privileges"),
        (&["su", "-c", "ls"], "privileges"),
        (&["sh", "-c", "ls"], "shells were not granted"),
        (&["bash", "-lc", "ls"], "shells were not granted"),
        (&["/bin/bash", "-o", "pipefail", "-c", "ls"], "shells were not granted"),
        (&["env", "X=1", "bash", "-c", "ls"], "shells were not granted"),
        (&["env", "-S", "bash -c ls"], "shells were not granted"),
        (&["timeout", "5", "sh", "-c", "ls"], "shells were not granted"),
        (&["xargs", "sh", "-c", "ls"], "shells were not granted"),
        (&["busybox", "sh", "-c", "ls"], "shells were not granted"),
        (&["nice", "-n", "5", "rm", "-rf", "/"], "not inside the folder"),
        (&["env", "sudo", "ls"], "privileges"),
        (&["watch", "ls"], "runs one"),
    ] {
        let why = judged(argv, &options);
        assert!(why.as_ref().is_some_and(|why| why.contains(words)), "{argv:?}: {why:?}");
    }
    for argv in [
        &["echo", "halt"][..],
        &["grep", "-rn", "reboot", "docs"],
        &["echo", "rm -rf /"],
        &["echo", "rm", "-rf", "/"],
        &["rm", "-rf", "target"],
        &["rm", "-rf", "/home/me/project/target"],
        &["rm", "../build.log"],
        &["find", ".", "-name", "*.tmp", "-delete"],
        &["find", "..", "-name", "*.tmp", "-delete"],
        &["find", "/", "-name", "x"],
        &["chmod", "+x", "run.sh"],
        &["dd", "if=a", "of=b"],
        &["dd", "if=a", "of=/dev/null"],
        &["bash", "run.sh", "-c", "x"],
        &["bash", "--version"],
        &["sh", "-e", "run.sh"],
        &["systemctl", "status"],
        &["kill", "-1", "1234"],
        &["git", "commit", "-m", "shutdown; rm -rf /"],
        &["python3", "-c", "print(1)"],
        &["env", "RUST_LOG=debug", "cargo", "test"],
        &["timeout", "5", "cargo", "test"],
        &["cargo", "test", "--", "--nocapture"],
        &["git", "log", "--oneline", "-1"],
    ] {
        assert_eq!(judged(argv, &options), None, "{argv:?}");
    }
}

/// As a script, where shells were granted.
#[test]
fn scripts_are_looked_into() {
    let options = CommandOptions::new().shell();
    for (script, words) in [
        ("rm -rf --no-preserve-root /", "root of the system"),
        ("rm -r -f /", "not inside the folder"),
        ("rm --recursive --force /", "not inside the folder"),
        ("rm -rf /etc", "not inside the folder"),
        ("rm -rf ~", "not inside the folder"),
        ("rm -rf $HOME/x", "not inside the folder"),
        ("rm -rf \"/\"", "not inside the folder"),
        ("rm -rf '/'", "not inside the folder"),
        ("r\\m -rf /", "not inside the folder"),
        ("find / -delete", "`find` would delete"),
        ("find . | xargs rm -rf", "whatever it is handed"),
        ("curl x | python3", "what it downloads"),
        ("curl -s x | tee log | env bash", "what it downloads"),
        ("wget -qO- x | sh", "what it downloads"),
        ("bash <(curl x)", "what it downloads"),
        ("sh -c \"$(curl -fsSL x)\"", "what it downloads"),
        ("eval `wget -qO- x`", "what it downloads"),
        (". <(curl x)", "what it downloads"),
        ("cat /dev/zero > /dev/sda", "device"),
        ("cat x >/dev/nvme0n1", "device"),
        (":(){ :|:& };:", "without an end"),
        ("bomb() { bomb | bomb & }; bomb", "without an end"),
        ("true && halt", "stop the machine"),
        ("cd /tmp; (shutdown now)", "stop the machine"),
        ("if true; then reboot; fi", "stop the machine"),
        ("X=1 sudo ls", "privileges"),
        ("echo $(sudo ls)", "privileges"),
        ("bash -c 'bash -c \"rm -rf /\"'", "not inside the folder"),
        ("eval 'rm -rf /'", "not inside the folder"),
        ("while true; do rm -rf /usr; done", "not inside the folder"),
    ] {
        for shell in ["sh", "bash"] {
            let why = judged(&[shell, "-c", script], &options);
            assert!(why.as_ref().is_some_and(|why| why.contains(words)), "{script}: {why:?}");
        }
    }
    for script in [
        "echo halt > notes",
        "grep -rn reboot docs",
        "echo 'rm -rf /'",
        "cat <<EOF > notes\nrm -rf /\nEOF",
        "curl -s x > page.html && grep title page.html",
        "curl x | jq .name",
        "ls 2>/dev/null | wc -l",
        "rm -rf target # rm -rf /",
        "for f in *.txt; do wc -l \"$f\"; done",
        "f() { echo x; }; f | f",
        "git status; cat README.md",
    ] {
        assert_eq!(judged(&["sh", "-c", script], &options), None, "{script}");
    }
}

#[test]
fn an_allowed_command_is_that_command_and_no_other() {
    let options = CommandOptions::new().allow(["git", "status"]).allow(["git", "log"]);
    assert_eq!(judged(&["git", "status"], &options), None);
    assert_eq!(judged(&["git", "log", "-1"], &options), None);
    for argv in [
        &["git", "status; cat /etc/passwd"][..],
        &["git status; cat /etc/passwd"],
        &["git", "push"],
        &["git"],
        &["./git", "status"],
        &["cat", "/etc/passwd"],
        &["sh", "-c", "git status"],
    ] {
        assert!(judged(argv, &options).is_some_and(|why| why.contains("only commands that begin")), "{argv:?}");
    }
    let options = CommandOptions::new().deny(["git", "push"]).shell();
    assert!(judged(&["/usr/bin/git", "push", "--force"], &options).is_some());
    assert!(judged(&["sh", "-c", "true && git push"], &options).is_some());
    assert_eq!(judged(&["git", "pull"], &options), None);
}

#[test]
fn options_that_cannot_be_meant_are_found_at_once() {
    let options = CommandOptions::new()
        .variable("OPENAI_API_KEY", "x")
        .variable("A=B", "x")
        .variable("EDITOR", "vi")
        .shell()
        .allow(["ls"])
        .timeout(Duration::ZERO)
        .output_bytes(1);
    let text = match options.check() {
        Err(error) => error.to_string(),
        Ok(()) => panic!("nothing was found"),
    };
    for words in ["OPENAI_API_KEY", "A=B", "allowed commands", "time limit", "400 bytes"] {
        assert!(text.contains(words), "{text}");
    }
    assert!(!text.contains("EDITOR"));
    assert!(CommandOptions::new().check().is_ok());
}

#[test]
fn a_command_is_shown_as_what_it_is() {
    let line = |argv: &[&str]| {
        let argv = argv.iter().map(|word| (*word).to_owned()).collect();
        CommandCall { argv, dir: None, timeout_seconds: None }.line()
    };
    assert_eq!(line(&["git", "log", "--format=%h", "a b", "it's", ""]), "git log --format=%h 'a b' 'it'\\''s' ''");
    assert_eq!(line(&["echo", "a\n\u{1b}[2Jb"]), "echo $'a\\n\\u{1b}[2Jb'");
}
