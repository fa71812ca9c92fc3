//! How fast boards are written.

fn main() {}
