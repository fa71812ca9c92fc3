//! `placet-observe`.
