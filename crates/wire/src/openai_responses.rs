//! The OpenAI Responses protocol.
