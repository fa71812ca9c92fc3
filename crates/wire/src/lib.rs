//! Each provider protocol once, in both directions, and the SSE codec. No I/O.
//!
//! A protocol is a module of four pure conversions:
//!
//! ```text
//!             decode_request                          encode_request
//! client  ───────────────────▶  TurnRequest (ours)  ───────────────────▶  provider
//! client  ◀───────────────────  TurnEvent stream    ◀───────────────────  provider
//!             encode_events                           decode_events
//! ```
//!
//! # What it must never do
//!
//! Input and output; deciding whether to try again; dropping what a protocol cannot express (it refuses, or reports what it
//! left out). No other crate knows a provider's field names.

mod answer;
pub mod anthropic_messages;
mod asked;
mod carry;
mod citations;
mod encoded;
pub mod envelope;
mod failure;
pub mod fields;
mod foreign;
mod further;
pub mod gemini;
pub mod inspect;
mod json;
mod left_out;
mod listed;
mod mcp_use;
pub mod names;
pub mod openai_chat;
pub mod openai_responses;
mod options;
mod overlay;
pub mod passing;
mod probabilities;
pub mod protocol;
mod reading;
mod request;
pub mod schema;
mod shown;
pub mod sse;
mod stopped;
mod surrogates;
mod text;
mod tiers;
pub mod tools;
mod video;

pub use answer::events_of;
pub use encoded::{Encoded, Omission};
pub use failure::{decode_error, request_id};
pub use left_out::left_out;
pub use listed::ListedModel;
pub use mcp_use::mcp_uses;
pub use overlay::overlay;
pub use request::{AnswerHead, ClientBody, DecodedRequest, RequestError};
