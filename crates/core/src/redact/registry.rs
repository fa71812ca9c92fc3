//! Which values are secrets.

use super::names::{NameClass, classify_name, is_secret_name};
use super::{MARK, Redactor, shapes};
use crate::secret::Secret;
use std::collections::HashSet;

/// The least length of a known value, in bytes. Shorter ones would take innocent text with them.
pub const LEAST_LENGTH: usize = 8;

/// Values that are no secrets although they stand where secrets do. Compared without regard to case.
const PUBLIC_VALUES: &[&str] = &[
    "changeit",
    "changeme",
    "default",
    "development",
    "disabled",
    "enabled",
    "example",
    "localhost",
    "optional",
    "password",
    "passphrase",
    "postgres",
    "postgresql",
    "production",
    "redacted",
    "required",
    "sandbox",
    "staging",
    "undefined",
    "unlimited",
    "username",
];

/// What became of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Registration {
    /// It is looked for from now on.
    Added,
    /// It was known already.
    Known,
    /// It is shorter than [`LEAST_LENGTH`] and is not looked for.
    TooShort,
    /// It is on the list of values that are no secrets, or part of the mask itself, and is not looked for.
    Allowed,
}

/// Collects the secrets of a process from its configuration, its environment and its code.
#[derive(Clone, Debug, Default)]
pub struct SecretRegistry {
    secrets: Vec<Secret>,
    allowed: HashSet<String>,
}

impl SecretRegistry {
    /// An empty registry.
    pub fn new() -> Self {
        SecretRegistry::default()
    }

    /// Says that `value` is no secret, whatever its name or shape: known values and shapes alike leave it alone.
    pub fn allow(&mut self, value: impl Into<String>) {
        let value = value.into();
        self.secrets.retain(|secret| secret.expose() != value);
        self.allowed.insert(value);
    }

    /// Looks for `secret` from now on. White space around the value is not part of it.
    pub fn register(&mut self, secret: Secret) -> Registration {
        let value = secret.expose().trim();
        if value.len() < LEAST_LENGTH {
            return Registration::TooShort;
        }
        let public = PUBLIC_VALUES.iter().any(|public| public.eq_ignore_ascii_case(value));
        if public || MARK.contains(value) || self.allowed.contains(value) {
            return Registration::Allowed;
        }
        if self.secrets.iter().any(|known| known.matches(value)) {
            return Registration::Known;
        }
        let secret = if value.len() == secret.expose().len() { secret } else { Secret::new(secret.name(), value) };
        self.secrets.push(secret);
        Registration::Added
    }

    /// Takes the secrets out of variables or configuration entries, by their names (the table of [`classify_name`]): whole
    /// values, or what stands in an address's userinfo. Returns how many were added.
    pub fn register_environment<N, V>(&mut self, variables: impl IntoIterator<Item = (N, V)>) -> usize
    where
        N: AsRef<str>,
        V: AsRef<str>,
    {
        let before = self.secrets.len();
        for (name, value) in variables {
            let (name, value) = (name.as_ref(), value.as_ref());
            let class = classify_name(name);
            if class == NameClass::Value && !is_location(value) {
                self.register(Secret::new(name, value));
            }
            if class != NameClass::Pointer
                && let Some(secret) = shapes::userinfo_secret(value)
            {
                self.register(Secret::new(name, secret));
                if let Some(decoded) = percent_decoded(secret) {
                    self.register(Secret::new(name, decoded));
                }
            }
        }
        self.secrets.len() - before
    }

    /// The names of the secrets, in the order in which they came.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.secrets.iter().map(Secret::name)
    }

    /// How many values are looked for.
    pub fn len(&self) -> usize {
        self.secrets.len()
    }

    /// True when no value is looked for; shapes still are.
    pub fn is_empty(&self) -> bool {
        self.secrets.is_empty()
    }

    /// A redactor for what is registered now.
    pub fn redactor(&self) -> Redactor {
        Redactor::new(self.secrets.clone(), self.allowed.clone())
    }
}

/// Whether a variable is kept from child processes: by its name, or because its value holds a password or has the shape of a
/// credential.
pub fn is_secret_variable(name: &str, value: &str) -> bool {
    is_secret_name(name) || shapes::userinfo_secret(value).is_some() || {
        let mut spans = Vec::new();
        shapes::scan(value.as_bytes(), 0, true, &mut spans);
        !spans.is_empty()
    }
}

