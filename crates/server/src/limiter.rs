//! The seam for limits and budgets: asked before, told after.

use crate::principal::Principal;
use crate::refusal::Refusal;
use placet_core::Usage;
use std::fmt;

/// Decides whether a request may be made, and hears what it used. Both calls are on the way of every request: they decide
/// from what is in memory.
pub trait Limiter: Send + Sync + fmt::Debug {
    /// Before a request: reserves what it may use at most.
    ///
    /// # Errors
    /// A [`Refusal`], usually with status 429.
    fn before(&self, principal: &Principal, asked: &Asked<'_>) -> Result<Reservation, Refusal>;

    /// After it, however it ended.
    fn after(&self, principal: &Principal, reservation: Reservation, spent: &Spent);
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Asked<'a> {
    /// The name of the model, as the client gave it.
    pub model: &'a str,
    /// Bytes of the request's body.
    pub bytes: usize,
}

impl<'a> Asked<'a> {
    pub(crate) fn new(model: &'a str, bytes: usize) -> Self {
        Asked { model, bytes }
    }
}

/// What was set aside for a request; the number means what its limiter wants it to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reservation(pub u64);

/// What a request used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Spent {
    /// Tokens, where the provider said.
    pub usage: Option<Usage>,
    /// Whether the answer was whole.
    pub is_whole: bool,
}

impl Spent {
    pub(crate) fn new(usage: Option<Usage>, is_whole: bool) -> Self {
        Spent { usage, is_whole }
    }
}

/// No limits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unlimited;

impl Limiter for Unlimited {
    fn before(&self, _: &Principal, _: &Asked<'_>) -> Result<Reservation, Refusal> {
        Ok(Reservation::default())
    }

    fn after(&self, _: &Principal, _: Reservation, _: &Spent) {}
}
