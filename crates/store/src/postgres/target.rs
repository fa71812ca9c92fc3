//! Where the server is, as its URL says, and what may be told of it.

use crate::error::{Result, StoreError};
use std::fmt;
use std::str::FromStr as _;
use std::time::Duration;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

/// How long one attempt to reach the server may take.
const CONNECT: Duration = Duration::from_secs(10);

/// How long a connection may be silent before it is probed, and how long a probe or a sent byte may stay unanswered.
/// Without them a server that vanished from the network would be missed after hours.
const SILENT: Duration = Duration::from_secs(15);
const UNANSWERED: Duration = Duration::from_secs(30);

/// A server and a database of it. Shows no password: neither does anything made of it.
#[derive(Clone)]
pub(super) struct Target {
    config: Config,
    place: String,
}

impl Target {
    /// Reads a URL (`postgres://user:password@host:port/database?…`) or a list of `name=value`.
    pub(super) fn read(url: &str) -> Result<Self> {
        let mut config = Config::from_str(url).map_err(|error| unreadable(url, &error))?;
        if config.get_ssl_mode() == SslMode::Require {
            return Err(no_tls());
        }
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(misuse("it names no host"));
        }
        // A password in a wrong place must not come out as part of a host's name.
        if config.get_hosts().iter().any(|host| matches!(host, Host::Tcp(name) if !is_name(name))) {
            return Err(misuse(
                "its host is no name or address; a password with special characters is percent-encoded",
            ));
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(UNANSWERED);
        }
        if config.get_keepalives_interval().is_none() {
            config.keepalives_idle(SILENT).keepalives_interval(SILENT);
        }
        // Of several servers only one takes writes.
        if config.get_hosts().len() > 1 && config.get_target_session_attrs() == TargetSessionAttrs::Any {
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        let place = place(&config);
        Ok(Target { config, place })
    }

    /// Host, port and database, for people.
    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// What a connection is opened with; it is seen on the server as `name`, unless the URL gives another.
    pub(super) fn config(&self, name: &str) -> Config {
        let mut config = self.config.clone();
        if config.get_application_name().is_none() {
            config.application_name(name);
        }
        config
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.place)
    }
}

fn misuse(problem: &str) -> StoreError {
    let problem = format!(
        "the address of PostgreSQL cannot be used: {problem}; expected is postgres://user:password@host:port/database"
    );
    StoreError::Misuse { problem }
}

fn no_tls() -> StoreError {
    let problem = "the address of PostgreSQL asks for TLS, which this program does not speak to PostgreSQL: say \
                   sslmode=disable or sslmode=prefer on a network that you trust, or go through a tunnel or a unix socket";
    StoreError::Misuse { problem: problem.to_owned() }
}

// The reader's own words are told only where they cannot hold a piece of the URL, which may hold a password.
fn unreadable(url: &str, error: &tokio_postgres::Error) -> StoreError {
    let cause = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    let asks_tls = ["sslmode=verify", "sslmode = verify", "sslmode='verify"].iter().any(|words| url.contains(words));
    if asks_tls && cause.contains("sslmode") {
        return no_tls();
    }
    if cause.starts_with("invalid value for option") { misuse(&cause) } else { misuse("it cannot be read") }
}

fn is_name(host: &str) -> bool {
    !host.is_empty() && host.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '%'))
}

fn place(config: &Config) -> String {
    let ports = config.get_ports();
    let port = |index: usize| ports.get(index).or(ports.first()).copied().unwrap_or(5432);
    let mut hosts: Vec<String> = config
        .get_hosts()
        .iter()
        .enumerate()
        .map(|(index, host)| match host {
            Host::Tcp(name) => format!("{name}:{}", port(index)),
            #[cfg(unix)]
            Host::Unix(folder) => format!("{}:{}", folder.display(), port(index)),
        })
        .collect();
    if hosts.is_empty() {
        hosts =
            config.get_hostaddrs().iter().enumerate().map(|(at, address)| format!("{address}:{}", port(at))).collect();
    }
    let database = config.get_dbname().or(config.get_user()).unwrap_or_default();
    format!("{}/{database}", hosts.join(","))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn a_place_is_told_without_its_password() {
        for (url, place) in [
            ("postgres://ann:hunter2@db.example:5433/agents", "db.example:5433/agents"),
            ("postgres://ann:hunter2@db.example", "db.example:5432/ann"),
            ("postgres://ann:hunter2@a:1,b:2/x?sslmode=prefer", "a:1,b:2/x"),
            ("host=db user=ann password=hunter2 dbname=x", "db:5432/x"),
            ("postgres://ann:hunter2@%2Frun%2Fpg/x", "/run/pg:5432/x"),
        ] {
            let target = Target::read(url).unwrap();
            assert_eq!(target.place(), place);
            assert!(!format!("{target:?} {:?}", target.config("name")).contains("hunter2"));
        }
    }

    #[test]
    fn an_address_that_asks_for_tls_is_refused_with_a_way_out() {
        for mode in ["require", "verify-ca", "verify-full"] {
            let error = Target::read(&format!("postgres://ann:hunter2@db/x?sslmode={mode}")).unwrap_err().to_string();
            assert!(error.contains("asks for TLS") && error.contains("sslmode=disable"), "{error}");
        }
    }

    #[test]
    fn an_error_holds_no_piece_of_an_address() {
        for url in [
            "postgres://ann@db/x?hunter2=1",
            "postgres://ann:hunter2/more@db/x",
            "postgres://ann:1/hunter2@db/x",
            "postgres://ann:a@hunter2 b@db/x",
            "postgres://ann:hunter2@db:port/x",
            "postgres://ann:hunter2@db/x?sslmode=sometimes",
            "hunter2",
            "hunter2=hunter2",
            "password=hunter2",
            "postgres://hunter2@",
        ] {
            match Target::read(url) {
                Ok(target) => assert!(!target.place().contains("hunter2"), "{url}: {}", target.place()),
                Err(error) => {
                    assert!(!format!("{error} {error:?}").contains("hunter2"), "{url}: {error}");
                    assert!(error.to_string().contains("the address of PostgreSQL"), "{error}");
                }
            }
        }
    }
}
