//! `placet-store`.
