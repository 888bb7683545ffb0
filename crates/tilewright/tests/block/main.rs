//! The block level: lowering keeps meaning bit for bit, texts round trip, wrong programs are refused.

mod lowering;
mod support;
mod texts;
