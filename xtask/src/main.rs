//! What CI checks and people run by hand.
fn main() {}
