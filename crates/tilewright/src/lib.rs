//! A compiler for tensor programs with symbolic sizes.
//!
//! One compile serves every size. This is a passing test of the crate, included as it stands:
//!
#![doc = "```no_run"]
#![doc = include_str!("../tests/front_page.rs")]
#![doc = "```"]
//!
//! # The levels
//!
//! | module | a program is… |
//! | --- | --- |
//! | [`tensor`] | operators over tensors with named axes and symbolic extents: what to compute |
//! | [`block`] | maps over blocks, with explicit movement between memory tiers: where values live |
//! | [`task`] | families of tasks over index spaces, ordered by event tensors: who waits for whom |
//! | [`kernel`] | tiles, loads, stores, products, tokens and channels: code |
//!
//! Each has the same files: `ir` (types), `text` (parse and print), `verify` (what is legal), `eval` (what it means,
//! slow and obvious), `lower` (the one arrow into it). [`fuse`](mod@fuse) rewrites block programs. [`compile`](mod@compile) reads top to bottom; sizes are [`dim`]s at
//! every level. Back ends implement [`runtime::Runtime`].
#![forbid(unsafe_code)]

pub mod block;
pub mod compile;
pub mod dim;
pub mod error;
pub mod executable;
pub mod fuse;
pub mod host;
pub mod interpreter;
pub mod journal;
pub mod kernel;
pub mod runtime;
pub mod schedule;
pub mod superopt;
pub mod target;
pub mod task;
pub mod tensor;
pub mod text;

pub use compile::{Options, compile};
pub use error::Error;
pub use executable::{Arguments, Executable, Plan, Weights};
pub use host::HostTensor;
pub use runtime::Control;
pub use target::Target;
