//! The models of our own, which need neither key nor network.

/// The ids of their providers.
pub(crate) const LOCAL_PROVIDERS: [&str; 3] = ["offline", "echo", "scripted"];
