//! Where an agent works: the shipped capabilities *files*, *command* and *calculator*.
//!
//! # What it must never do
//!
//! Read or change anything outside the folder that was granted, by whatever path, link or race; hand a credential or the
//! program's own environment to a command; leave a process of a command's group behind; answer more than its bounds.

mod answer;
mod bind;
pub mod calculator;
#[cfg(unix)]
pub mod command;
mod error;
#[cfg(unix)]
pub mod files;

pub use answer::Answer;
pub use calculator::calculator;
#[cfg(unix)]
pub use command::{Approval, CommandOptions, Commands};
pub use error::WorkspaceError;
#[cfg(unix)]
pub use files::{Files, FilesOptions};
