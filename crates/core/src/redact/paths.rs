//! Which files hold credentials, by their paths alone.

use std::path::Path;

/// Why the file at `path` is not for an agent's eyes; `None` when nothing speaks against it.
///
/// Only the path's text is looked at, without regard to case; `/` and `\` both separate. Callers that follow links ask for the
/// path as given and for the one it leads to. A directory of credentials is refused as a whole.
pub fn credential_path(path: impl AsRef<Path>) -> Option<&'static str> {
    let path = path.as_ref().to_string_lossy().to_lowercase();
    let given: Vec<&str> = path.split(['/', '\\']).filter(|part| !part.is_empty() && *part != ".").collect();
    // `.aws/x/../credentials` is seen as it is written, and as what it means.
    let mut meant: Vec<&str> = Vec::with_capacity(given.len());
    for &part in &given {
        if part == ".." {
            meant.pop();
        } else {
            meant.push(part);
        }
    }
    reason(&given).or_else(|| reason(&meant))
}

/// Directories that hold nothing else.
const DIRECTORIES: &[(&str, &str)] = &[
    (".ssh", "SSH keys and their configuration"),
    (".gnupg", "GnuPG keys"),
    (".password-store", "a password store"),
    ("keyrings", "a keyring"),
    (".kube", "Kubernetes credentials"),
];

/// Ends of paths, component by component; `*` stands for any one component.
const ENDS: &[(&[&str], &str)] = &[
    (&[".aws", "credentials"], "AWS credentials"),
    (&[".aws", "config"], "AWS credentials"),
    (&[".azure", "accesstokens.json"], "Azure credentials"),
    (&[".azure", "msal_token_cache.json"], "Azure credentials"),
    (&[".azure", "msal_token_cache.bin"], "Azure credentials"),
    (&[".azure", "service_principal_entries.json"], "Azure credentials"),
    (&["application_default_credentials.json"], "Google Cloud credentials"),
    (&["credentials.json"], "credentials of a program"),
    (&["kubeconfig"], "Kubernetes credentials"),
    (&["gcloud", "credentials.db"], "Google Cloud credentials"),
    (&["gcloud", "access_tokens.db"], "Google Cloud credentials"),
    (&[".boto"], "Google Cloud credentials"),
    (&[".s3cfg"], "storage credentials"),
    (&["rclone", "rclone.conf"], "storage credentials"),
    (&["doctl", "config.yaml"], "DigitalOcean credentials"),
    (&[".fly", "config.yml"], "Fly credentials"),
    (&["hcloud", "cli.toml"], "Hetzner credentials"),
    (&[".databrickscfg"], "Databricks credentials"),
    (&[".terraformrc"], "Terraform credentials"),
    (&[".terraform.d", "credentials.tfrc.json"], "Terraform credentials"),
    (&["terraform.tfstate"], "Terraform state, which holds passwords and keys in the clear"),
    (&[".vault-token"], "a Vault token"),
    (&[".docker", "config.json"], "registry credentials"),
    (&[".dockercfg"], "registry credentials"),
    (&[".dockerconfigjson"], "registry credentials"),
    (&["containers", "auth.json"], "registry credentials"),
    (&[".cargo", "credentials"], "registry credentials"),
    (&[".cargo", "credentials.toml"], "registry credentials"),
    (&[".npmrc"], "registry credentials"),
    (&[".pypirc"], "registry credentials"),
    (&[".gem", "credentials"], "registry credentials"),
    (&[".m2", "settings.xml"], "registry credentials"),
    (&[".m2", "settings-security.xml"], "registry credentials"),
    (&[".composer", "auth.json"], "registry credentials"),
    (&["composer", "auth.json"], "registry credentials"),
    (&[".gradle", "gradle.properties"], "registry credentials"),
    (&[".git-credentials"], "Git credentials"),
    (&["git", "credentials"], "Git credentials"),
    (&[".git", "credentials"], "Git credentials"),
    (&[".git", "config"], "Git credentials, where the address of a remote holds some"),
    (&[".git", "config.worktree"], "Git credentials, where the address of a remote holds some"),
    (&[".git", "modules", "*", "config"], "Git credentials, where the address of a remote holds some"),
    (&[".git", "worktrees", "*", "config.worktree"], "Git credentials, where the address of a remote holds some"),
    (&["gh", "hosts.yml"], "GitHub credentials"),
    (&[".config", "hub"], "GitHub credentials"),
    (&["glab-cli", "config.yml"], "GitLab credentials"),
    (&[".netrc"], "passwords of hosts"),
    (&["_netrc"], "passwords of hosts"),
    (&[".pgpass"], "database passwords"),
    (&["pgpass.conf"], "database passwords"),
    (&[".my.cnf"], "database passwords"),
    (&[".mylogin.cnf"], "database passwords"),
    (&[".htpasswd"], "password hashes"),
    (&["etc", "shadow"], "password hashes"),
    (&["etc", "gshadow"], "password hashes"),
    (&[".claude", ".credentials.json"], "a model provider's credentials"),
    (&[".codex", "auth.json"], "a model provider's credentials"),
    (&[".streamlit", "secrets.toml"], "an application's secrets"),
    (&["key4.db"], "a browser's passwords"),
    (&["logins.json"], "a browser's passwords"),
    (&["login data"], "a browser's passwords"),
    (&["proc", "*", "environ"], "a process's environment"),
    (&["proc", "*", "task", "*", "environ"], "a process's environment"),
    (&["proc", "*", "mem"], "a process's memory"),
    (&["proc", "*", "task", "*", "mem"], "a process's memory"),
];

