//! Which variable and configuration names speak of a secret.
//!
//! Names are compared word by word (`_`, `-`, `.`, other punctuation and camel case separate words; digits at a word's end
//! are dropped), never by substring, so that `KEYBOARD_LAYOUT` and `GIT_AUTHOR_NAME` stay what they are.
//!
//! | names | class | the value is | taken out of child environments |
//! |---|---|---|---|
//! | `OPENAI_API_KEY`, `apiKey`, `AWS_ACCESS_KEY_ID`, `GITHUB_TOKEN`, `MYSQL_PWD`, `DB_PASS`, `PGPASSWORD`, `SSHPASS`, `GITHUB_PAT`, `REDISCLI_AUTH`, `SECRET_KEY_BASE`, `..._CONNECTION_STRING`, `..._WEBHOOK_URL` | [`Value`](NameClass::Value) | masked whole | yes |
//! | `DATABASE_URL`, `REDIS_URL`, `MONGODB_URI`, `SENTRY_DSN` | [`ConnectionUrl`](NameClass::ConnectionUrl) | masked in its userinfo | yes |
//! | `OPENAI_BASE_URL`, `HTTPS_PROXY`, `TOKEN_URL` | [`Url`](NameClass::Url) | masked in its userinfo, if it has one | only then (see [`is_secret_variable`](super::is_secret_variable)) |
//! | `PGPASSFILE`, `GOOGLE_APPLICATION_CREDENTIALS`, `KUBECONFIG`, `AWS_WEB_IDENTITY_TOKEN_FILE`, `SSL_KEY_FILE` | [`Pointer`](NameClass::Pointer) | a path: left as it is | yes |
//! | `KEYBOARD_LAYOUT`, `GIT_AUTHOR_NAME`, `SSH_AUTH_SOCK`, `XAUTHORITY`, `TOKENIZERS_PARALLELISM`, `MAX_TOKENS`, `PUBLIC_KEY`, `SECRET_NAME`, `PASSWORD_MIN_LENGTH`, `GIT_ASKPASS`, `PWD` | [`Public`](NameClass::Public) | left as it is | no |

/// What a name says about the value that it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NameClass {
    /// Nothing secret.
    Public,
    /// The whole value is a secret.
    Value,
    /// An address of a store or a collector whose userinfo is a secret.
    ConnectionUrl,
    /// An address that may hold a secret in its userinfo, and usually holds none.
    Url,
    /// The value is a path or a handle that leads to a secret.
    Pointer,
}

/// Names whose words mislead.
const EXACT: &[(&str, NameClass)] = &[
    ("AWS_CONFIG_FILE", NameClass::Pointer),
    ("BOTO_CONFIG", NameClass::Pointer),
    ("DOCKER_AUTH_CONFIG", NameClass::Value),
    ("DOCKER_CONFIG", NameClass::Pointer),
    ("GOOGLE_APPLICATION_CREDENTIALS", NameClass::Pointer),
    // The official Python images hold the fingerprint of their release manager here.
    ("GPG_KEY", NameClass::Public),
    ("GPG_KEYS", NameClass::Public),
    ("KUBECONFIG", NameClass::Pointer),
    ("NETRC", NameClass::Pointer),
    ("PGPASSFILE", NameClass::Pointer),
    ("PGSERVICEFILE", NameClass::Pointer),
    ("SSHPASS", NameClass::Value),
];

/// A name with one of these words is about a secret, wherever the word stands.
const STRONG: &[&str] =
    &["SECRETS", "PASSWORDS", "PASSPHRASES", "PASSCODE", "CREDENTIAL", "CREDENTIALS", "CREDS", "APIKEYS"];

/// So is one with a word that ends like this (`PGPASSWORD`, `GHTOKEN`).
const STRONG_ENDINGS: &[&str] =
    &["PASSWORD", "PASSWD", "PASSPHRASE", "SECRET", "APIKEY", "SECRETKEY", "ACCESSKEY", "PRIVATEKEY"];

/// Words that make a following KEY secret, even when more words follow.
const KEY_MAKERS: &[&str] =
    &["API", "ACCESS", "PRIVATE", "SECRET", "ENCRYPTION", "SIGNING", "MASTER", "ACCOUNT", "DEPLOY", "SERVICE"];

