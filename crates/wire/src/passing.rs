//! Requests and answers that are handed on as the bytes they are: what a gateway must know of them, and no more.
//!
//! Where a client speaks the provider's own protocol nothing is decoded. [`Outline`] finds the few fields of a request that
//! decide where it goes, as ranges of its bytes, so that they can be [spliced](splice); [`Watch`] reads usage and the end of
//! an answer from its bytes as they pass.

mod outline;
mod scan;
mod state;
mod usage;
mod watch;

pub use outline::{Edit, Outline, splice, splice_apart};
pub use state::{holds_native, holds_sealed, response_id};
pub use watch::{Opening, Passage, Watch, Whole, with_clean_errors};

/// The protocol of a request and its answer, as far as handing it on goes.
pub use crate::protocol::Protocol as Speech;
