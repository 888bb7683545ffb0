//! Tests of machine programs.
mod programs;
mod rows;