/// Pairs of components that may stand anywhere: directories that hold credentials beside other things.
const INSIDE: &[(&[&str], &str)] = &[
    (&[".aws", "sso"], "AWS credentials"),
    (&[".aws", "cli"], "AWS credentials"),
    (&["gcloud", "legacy_credentials"], "Google Cloud credentials"),
    (&["etc", "wireguard"], "VPN keys"),
    (&["run", "secrets"], "an application's secrets"),
];

/// Histories of shells and consoles, where passwords were typed.
const HISTORIES: &[&str] = &[
    ".bash_history",
    ".zsh_history",
    ".zhistory",
    ".histfile",
    ".sh_history",
    ".ksh_history",
    ".ash_history",
    ".history",
    "fish_history",
    ".psql_history",
    ".mysql_history",
    ".sqlite_history",
    ".rediscli_history",
    ".dbshell",
    ".python_history",
    ".node_repl_history",
    ".irb_history",
    "consolehost_history.txt",
];

/// Extensions of files that hold private keys.
const EXTENSIONS: &[&str] = &["pem", "p12", "p8", "pfx", "key", "jks", "keystore", "kdbx", "ppk", "ovpn", "agekey"];

fn reason(parts: &[&str]) -> Option<&'static str> {
    let matches = |pattern: &[&str], parts: &[&str]| {
        pattern.len() == parts.len() && pattern.iter().zip(parts).all(|(p, part)| *p == "*" || p == part)
    };
    for part in parts {
        if let Some((_, why)) = DIRECTORIES.iter().find(|(directory, _)| directory == part) {
            return Some(why);
        }
    }
    for (pair, why) in INSIDE {
        if parts.windows(pair.len()).any(|window| matches(pair, window)) {
            return Some(why);
        }
    }
    let (last, rest) = parts.split_last()?;
    let name = without_copy_mark(last);
    let mut parts = rest.to_vec();
    parts.push(name);
    for (end, why) in ENDS {
        if parts.len() >= end.len() && matches(end, &parts[parts.len() - end.len()..]) {
            return Some(why);
        }
    }
    file_reason(name)
}

fn file_reason(name: &str) -> Option<&'static str> {
    let environment = name == ".env" || name == ".envrc" || name.starts_with(".env.") || name.ends_with(".env");
    if environment {
        const HARMLESS: &[&str] = &["example", "sample", "template", "dist", "defaults", "tpl", "schema"];
        let harmless = name.split('.').any(|word| HARMLESS.contains(&word));
        return (!harmless).then_some("environment variables, which usually hold keys");
    }
    let public = name.ends_with(".pub");
    let key_name = ["id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "id_xmss"]
        .iter()
        .any(|start| name.strip_prefix(start).is_some_and(|rest| rest.is_empty() || rest.starts_with(['_', '-', '.'])));
    let host_key = name.starts_with("ssh_host_") && name.ends_with("_key");
    if (key_name && !public) || host_key {
        return Some("an SSH private key");
    }
    if HISTORIES.contains(&name) {
        return Some("what was typed into a shell, which may be passwords");
    }
    if ["service-account", "service_account", "serviceaccount"].iter().any(|start| name.starts_with(start))
        && name.ends_with(".json")
    {
        return Some("a service account's key");
    }
    if name.ends_with(".kubeconfig") {
        return Some("Kubernetes credentials");
    }
    if name.ends_with(".tfstate") {
        return Some("Terraform state, which holds passwords and keys in the clear");
    }
    if name.starts_with("client_secret") && name.ends_with(".json") {
        return Some("OAuth client credentials");
    }
    let extension = name.rsplit_once('.').map(|(_, extension)| extension)?;
    EXTENSIONS.contains(&extension).then_some("a private key or a store of them")
}

