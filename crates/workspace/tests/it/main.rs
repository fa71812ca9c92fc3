//! Files, commands and expressions as somebody uses them from outside, with real processes.

#[cfg(target_os = "linux")]
mod race;