/// Whether a value is a path: `SSH_KEY=/home/me/.ssh/id_rsa` names a file, and a file's name is needed to speak about it. Only
/// well-known roots count, because a random value may well begin with a slash.
fn is_location(value: &str) -> bool {
    const ROOTS: &[&str] = &[
        "/home/",
        "/root/",
        "/etc/",
        "/var/",
        "/run/",
        "/usr/",
        "/opt/",
        "/tmp/",
        "/mnt/",
        "/Users/",
        "/private/",
        "/srv/",
        "/dev/",
        "/proc/",
        "/secrets/",
        "~/",
        "./",
        "../",
        "C:\\",
    ];
    ROOTS.iter().any(|root| value.starts_with(root))
}

/// `text` with `%XX` replaced; `None` when there is none, or what comes out is no text.
fn percent_decoded(text: &str) -> Option<String> {
    let digit = |b: u8| char::from(b).to_digit(16).and_then(|d| u8::try_from(d).ok());
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let decoded = match bytes[at..] {
            [b'%', high, low, ..] => digit(high).zip(digit(low)).map(|(high, low)| high << 4 | low),
            _ => None,
        };
        out.push(decoded.unwrap_or(bytes[at]));
        at += if decoded.is_some() { 3 } else { 1 };
    }
    String::from_utf8(out).ok().filter(|decoded| decoded != text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(registry: &SecretRegistry) -> Vec<(&str, &str)> {
        registry.secrets.iter().map(|secret| (secret.name(), secret.expose())).collect()
    }

    #[test]
    fn environment_is_read_by_names() {
        let mut registry = SecretRegistry::new();
        let added = registry.register_environment([
            ("OPENAI_API_KEY", "a-key-of-some-kind"),
            ("OTHER_TOKEN", "a-key-of-some-kind"),
            ("SHORT_TOKEN", "1234567"),
            ("DB_PASSWORD", "Postgres"),
            ("KEYBOARD_LAYOUT", "us-international"),
            ("GIT_AUTHOR_NAME", "Ada Lovelace"),
            ("SSH_AUTH_SOCK", "/tmp/agent.sock"),
            ("XAUTHORITY", "/home/ada/.Xauthority"),
            ("TOKENIZERS_PARALLELISM", "false-but-long"),
            ("DATABASE_URL", "postgres://ada:p%40ss-word@db:5432/app"),
            ("MYSQL_PWD", "  mysql-password\n"),
            ("PGPASSFILE", "/home/ada/.pgpass"),
            ("SENTRY_DSN", "https://0123456789abcdef0123456789abcdef@o1.ingest.sentry.io/2"),
            ("HTTPS_PROXY", "http://proxy-user:proxy-password@proxy:3128"),
            ("OPENAI_BASE_URL", "https://example.com/v1"),
            ("SSH_KEY", "/home/ada/.ssh/id_ed25519"),
        ]);
        assert_eq!(
            values(&registry),
            [
                ("OPENAI_API_KEY", "a-key-of-some-kind"),
                ("DATABASE_URL", "p%40ss-word"),
                ("DATABASE_URL", "p@ss-word"),
                ("MYSQL_PWD", "mysql-password"),
                ("SENTRY_DSN", "0123456789abcdef0123456789abcdef"),
                ("HTTPS_PROXY", "proxy-password"),
            ]
        );
        assert_eq!((added, registry.len()), (6, 6));
        assert_eq!(registry.names().next(), Some("OPENAI_API_KEY"));
    }

    #[test]
    fn says_what_became_of_a_value() {
        let mut registry = SecretRegistry::new();
        registry.allow("not-a-secret-at-all");
        for (value, expected) in [
            ("1234567", Registration::TooShort),
            ("   1234567   ", Registration::TooShort),
            ("12345678", Registration::Added),
            ("12345678", Registration::Known),
            ("ChangeMe", Registration::Allowed),
            ("redacted", Registration::Allowed),
            ("[redacted", Registration::Allowed),
            ("not-a-secret-at-all", Registration::Allowed),
        ] {
            assert_eq!(registry.register(Secret::new("x", value)), expected, "{value}");
        }
        registry.allow("12345678");
        assert!(registry.is_empty());
    }

    #[test]
    fn child_variables_are_judged_by_name_and_value() {
        for (name, value, secret) in [
            ("OPENAI_API_KEY", "", true),
            ("PGPASSFILE", "/x", true),
            ("DATABASE_URL", "sqlite://x", true),
            ("HTTPS_PROXY", "http://proxy:3128", false),
            ("HTTPS_PROXY", "http://u:some-password@proxy:3128", true),
            ("INNOCENT", "ghp_abcdefghijklmnopqrstuvwxyz0123456789", true),
            ("SSH_AUTH_SOCK", "/tmp/ssh-x/agent.1", false),
            ("LANG", "en_GB.UTF-8", false),
            ("PATH", "/usr/bin:/bin", false),
        ] {
            assert_eq!(is_secret_variable(name, value), secret, "{name}={value}");
        }
    }
}