/// A file's name without what editors and people append to copies.
fn without_copy_mark(name: &str) -> &str {
    let mut name = name;
    loop {
        let shorter = name.trim_end_matches('~');
        let shorter = [".bak", ".old", ".orig", ".save", ".swp", ".tmp", ".backup"]
            .iter()
            .find_map(|mark| shorter.strip_suffix(mark))
            .unwrap_or(shorter);
        if shorter == name || shorter.is_empty() {
            return name;
        }
        name = shorter;
    }
}

#[cfg(test)]
mod tests {
    use super::credential_path;

    #[test]
    fn credentials_are_refused() {
        for path in [
            "/h/.ssh",
            "/h/.ssh/",
            "/h/.ssh/config",
            "~/.ssh/id_ed25519.pub",
            "/h/.SSH/known_hosts",
            ".ssh",
            "/h/.aws/credentials",
            "/h/.aws/sso/cache/x.json",
            "/h/.aws/x/../credentials",
            "/h/.ssh/../notes.txt",
            ".env",
            "a/.env",
            ".env.local",
            ".env.production",
            ".ENV",
            ".env~",
            ".env.bak",
            ".env.swp",
            ".envrc",
            "prod.env",
            "server.pem",
            "server.PEM",
            "a.p12",
            "a.pfx",
            "tls.key",
            "a.jks",
            "vault.kdbx",
            ".netrc",
            "_netrc",
            ".npmrc",
            "project/.npmrc",
            ".pypirc",
            ".git-credentials",
            "/h/.config/git/credentials",
            "id_rsa",
            "id_dsa",
            "id_ecdsa",
            "id_ed25519",
            "keys/id_rsa.bak",
            "id_rsa_work",
            "id_ed25519_sk",
            "/etc/ssh/ssh_host_rsa_key",
            "/h/.docker/config.json",
            "/h/.kube/config",
            "/h/.kube",
            "/h/.gnupg/pubring.kbx",
            "/h/.gnupg",
            "/h/.config/gcloud/application_default_credentials.json",
            "/h/.config/gcloud/legacy_credentials/me/adc.json",
            "/h/.cargo/credentials",
            "/h/.cargo/credentials.toml",
            "/h/.config/gh/hosts.yml",
            "/proc/self/environ",
            "/proc/123/environ",
            "/proc/1/task/1/environ",
            "/proc/self/mem",
            "/h/.pgpass",
            "/etc/shadow",
            "/etc//shadow",
            "/etc/./shadow",
            "/run/secrets/db",
            "C:\\Users\\me\\.ssh\\id_rsa",
            "client_secret_123.apps.json",
            "/h/.vault-token",
            "/h/.codex/auth.json",
            "project/.git/config",
            ".GIT/Config",
            ".git/credentials",
            ".git/modules/lib/config",
            ".dockercfg",
            "kubeconfig",
            "prod.kubeconfig",
            "service-account.json",
            "deploy/service-account-prod.json",
            "service_account_key.json",
            "credentials.json",
            "infra/terraform.tfstate",
            "infra/terraform.tfstate.backup",
            "prod.tfstate",
            "/h/.bash_history",
            "/h/.zsh_history",
            "/h/.local/share/fish/fish_history",
            "/h/.psql_history",
        ] {
            assert!(credential_path(path).is_some(), "{path}");
        }
    }

    #[test]
    fn others_are_not() {
        for path in [
            "",
            "/",
            ".",
            "..",
            "notes.txt",
            ".env.example",
            ".env.sample",
            ".env.template",
            ".env.local.example",
            "example.env",
            "environment.rs",
            "env",
            ".environment",
            "src/env.rs",
            "id_rsa.pub",
            "deploy/id_ed25519.pub",
            "id_rsa2.txt",
            "ssh",
            "my.ssh.md",
            "/h/.aws/notes",
            "/proc/self/status",
            "/proc/cpuinfo",
            "/h/.cargo/config.toml",
            "/h/.cargo/registry/src/x.rs",
            "key",
            "keys.rs",
            "pem",
            "/h/.docker/notes.json",
            "config.json",
            "hosts.yml",
            "monkey",
            "turnkey.md",
            "/h/.gitconfig",
            "/h/.config/gh/config.yml",
            "credentials.rs",
            "docs/credentials.md",
            "shadow",
            "/h/.pgpassword.md",
            "server.pem.md",
            "/etc/hosts",
            ".git/HEAD",
            ".gitignore",
            "git/config",
            "service-account.md",
            "main.tf",
            "history.md",
            "kubeconfig.md",
            "credentials.json.md",
        ] {
            assert_eq!(credential_path(path), None, "{path}");
        }
    }
}
