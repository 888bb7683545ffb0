//! Candidates that are right and must be accepted.

use super::support::*;
use tilewright::superopt::check::{Law, Options, Verdict, check};

#[test]
fn every_program_is_equal_to_itself() {
    for (name, program) in programs() {
        match check(&program, &program, &Options::default()) {
            Verdict::Accept(evidence) => {
                assert!(evidence.bound.is_some_and(|bound| bound <= -40.0), "{name}: {evidence}");
                assert!(evidence.floats > 100, "{name}: {evidence}");
            }
            Verdict::Refuse(refusal) => {
                assert_eq!((name.as_str(), refusal.law), ("moe", Law::Unsupported), "{refusal}");
            }
        }
    }
}
