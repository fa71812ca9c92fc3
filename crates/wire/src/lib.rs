//! `placet-wire`.
