#![no_main]
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    reason = "the trials are shared with the tests; each target runs one"
)]

#[path = "../../crates/wire/tests/it/bodies.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bodies::protocol(placet_wire::protocol::Protocol::OpenaiResponses, bytes));
