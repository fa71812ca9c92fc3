//! The Gemini `generateContent` protocol.
