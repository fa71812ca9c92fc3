//! What every command stands on: the environment, the store, and who knows which secrets.

use crate::args::Global;
use crate::failure::{Code, Failure};
use crate::output::Output;
use crate::{home, vars};
use placet_core::redact::SecretRegistry;
use placet_core::{Env, Redactor, RunId, Secret};
use placet_observe::{ListedRun, RunStanding, list_runs};
use placet_store::{SharedStore, SqliteOptions, SqliteStore, Tenant};
use std::path::PathBuf;
use std::sync::Arc;

/// How many runs one read of the list gives.
const PAGE: usize = 1_000;

/// What every command stands on.
pub(crate) struct House {
    pub(crate) env: Env,
    pub(crate) output: Output,
    pub(crate) tenant: Tenant,
    pub(crate) home: PathBuf,
    /// The URL of a database, where runs are kept in one; it may hold a password.
    store: Option<Secret>,
    pub(crate) redactor: Redactor,
}

impl House {
    pub(crate) fn new(global: &Global) -> Result<Self, Failure> {
        let mut secrets = SecretRegistry::new();
        secrets.register_environment(vars::all());
        Ok(House {
            env: Env::system(),
            output: Output::new(global.json, global.color, vars::var(vars::NO_COLOR).is_some()),
            // A person's own runs; the gateway has tenants of its own.
            tenant: Tenant::new("local"),
            home: home::locate(global.home.as_deref())?,
            store: global
                .store
                .clone()
                .or_else(|| vars::var(vars::PLACET_STORE))
                .map(|url| Secret::new(vars::PLACET_STORE, url)),
            redactor: secrets.redactor(),
        })
    }

    pub(crate) fn store_path(&self) -> PathBuf {
        self.home.join(home::STORE_FILE)
    }

    /// Where things are kept, in a word.
    pub(crate) fn place(&self) -> String {
        if self.store.is_some() { "the database".to_owned() } else { self.store_path().display().to_string() }
    }

    /// Whether there may be runs: a database always may have some, a file only once it is there.
    pub(crate) fn has_store(&self) -> bool {
        self.store.is_some() || self.store_path().exists()
    }

    /// The store, made if there is none yet.
    pub(crate) async fn open_store(&self) -> Result<SharedStore, Failure> {
        if let Some(url) = &self.store {
            return self.connect(url).await;
        }
        home::ensure(&self.home)?;
        home::is_no_folder(&self.store_path())?;
        let store = SqliteStore::open(self.store_path(), SqliteOptions::new(self.env.clock().clone()))?;
        Ok(Arc::new(store))
    }

    /// What is damaged in the store's file, if it is one.
    pub(crate) async fn damage(&self) -> Result<Vec<String>, Failure> {
        if self.store.is_some() {
            return Ok(Vec::new());
        }
        let store = SqliteStore::open(self.store_path(), SqliteOptions::new(self.env.clock().clone()))?;
        Ok(store.damage().await?)
    }

    #[cfg(feature = "postgres")]
    pub(crate) async fn connect(&self, url: &Secret) -> Result<SharedStore, Failure> {
        let options = placet_store::PostgresOptions::default();
        Ok(Arc::new(placet_store::PostgresStore::connect(url.expose(), options, &self.env).await?))
    }

    #[cfg(not(feature = "postgres"))]
    pub(crate) async fn connect(&self, _url: &Secret) -> Result<SharedStore, Failure> {
        Err(Failure::new(Code::Usage, "this program was built without PostgreSQL")
            .hint("leave --store out, or build it with the feature `postgres`"))
    }

    /// The store for a command that only reads; that there is none yet is no error of the store's.
    pub(crate) async fn existing_store(&self) -> Result<SharedStore, Failure> {
        if self.has_store() {
            return self.open_store().await;
        }
        Err(Failure::new(Code::NotFound, format!("there are no runs in {} yet", self.home.display()))
            .hint("`placet run \"…\"` makes the first one; --home names another folder"))
    }

    /// The run that `given` names: its id, the start of it, or `last`.
    pub(crate) async fn find_run(&self, store: &SharedStore, given: &str) -> Result<RunId, Failure> {
        if let Ok(id) = RunId::parse(given)
            // Not by reading a record: what cannot be read is there all the same.
            && store.log_head(&placet_observe::layout::journal(&self.tenant, &id)).await?.number > 0
        {
            return Ok(id);
        }
        let mut runs: Vec<ListedRun> = Vec::new();
        loop {
            let page = list_runs(&**store, &self.tenant, runs.last().map(|run| &run.entry), PAGE).await?;
            let more = page.len() == PAGE && given != "last";
            runs.extend(page);
            if !more {
                break;
            }
        }
        if given == "last" {
            return runs.first().map(|run| run.entry.run.clone()).ok_or_else(|| {
                Failure::new(Code::NotFound, "there are no runs yet").hint("`placet run \"…\"` makes the first one")
            });
        }
        let begins = |run: &&ListedRun| {
            let id = run.entry.run.as_str();
            id.starts_with(given) || id.strip_prefix("run_").is_some_and(|body| body.starts_with(given))
        };
        let mut found = runs.iter().filter(begins);
        match (found.next(), found.next()) {
            (Some(run), None) => Ok(run.entry.run.clone()),
            (Some(one), Some(other)) => Err(Failure::new(
                Code::Usage,
                format!("{given:?} is the start of several runs, {} and {} among them", one.entry.run, other.entry.run),
            )
            .hint("give more of the id")),
            (None, _) => Err(Failure::new(Code::NotFound, format!("there is no run {given:?}"))
                .hint("`placet runs list` shows the runs there are")),
        }
    }
}

/// How a run stands, in a word or two.
pub(crate) fn standing(standing: &RunStanding) -> String {
    match standing {
        RunStanding::Running { owner, .. } => format!("running ({owner})"),
        RunStanding::Interrupted => "interrupted".to_owned(),
        RunStanding::Ended { end } => end.to_string(),
    }
}
