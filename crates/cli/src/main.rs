//! The program `placet`.
fn main() {}
