//! `placet-placet`.
