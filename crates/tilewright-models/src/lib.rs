//! Front ends: model files and model definitions.
//!
//! Files are hostile until checked: every count, offset and length is bounded before use, and errors name the file, the
//! key or tensor, the byte and the reason.
#![deny(unsafe_code)]

pub mod chat;
pub mod family;
pub mod gguf;
pub mod session;
pub mod tokenizer;
