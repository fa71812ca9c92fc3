//! `placet-testkit`.