/// Words before a final KEY that make it something else.
const HARMLESS_KEYS: &[&str] = &[
    "PUBLIC",
    "PUB",
    "SORT",
    "PRIMARY",
    "FOREIGN",
    "PARTITION",
    "CACHE",
    "OBJECT",
    "ROUTING",
    "COMPOSE",
    "MODIFIER",
    "HOT",
    "INDEX",
    "GROUP",
    "IDEMPOTENCY",
    "LOOKUP",
    "PUBLISHABLE",
];

/// Words before TOKEN or TOKENS that make them pieces of text.
const COUNTED_TOKENS: &[&str] = &[
    "MAX",
    "MIN",
    "NUM",
    "N",
    "COUNT",
    "TOTAL",
    "INPUT",
    "OUTPUT",
    "CONTEXT",
    "BUDGET",
    "PROMPT",
    "COMPLETION",
    "THINKING",
    "REASONING",
    "CACHED",
    "STOP",
    "EOS",
    "BOS",
    "PAD",
    "UNK",
    "MASK",
    "SEP",
    "CLS",
    "SPECIAL",
    "ADDED",
];

/// Final words that say: this is about a secret, not one.
const PUBLIC_ENDINGS: &[&str] = &[
    "NAME",
    "NAMES",
    "LIMIT",
    "LIMITS",
    "COUNT",
    "TTL",
    "TIMEOUT",
    "EXPIRY",
    "EXPIRES",
    "EXPIRATION",
    "INTERVAL",
    "TYPE",
    "LENGTH",
    "LEN",
    "SIZE",
    "HOST",
    "PORT",
    "REGION",
    "VERSION",
    "ENABLED",
    "DISABLED",
    "REQUIRED",
    "ALGORITHM",
    "ALG",
    "METHOD",
    "MODE",
    "PROVIDER",
    "POLICY",
    "ISSUER",
    "AUDIENCE",
    "PREFIX",
    "FORMAT",
    "LAYOUT",
    "RATE",
    "ARN",
    "SCOPE",
    "SCOPES",
    "BACKEND",
    "ROTATION",
    "SOCK",
    "PARALLELISM",
];

/// Final words that say: the value leads to a secret.
const POINTER_ENDINGS: &[&str] =
    &["FILE", "FILES", "PATH", "DIR", "DIRECTORY", "FOLDER", "LOCATION", "KEYFILE", "PASSFILE"];

/// Final words that change nothing (`SECRET_KEY_BASE64`, `API_KEY_PROD`).
const QUALIFIERS: &[&str] = &[
    "BASE",
    "B",
    "PEM",
    "HEX",
    "RAW",
    "JSON",
    "VALUE",
    "STRING",
    "TEXT",
    "PROD",
    "PRODUCTION",
    "DEV",
    "DEVELOPMENT",
    "STAGING",
    "TEST",
    "LIVE",
    "OLD",
    "NEW",
    "CURRENT",
    "PREVIOUS",
    "PRIMARY",
    "SECONDARY",
    "DEFAULT",
    "ID",
    "HEADER",
];

/// Systems whose address usually carries a password.
const STORES: &[&str] = &[
    "DATABASE",
    "DB",
    "POSTGRES",
    "POSTGRESQL",
    "PG",
    "MYSQL",
    "MARIADB",
    "MSSQL",
    "SQLSERVER",
    "ORACLE",
    "COCKROACH",
    "REDIS",
    "VALKEY",
    "KV",
    "MONGO",
    "MONGODB",
    "AMQP",
    "CLOUDAMQP",
    "RABBITMQ",
    "BROKER",
    "CELERY",
    "KAFKA",
    "NATS",
    "ELASTICSEARCH",
    "ELASTIC",
    "OPENSEARCH",
    "CLICKHOUSE",
    "CASSANDRA",
    "NEO",
    "JDBC",
    "SQLALCHEMY",
    "MEMCACHED",
    "MEMCACHE",
    "SMTP",
    "LDAP",
    "CONNECTION",
];

