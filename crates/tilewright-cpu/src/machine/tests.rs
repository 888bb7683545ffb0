//! Tests of machine programs.
mod helpers;
mod programs;
mod rows;
