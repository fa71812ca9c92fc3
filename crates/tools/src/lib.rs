//! `placet-tools`.