/// What `name` (of a variable or of a configuration key, in any case) says about its value.
pub fn classify_name(name: &str) -> NameClass {
    let upper = name.to_ascii_uppercase();
    if let Some((_, class)) = EXACT.iter().find(|(exact, _)| *exact == upper) {
        return *class;
    }
    let words = words(name);
    let Some(last) = words.last().map(String::as_str) else { return NameClass::Public };
    let has = |word: &str| words.iter().any(|w| w == word);
    if has("CONNSTR")
        || has("CONNECTIONSTRING")
        || words.windows(2).any(|w| w[0] == "CONNECTION" && (w[1] == "STRING" || w[1] == "STRINGS"))
    {
        return NameClass::Value;
    }
    match last {
        "DSN" => return NameClass::ConnectionUrl,
        "URL" | "URI" | "URLS" | "PROXY" | "ENDPOINT" => {
            if has("WEBHOOK") || has("WEBHOOKS") {
                return NameClass::Value;
            }
            let store = words.iter().any(|w| STORES.contains(&w.as_str()));
            return if store { NameClass::ConnectionUrl } else { NameClass::Url };
        }
        _ => {}
    }
    if PUBLIC_ENDINGS.contains(&last) {
        return NameClass::Public;
    }
    let pointer = POINTER_ENDINGS.contains(&last);
    let about = if pointer && words.len() > 1 { &words[..words.len() - 1] } else { &words[..] };
    match (speaks_of_a_secret(about), pointer) {
        (false, _) => NameClass::Public,
        (true, true) => NameClass::Pointer,
        (true, false) => NameClass::Value,
    }
}

/// Whether a variable called `name` is kept from child processes.
///
/// True for every [`NameClass`] but [`Public`](NameClass::Public) and [`Url`](NameClass::Url).
pub fn is_secret_name(name: &str) -> bool {
    !matches!(classify_name(name), NameClass::Public | NameClass::Url)
}

fn speaks_of_a_secret(words: &[String]) -> bool {
    let mut words = words;
    while let [rest @ .., last] = words
        && !rest.is_empty()
        && QUALIFIERS.contains(&last.as_str())
    {
        words = rest;
    }
    let strong = words.iter().enumerate().any(|(at, word)| {
        let before = at.checked_sub(1).map(|i| words[i].as_str());
        if word.ends_with("TOKEN") {
            return before.is_none_or(|b| !COUNTED_TOKENS.contains(&b));
        }
        STRONG.contains(&word.as_str()) || STRONG_ENDINGS.iter().any(|ending| word.ends_with(ending))
    });
    let made = |pair: &[String]| KEY_MAKERS.contains(&pair[0].as_str()) && (pair[1] == "KEY" || pair[1] == "KEYS");
    if strong || words.windows(2).any(made) {
        return true;
    }
    let Some((last, rest)) = words.split_last() else { return false };
    let before = rest.last().map(String::as_str);
    match last.as_str() {
        "KEY" | "KEYS" => before.is_none_or(|b| !HARMLESS_KEYS.contains(&b)),
        "TOKENS" => before.is_some_and(|b| !COUNTED_TOKENS.contains(&b)),
        "AUTH" | "AUTHORIZATION" | "COOKIE" | "COOKIES" | "JWT" => true,
        "PASS" | "PWD" | "PW" | "PAT" | "SALT" => before.is_some(),
        _ => false,
    }
}

