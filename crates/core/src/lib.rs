//! `placet-core`.
