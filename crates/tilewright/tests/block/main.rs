//! The block level: lowering keeps meaning bit for bit, texts round trip, wrong programs are refused.

mod lowering;
mod operators;
mod support;
mod texts;
mod wrong;
