//! The Anthropic Messages protocol.
