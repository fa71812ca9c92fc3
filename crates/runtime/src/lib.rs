//! `placet-runtime`.
