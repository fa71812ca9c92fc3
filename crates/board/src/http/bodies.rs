//! What a client says of boards, regions and agents, and what is told of them. Nobody but us has these bodies, so a field that
//! is not known is a mistake, and told as one.

use super::answer::Answer;
use crate::boards::BoardSummary;
use crate::content::Content;
use crate::control::BoardSpec;
use crate::model::{Region, RegionKind};
use crate::name::BoardId;
use crate::notify::Agent;
use crate::rules::StoredRules;
use crate::run::{Limits, Outcome};
use crate::wire;
use placet_core::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Seconds as people write them.
fn seconds(what: &str, seconds: f64) -> Result<Duration, Answer> {
    Duration::try_from_secs_f64(seconds).map_err(|_| {
        Answer::bad_body(&format!("'{what}' takes a number of seconds that is not negative, and got {seconds}"))
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LimitsBody {
    wall_clock_s: Option<f64>,
    idle_s: Option<f64>,
}

impl LimitsBody {
    pub(super) fn limits(&self) -> Result<Limits, Answer> {
        let defaults = Limits::default();
        let or = |what: &str, given: Option<f64>, default| given.map_or(Ok(default), |given| seconds(what, given));
        let wall_clock = or("wall_clock_s", self.wall_clock_s, defaults.wall_clock)?;
        Ok(Limits::new(wall_clock, or("idle_s", self.idle_s, defaults.idle)?))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RegionBody {
    /// Where no path names it.
    name: Option<String>,
    kind: RegionKind,
    #[serde(default)]
    batch_window_s: f64,
}

impl RegionBody {
    pub(super) fn region(&self, name: &str) -> Result<Region, Answer> {
        let region = match self.kind {
            RegionKind::Level => Region::level(name),
            RegionKind::Premise => Region::premise(name),
        };
        Ok(region.window(seconds("batch_window_s", self.batch_window_s)?))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AgentBody {
    /// Where no path names it.
    name: Option<String>,
    subscribes_to: Option<BTreeSet<String>>,
    writes_to: Option<BTreeSet<String>>,
    sets: Option<BTreeSet<String>>,
    address: Option<String>,
    #[serde(default)]
    pulls: bool,
}

impl AgentBody {
    pub(super) fn agent(self, name: &str) -> Agent {
        let mut agent = Agent::new(name);
        // Whoever registers over the network is in no process of ours: without an address it asks by itself.
        agent.pulls = self.pulls || self.address.is_none();
        agent.subscribes_to = self.subscribes_to;
        agent.writes_to = self.writes_to;
        agent.sets = self.sets;
        agent.address = self.address;
        agent
    }
}

fn named<'n>(what: &str, name: Option<&'n str>) -> Result<&'n str, Answer> {
    name.ok_or_else(|| Answer::bad_body(&format!("Opening: each {what} needs 'name'")))
}

/// What a board is to be, as a client says it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SpecBody {
    #[serde(default)]
    regions: Vec<RegionBody>,
    #[serde(default)]
    premises: BTreeMap<String, Content>,
    #[serde(default)]
    agents: Vec<AgentBody>,
    limits: Option<LimitsBody>,
    #[serde(default)]
    rules: StoredRules,
}

impl SpecBody {
    pub(super) fn spec(self) -> Result<BoardSpec, Answer> {
        let limits = self.limits.map_or_else(|| Ok(Limits::default()), |limits| limits.limits())?;
        let mut spec = BoardSpec::new(limits).rules(self.rules);
        for region in self.regions {
            spec = spec.region(region.region(named("region", region.name.as_deref())?)?);
        }
        for (premise, value) in self.premises {
            spec = spec.opening(premise, value);
        }
        for mut agent in self.agents {
            let name = agent.name.take();
            spec = spec.agent(agent.agent(named("agent", name.as_deref())?));
        }
        Ok(spec)
    }
}

/// What is told of a board.
#[derive(Serialize)]
pub(super) struct SummaryBody {
    board_id: BoardId,
    regions: Vec<SummaryRegion>,
    agents: Vec<String>,
    open: Option<bool>,
    outcome: Option<Outcome>,
    #[serde(with = "wire::instant")]
    wall_deadline: Option<Timestamp>,
}

#[derive(Serialize)]
struct SummaryRegion {
    name: String,
    kind: RegionKind,
    batch_window_s: f64,
}

impl SummaryBody {
    pub(super) fn of(summary: &BoardSummary) -> Self {
        let region = |region: &Region| SummaryRegion {
            name: region.name.to_string(),
            kind: region.kind,
            batch_window_s: region.window.as_secs_f64(),
        };
        SummaryBody {
            board_id: summary.id.clone(),
            regions: summary.regions.iter().map(region).collect(),
            agents: summary.agents.clone(),
            open: summary.is_open,
            outcome: summary.outcome.clone(),
            wall_deadline: summary.wall_deadline,
        }
    }
}
