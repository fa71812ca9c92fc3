//! A small ledger with a revision: a world for tests of the pipeline, in which every change leaves an event.
//!
//! Its state changes through its tools only, which only a pipeline runs:
//!
//! ```compile_fail
//! let ledger = placet_testkit::ledger::Ledger::new([("ada", 10)]);
//! ledger.transfer("ada", "bob", 5); // no such method outside of the crate
//! ```

use placet_core::{CallId, Digest, Effect};
use placet_tools::{BoundTool, Definition, PlainCapability, ToolContext, ToolError, ToolOutput, capability, tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most that one transfer may move; the schema says so.
pub const MOST: u32 = 1000;

/// A ledger of accounts. Clones share it.
#[derive(Clone, Debug)]
pub struct Ledger(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    revision: u64,
    balances: BTreeMap<String, u64>,
    events: Vec<LedgerEvent>,
    trouble: Option<Trouble>,
}

/// A change of the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerEvent {
    /// The revision that it made.
    pub revision: u64,
    /// The call that caused it.
    pub call: CallId,
    /// From where.
    pub from: String,
    /// To where.
    pub to: String,
    /// How much.
    pub amount: u32,
}

/// What the next transfer's handler does instead of its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It reports failure.
    Fails,
    /// It panics.
    Panics,
}

#[derive(Clone, Deserialize, JsonSchema)]
struct Transfer {
    from: String,
    to: String,
    #[schemars(range(min = 1, max = 1000))]
    amount: u32,
    revision: u64,
}

#[derive(Deserialize, JsonSchema)]
struct Observe {}

#[derive(Serialize)]
struct Observation {
    revision: u64,
    balances: BTreeMap<String, u64>,
}

impl Ledger {
    /// A ledger with these accounts, at revision 0.
    #[must_use]
    pub fn new<'a>(accounts: impl IntoIterator<Item = (&'a str, u64)>) -> Self {
        let balances = accounts.into_iter().map(|(name, balance)| (name.to_owned(), balance)).collect();
        Ledger(Arc::new(Mutex::new(State { balances, ..State::default() })))
    }

    /// The revision that is current.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.state().revision
    }

    /// What an account holds.
    #[must_use]
    pub fn balance(&self, account: &str) -> Option<u64> {
        self.state().balances.get(account).copied()
    }

    /// Everything that has changed, in order.
    #[must_use]
    pub fn events(&self) -> Vec<LedgerEvent> {
        self.state().events.clone()
    }

    /// A hash of the whole state: revision, balances and events.
    #[must_use]
    pub fn hash(&self) -> Digest {
        let state = self.state();
        let mut text = String::new();
        // Writing to a text cannot go wrong.
        let _ = write!(text, "{} {:?} {:?}", state.revision, state.balances, state.events);
        Digest::of(text.as_bytes())
    }

    /// Makes the next transfer's handler go wrong before it changes anything.
    pub fn trouble(&self, trouble: Trouble) {
        self.state().trouble = Some(trouble);
    }

    /// `observe` and `transfer`.
    #[must_use]
    pub fn capability(&self) -> PlainCapability {
        capability("ledger").tool(self.observe()).tool(self.transfer_as("transfer"))
    }

    /// *read*: the revision and all balances.
    #[must_use]
    pub fn observe(&self) -> BoundTool {
        let ledger = self.clone();
        let observe = move |_: Observe, _cx: ToolContext| {
            let state = ledger.state();
            let seen = Observation { revision: state.revision, balances: state.balances.clone() };
            async move { seen }
        };
        tool("observe", "Tells the revision and all balances.", observe).build()
    }

    /// *once*: moves an amount from one account to another, resting on a revision. Under any name, so that the same tool
    /// can stand in a registry twice.
    #[must_use]
    pub fn transfer_as(&self, name: &str) -> BoundTool {
        let (ledger, current, dry) = (self.clone(), self.clone(), self.clone());
        tool(name, "Moves an amount from one account to another.", move |args: Transfer, cx: ToolContext| {
            let done = ledger.transfer(&args, cx.call());
            async move { done }
        })
        .effect(Effect::Once)
        .revision("revision")
        .current_revision(move |_, _| {
            let revision = current.revision().to_string();
            async move { Ok(Some(revision)) }
        })
        .domain(|args: &Transfer| {
            if args.from == args.to {
                let text = format!("from and to are both {:?}; name two accounts", args.from);
                return Err(ToolError::mistaken(text).reason("same_account").at("/to"));
            }
            Ok(())
        })
        .possible(move |args, _| {
            let state = dry.state();
            let possible = feasible(&state, &args);
            async move { possible }
        })
        .build()
    }

    /// The definition of `transfer`, bare.
    #[must_use]
    pub fn definition(&self) -> Definition {
        Definition::from((**self.transfer_as("transfer").definition()).clone())
    }

    fn transfer(&self, args: &Transfer, call: &CallId) -> Result<ToolOutput, ToolError> {
        let mut state = self.state();
        match state.trouble.take() {
            Some(Trouble::Fails) => return Err(ToolError::failed("the bank is closed")),
            Some(Trouble::Panics) => {
                drop(state);
                #[expect(clippy::panic, reason = "what the pipeline makes of it is tested")]
                {
                    panic!("the bank is on fire");
                }
            }
            None => {}
        }
        // The check where the effect commits: between the pipeline's look and this one others may have come.
        if state.revision != args.revision {
            let text = format!("the call rests on revision {}, the current one is {}", args.revision, state.revision);
            return Err(ToolError::conflict(text));
        }
        feasible(&state, args)?;
        let amount = u64::from(args.amount);
        if let Some(from) = state.balances.get_mut(&args.from) {
            *from -= amount;
        }
        *state.balances.entry(args.to.clone()).or_default() += amount;
        let before = state.revision;
        state.revision += 1;
        let event = LedgerEvent {
            revision: state.revision,
            call: call.clone(),
            from: args.from.clone(),
            to: args.to.clone(),
            amount: args.amount,
        };
        state.events.push(event);
        Ok(ToolOutput::text(format!("moved {amount}")).revision(before, state.revision))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn feasible(state: &State, args: &Transfer) -> Result<(), ToolError> {
    match state.balances.get(&args.from) {
        Some(balance) if *balance >= u64::from(args.amount) => Ok(()),
        Some(balance) => {
            let text = format!("{} holds {balance}, which is less than {}", args.from, args.amount);
            Err(ToolError::refused(text).reason("insufficient"))
        }
        None => Err(ToolError::refused(format!("there is no account {:?}", args.from)).reason("no_such_account")),
    }
}
