//! What is promised of boards, on every store.
