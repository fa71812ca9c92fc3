//! `placet-workspace`.