/// The words of a name in upper case, without digits at their ends.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let chars: Vec<char> = name.chars().collect();
    for (i, &c) in chars.iter().enumerate() {
        if !c.is_alphanumeric() {
            words.push(String::new());
            continue;
        }
        let before = i.checked_sub(1).map(|j| chars[j]);
        let after = chars.get(i + 1);
        // `apiKey` turns at the K; `APIKey` too, because a small letter follows.
        let turn = c.is_uppercase()
            && before
                .is_some_and(|b| b.is_lowercase() || (b.is_uppercase() && after.is_some_and(|a| a.is_lowercase())));
        if turn {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut() {
            word.extend(c.to_uppercase());
        }
    }
    for word in &mut words {
        let kept = word.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        word.truncate(kept);
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::NameClass::{ConnectionUrl, Pointer, Public, Url, Value};
    use super::*;

    #[test]
    fn every_row_of_the_table() {
        let rows: &[(NameClass, &[&str])] = &[
            (
                Value,
                &[
                    "OPENAI_API_KEY",
                    "openai_api_key",
                    "apiKey",
                    "APIKey",
                    "api-key",
                    "AWS_ACCESS_KEY_ID",
                    "AWS_SECRET_ACCESS_KEY",
                    "AWS_SESSION_TOKEN",
                    "GITHUB_TOKEN",
                    "GH_TOKEN",
                    "GHTOKEN",
                    "TOKEN_GITHUB",
                    "MYSQL_PWD",
                    "DB_PASS",
                    "DB_PW",
                    "PGPASSWORD",
                    "SSHPASS",
                    "GITHUB_PAT",
                    "REDISCLI_AUTH",
                    "SECRET_KEY_BASE",
                    "AZURE_STORAGE_CONNECTION_STRING",
                    "ConnectionStrings__Default",
                    "SLACK_WEBHOOK_URL",
                    "API_KEY_2",
                    "API_KEY_PROD",
                    "STRIPE_KEY_LIVE",
                    "SSH_PRIVATE_KEY",
                    "PRIVATE_KEY_BASE64",
                    "CLIENT_SECRET",
                    "clientSecret",
                    "npm_config_//registry.npmjs.org/:_authToken",
                    "BORG_PASSPHRASE",
                    "KEY",
                    "TOKEN",
                    "PASSWORD",
                    "HTTP_AUTH",
                    "API_TOKENS",
                    "SESSION_COOKIE",
                    "AWS_CREDENTIALS",
                    "GOOGLE_APPLICATION_CREDENTIALS_JSON",
                    "DOCKER_AUTH_CONFIG",
                    "KEYSTORE_PASSWORD",
                    "SUPABASE_JWT",
                    "API_KEY_OPENAI",
                    "HF_TOKEN",
                    "RESTIC_PASSWORD",
                    "WANDB_API_KEY",
                ],
            ),
            (
                ConnectionUrl,
                &[
                    "DATABASE_URL",
                    "database-url",
                    "REDIS_URL",
                    "MONGODB_URI",
                    "SENTRY_DSN",
                    "CELERY_BROKER_URL",
                    "PG_DSN",
                ],
            ),
            (Url, &["OPENAI_BASE_URL", "HTTPS_PROXY", "http_proxy", "TOKEN_URL", "OTEL_EXPORTER_OTLP_ENDPOINT"]),
            (
                Pointer,
                &[
                    "PGPASSFILE",
                    "GOOGLE_APPLICATION_CREDENTIALS",
                    "KUBECONFIG",
                    "AWS_WEB_IDENTITY_TOKEN_FILE",
                    "SSL_KEY_FILE",
                    "AWS_SHARED_CREDENTIALS_FILE",
                    "SECRETS_DIR",
                    "POSTGRES_PASSWORD_FILE",
                    "SSH_KEY_PATH",
                    "DOCKER_CONFIG",
                ],
            ),
            (
                Public,
                &[
                    "KEYBOARD_LAYOUT",
                    "GIT_AUTHOR_NAME",
                    "SSH_AUTH_SOCK",
                    "XAUTHORITY",
                    "TOKENIZERS_PARALLELISM",
                    "MAX_TOKENS",
                    "OPENAI_MAX_TOKENS",
                    "PUBLIC_KEY",
                    "SECRET_NAME",
                    "PASSWORD_MIN_LENGTH",
                    "GIT_ASKPASS",
                    "SSH_ASKPASS",
                    "PWD",
                    "OLDPWD",
                    "PASS",
                    "GPG_KEY",
                    "MONKEY",
                    "COMPASS_HOME",
                    "SORT_KEY",
                    "TOKEN_LIMIT",
                    "EOS_TOKEN",
                    "PATH",
                    "HOME",
                    "LANG",
                    "",
                    "___",
                    "AUTHORS",
                    "AUTHOR_EMAIL",
                    "XDG_CONFIG_DIRS",
                    "SSL_CERT_FILE",
                    "PRIVATE_NETWORK",
                    "GOPRIVATE",
                    "TOKEN_EXPIRY",
                    "LESSKEY",
                    "DBUS_SESSION_BUS_ADDRESS",
                    "CARGO_TARGET_DIR",
                    "NODE_ENV",
                ],
            ),
        ];
        for (class, names) in rows {
            for name in *names {
                assert_eq!(classify_name(name), *class, "{name:?} splits into {:?}", words(name));
                assert_eq!(is_secret_name(name), !matches!(class, Public | Url), "{name}");
            }
        }
    }
}
