//! `placet-net`.
