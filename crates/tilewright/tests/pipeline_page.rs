//! `docs/pipeline.md` shows what the compiler makes: every fenced part stands in the program that is printed at its level.

use tilewright::compile::Stages;
use tilewright::journal::Journal;
use tilewright::{Options, Target, tensor};

const PAGE: &str = include_str!("../../../docs/pipeline.md");
const PROGRAM: &str = include_str!("../../../programs/rmsnorm_matmul.tensor");

#[test]
fn every_part_of_the_page_is_what_the_compiler_prints() {
    let program =
        tensor::text::parse("rmsnorm_matmul.tensor", PROGRAM).unwrap_or_else(|error| panic!("{error}"));
    let stages = Stages::lower(program, &Target::portable(), &Options::default(), &mut Journal::new())
        .expect("a program that lowers");
    let levels = [
        ("tensor", stages.tensor.to_string()),
        ("block", stages.block.to_string()),
        ("task", stages.task.to_string()),
        ("kernel", stages.kernel.to_string()),
    ];
    for (level, text) in levels {
        let parts: Vec<&str> = PAGE
            .split(&format!("```{level}\n"))
            .skip(1)
            .map(|rest| rest.split("```").next().unwrap_or(rest))
            .collect();
        assert!(!parts.is_empty(), "the page shows nothing of the {level} level");
        for part in parts {
            assert!(
                text.contains(part),
                "the page shows of the {level} level\n{part}\nthe compiler prints\n{text}"
            );
        }
    }
}
