//! What a board is to be.

use crate::boards::OnClosed;
use crate::content::Content;
use crate::error::{BoardError, Result};
use crate::model::{Region, RegionKind};
use crate::name::Quoted;
use crate::notify::Agent;
use crate::rules::{AdmissionRule, StoredRules, TerminationPredicate};
use crate::run::{Limits, Outcome};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// What a board is to be: its regions with the opening values of its premises, its rules and limits, the agents it starts with.
#[derive(Clone)]
#[non_exhaustive]
pub struct BoardSpec {
    /// The regions.
    pub regions: Vec<Region>,
    /// The opening value of every premise.
    pub openings: BTreeMap<String, Content>,
    /// The agents that the run starts with.
    pub agents: Vec<Agent>,
    /// The limits of the run.
    pub limits: Limits,
    /// Rules as data, which stand with the board. Where there is none here, those that stand there stay.
    pub rules: StoredRules,
    /// The admission rule of this process; where there is none here, the one that it has stays.
    pub admission: Option<Arc<dyn AdmissionRule>>,
    /// The termination predicate of this process; where there is none here, the one that it has stays. While the run is open,
    /// other processes leave its settling to those that have one.
    pub termination: Option<Arc<dyn TerminationPredicate>>,
    /// Hears once how the run closed, in this process.
    pub on_closed: Option<OnClosed>,
}

impl BoardSpec {
    /// A board without regions.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        BoardSpec {
            regions: Vec::new(),
            openings: BTreeMap::new(),
            agents: Vec::new(),
            limits,
            rules: StoredRules::default(),
            admission: None,
            termination: None,
            on_closed: None,
        }
    }

    /// Adds a region. A premise needs an opening value too.
    #[must_use]
    pub fn region(mut self, region: Region) -> Self {
        self.regions.push(region);
        self
    }

    /// Sets the opening value of a premise.
    #[must_use]
    pub fn opening(mut self, premise: impl Into<String>, value: Content) -> Self {
        self.openings.insert(premise.into(), value);
        self
    }

    /// Adds a premise with its opening value.
    #[must_use]
    pub fn premise(self, name: impl Into<Arc<str>>, value: Content) -> Self {
        let name = name.into();
        self.region(Region::premise(name.clone())).opening(&*name, value)
    }

    /// Adds an agent that the run starts with.
    #[must_use]
    pub fn agent(mut self, agent: Agent) -> Self {
        self.agents.push(agent);
        self
    }

    /// Sets the rules that stand with the board.
    #[must_use]
    pub fn rules(mut self, rules: StoredRules) -> Self {
        self.rules = rules;
        self
    }

    /// Sets the admission rule of this process.
    #[must_use]
    pub fn admission(mut self, rule: Arc<dyn AdmissionRule>) -> Self {
        self.admission = Some(rule);
        self
    }

    /// Sets the termination predicate of this process.
    #[must_use]
    pub fn termination(mut self, predicate: Arc<dyn TerminationPredicate>) -> Self {
        self.termination = Some(predicate);
        self
    }

    /// Sets who hears once how the run closed, in this process.
    #[must_use]
    pub fn on_closed(mut self, hear: impl Fn(&Outcome) + Send + Sync + 'static) -> Self {
        self.on_closed = Some(Arc::new(hear));
        self
    }

    /// Checks what can be known without looking at the store.
    ///
    /// # Errors
    /// [`BoardError::DuplicateRegion`], [`BoardError::Premises`], [`BoardError::DuplicateAgent`],
    /// [`BoardError::UnknownRegion`], [`BoardError::WrongRegionKind`], [`BoardError::InvalidSpec`],
    /// [`BoardError::InvalidName`].
    pub fn check(&self) -> Result<()> {
        self.check_all_but_openings().and_then(|kinds| self.check_openings(&kinds))
    }

    pub(super) fn check_all_but_openings(&self) -> Result<BTreeMap<&str, RegionKind>> {
        self.limits.check()?;
        self.rules.check()?;
        let mut kinds = BTreeMap::new();
        for region in &self.regions {
            super::agents::check_region(region)?;
            if kinds.insert(&*region.name, region.kind).is_some() {
                return Err(BoardError::DuplicateRegion { region: region.name.to_string() });
            }
        }
        super::agents::check_agent_count(self.agents.len())?;
        let mut names = BTreeSet::new();
        for agent in &self.agents {
            if !names.insert(&agent.name) {
                return Err(BoardError::DuplicateAgent { agent: agent.name.clone() });
            }
            super::agents::check_agent(agent, |region| kinds.get(region).copied())?;
        }
        Ok(kinds)
    }

    fn check_openings(&self, kinds: &BTreeMap<&str, RegionKind>) -> Result<()> {
        let quoted =
            |names: Vec<&str>| names.iter().map(|name| Quoted(name).to_string()).collect::<Vec<_>>().join(", ");
        let premises = kinds.iter().filter(|(_, kind)| **kind == RegionKind::Premise).map(|(name, _)| *name);
        let missing: Vec<_> = premises.filter(|name| !self.openings.contains_key(*name)).collect();
        if !missing.is_empty() {
            return Err(BoardError::Premises { problem: format!("the opening premises miss {}", quoted(missing)) });
        }
        let given = self.openings.keys().map(String::as_str);
        let unknown: Vec<_> = given.filter(|name| kinds.get(name) != Some(&RegionKind::Premise)).collect();
        if !unknown.is_empty() {
            let problem = format!("the opening premises name undeclared {}", quoted(unknown));
            return Err(BoardError::Premises { problem });
        }
        Ok(())
    }
}

impl fmt::Debug for BoardSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoardSpec")
            .field("regions", &self.regions)
            .field("agents", &self.agents)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}
