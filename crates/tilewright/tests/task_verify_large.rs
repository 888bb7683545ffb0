//! Programs with more tasks than can be listed: a sample is checked, of which every order that counts is still refused
//! where it is missing.

use tilewright::dim::Dim;
use tilewright::journal::Journal;
use tilewright::target::Target;
use tilewright::task::verify::{Reason, Report, Violation, verify};
use tilewright::task::{self, Program};
use tilewright::{block, tensor};

/// 12,288 tiles of a product, behind a norm.
const NORM: &str = "program norm(x: f32[S, D], w: f32[N, D]) -> f32[S, N]
    where S = 8192, D = 4096, N = 6144
    {
      y = mul x x
      q = sum y over D
      r = rsqrt q
      h = mul x r[S, _]
      return contract h[S, D] w[N, D] -> [S, N]
    }";

/// Thirty layers of which each updates its part of a cache.
const LAYERS: &str = "
    fn layer(x: f32[i: S, d: D], w: f32[e: D, d: D], kc: f32[c: C, d: D], pos: i32[one: 1]) -> f32[i: S, d: D], f32[c: C, d: D] {
      k = contract x[c, f] w[d, f] -> [c, d]
      full = update kc k over c at pos[0]
      s = contract x[i, d] full[c, d] where c <= i + pos[0] -> [i, c]
      o = contract s[i, c] full[c, d] where c <= i + pos[0] -> [i, d]
      return o, full
    }
    program layers(x: f32[i: S, d: D], w: f32[l: L, e: D, d: D], cache: state f32[l: L, c: C, d: D], pos: plan i32[one: 1])
      -> f32[i: S, d: D], f32[l: L, c: C, d: D]
    where L = 30, S = 512, C = 2048, D = 576, pos elements 0..=C
    {
      y, cache2 = repeat l in L, h = x { layer(h, w[l], cache[l], pos) -> h, [l] }
      return y, cache2
    }";

fn lowered(source: &str) -> Program {
    let program = tensor::text::parse("large.tensor", source).unwrap_or_else(|error| panic!("{error}"));
    let mut journal = Journal::new();
    let target = Target::portable();
    let block = block::lower::lower(&program, &target, &mut journal).expect("it lowers");
    task::lower::lower(&block, &target, &mut journal).expect("it lowers")
}

fn check(program: &Program) -> Result<Report, Violation> {
    verify(program, &Target::portable())
}

#[test]
fn a_program_with_many_tasks_is_accepted_by_a_sample() {
    for source in [NORM, LAYERS] {
        let report = check(&lowered(source)).unwrap_or_else(|violation| panic!("{violation}"));
        assert!(report.sampled > 0 && report.tasks > 0, "{report:?}");
    }
}

/// For each wait of each family, whether the program is refused without it.
fn without_each_wait(program: &Program) -> Vec<(String, bool)> {
    let mut verdicts = Vec::new();
    for family in 0..program.families.len() {
        for wait in 0..program.families[family].waits.len() {
            let mut wrong = program.clone();
            let edge = wrong.families[family].waits.remove(wait);
            let name = format!("{} for {}", program.families[family].name, program.event(edge.event).name);
            let verdict = check(&wrong);
            if let Err(violation) = &verdict {
                let order = [Reason::ReadUnordered, Reason::WriteAfterRead, Reason::WriteAfterWrite];
                assert!(order.contains(&violation.reason), "{:?}: {violation}", violation.reason);
            }
            verdicts.push((name, verdict.is_err()));
        }
    }
    verdicts
}

/// Some waits follow from others: the same ones as at small sizes, where all tasks are listed. (With fewer layers, or
/// tensors without elements, other ones do.)
#[test]
fn a_missing_wait_is_seen_in_a_sample() {
    let small = |source: &str| {
        let fixed = ["L = 30", "S = 8192", "S = 512", "C = 2048", "D = 4096", "D = 576", "N = 6144"];
        fixed
            .iter()
            .fold(source.to_string(), |source, fact| source.replace(fact, &fact.replace("= ", "in 2..=")))
    };
    for source in [NORM, LAYERS] {
        let program = lowered(&small(source));
        assert_eq!(check(&program).expect("it is right").sampled, 0);
        let (sampled, all) = (without_each_wait(&lowered(source)), without_each_wait(&program));
        assert!(sampled.iter().any(|(_, refused)| *refused));
        assert_eq!(sampled, all);
    }
}

#[test]
fn a_wrong_count_is_seen_though_few_of_those_who_notify_are_listed() {
    for source in [NORM, LAYERS] {
        let program = lowered(source);
        for event in 0..program.events.len() {
            for change in [-1, 1] {
                let mut wrong = program.clone();
                wrong.events[event].wait = &wrong.events[event].wait + Dim::constant(change);
                let violation = check(&wrong).expect_err("a wrong count");
                let value = change < 0 && violation.reason == Reason::Value;
                assert!(violation.reason == Reason::Threshold || value, "{violation}");
            }
        }
    }
}
