//! `placet-models`.
