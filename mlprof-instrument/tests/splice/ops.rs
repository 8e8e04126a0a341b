//! Tests the recorded names and inputs of ops.

use mlprof_instrument::{HookKind, SelectionBuilder};

use crate::fixture::{Fixture, fixtures};

const ACTIONS: u32 = 1;
const OPS: u32 = 4;
const SHAPES: u32 = 8;
const OUTPUTS: u32 = 2048;

fn fixture() -> Fixture {
    let rules = fixtures().join("tensors/rules.toml");
    let builder = SelectionBuilder::default().ops(rules.to_str().expect("a path"));
    Fixture::new("tensors", "2021", &[], &builder.expect("the rules are right").build())
}

/// Returns the recorded lines without locations.
fn calls(record: &[String]) -> Vec<String> {
    let calls = record.iter().map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        assert!(words[3].starts_with("main.rs:"), "{line}");
        [&words[..3], &words[4..]].concat().join(" ")
    });
    calls.collect()
}

#[test]
fn arguments_that_are_tensors_are_told_with_shape_and_type() {
    let fixture = fixture();
    let many = format!("1 1 toy::cat {{100 {}", ["2[2,3]"; 85].join(" "));
    let (real, whole, odd) = ("2[2,3]", "7[3,4]", "18[]");
    let expected = [
        // The first call has a bias. The other calls have none, with equal and with different
        // padding on both sides.
        format!("1 1 toy::conv2d {real} {whole} - {odd} (1,1) (0,0) (1)"),
        format!("1 1 toy::conv2d {real} {whole} - - (1,2) (1,0,2,2) (3)"),
        format!("1 1 toy::conv2d {real} {whole} - - (1,2) (1,2) (3)"),
        // Options, pairs and slices of references are supported. Arguments that are not tensors are
        // omitted.
        format!("1 1 toy::couple {{2 {real} {odd} - {{1 {whole}"),
        format!("1 1 toy::cat {{2 {real} {whole}"),
        many,
        format!("1 1 toy::apply {real}"),
        "1 2 toy::backward 2[2,2]".to_owned(),
        "1 1 toy::matmul 2[2,2] 2[2,2]".to_owned(),
        format!("1 1 toy::matmul {real} {whole}"),
        format!("2 1 toy::exp {real}"),
        format!("1 1 toy::log {real}"),
        format!("1 1 toy::stack {{1 {real}"),
        format!("1 2 toy::soft_max2d_backward {real}"),
        "1 4 optimizer_step".to_owned(),
        // The name is that of the op that it runs.
        format!("1 6 toy::rms-norm {real}"),
    ];
    let mut expected = expected.to_vec();
    let mut found = calls(&fixture.run(ACTIONS | OPS | SHAPES));
    expected.sort();
    found.sort();
    assert_eq!(found, expected);
}

#[test]
fn without_shapes_nothing_is_told_and_actions_are_asked_for_apart() {
    let fixture = fixture();
    let ops = calls(&fixture.run(OPS));
    assert!(
        ops.contains(&"2 1 toy::matmul".to_owned()) && ops.contains(&"3 1 toy::conv2d".to_owned())
    );
    assert!(ops.contains(&"1 6 toy::rms-norm".to_owned()), "{ops:#?}");
    assert!(!ops.iter().any(|call| call.contains("optimizer_step")));
    assert_eq!(calls(&fixture.run(ACTIONS | SHAPES)), ["1 4 optimizer_step"]);
    let steps = fixture.result.spliced.iter().filter(|one| one.kind == HookKind::Step);
    assert_eq!(steps.map(|one| one.path.as_str()).collect::<Vec<_>>(), ["tensors::Momentum::step"]);
}

#[test]
fn a_rule_that_tells_what_is_not_there_leaves_the_function_out() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let path = folder.path().join("rules.toml");
    let rules = std::fs::read_to_string(fixtures().join("tensors/rules.toml")).expect("the rules");
    std::fs::write(&path, rules.replace("\"weight\"", "\"kernel\"")).expect("the rules");
    let builder = SelectionBuilder::default().ops(path.to_str().expect("a path"));
    let selection = builder.expect("the rules are right").build();
    let fixture = Fixture::new("tensors", "2021", &[], &selection);
    let left_out = &fixture.result.left_out[0];
    assert_eq!(left_out.path, "tensors::Array::conv");
    assert!(left_out.reason.contains("`kernel`"), "{}", left_out.reason);
}

#[test]
fn requested_ops_report_outputs_and_inputs() {
    let rules = fixtures().join("tensors/rules.toml");
    let builder = SelectionBuilder::default().ops(rules.to_str().expect("a path"));
    let selection = builder.expect("the rules are right").outputs(true).build();
    let fixture = Fixture::new("tensors", "2021", &[], &selection);
    assert_eq!((&fixture.result.left_out[..], &fixture.result.cautions[..]), (&[][..], &[][..]));
    let returned = |wanted| -> Vec<String> {
        let record = fixture.run(wanted);
        record.into_iter().filter(|line| line.contains(" returned")).collect()
    };
    let found = returned(OPS | OUTPUTS);
    let (real, whole, odd) = ("6[2]=[2, 3]", "6[2]=[3, 4]", "6[0]=[]");
    for expected in [
        // The output is in a `Result`. The inputs have been consumed by then, are lists or options,
        // or are given by a rule.
        format!("1 toy::matmul returned 6[2]=[2, 4] of {real} {whole}"),
        format!("1 toy::conv2d returned {real} of {real} {whole} {odd}"),
        format!("1 toy::cat returned {whole} of {real} {whole}"),
        format!("1 toy::stack returned {real} of {real}"),
        format!("1 toy::apply returned {real} of {real}"),
        // One op is generated by a macro, and the other one gets its name at run time.
        format!("1 toy::log returned {real} of {real}"),
        format!("1 toy:: returned {real} of {real}"),
    ] {
        assert!(found.contains(&expected), "{expected}: {found:#?}");
    }
    // Numbers, backward passes and actions have no outputs.
    let others = ["toy::couple", "toy::backward", "optimizer_step"];
    assert!(!found.iter().any(|line| others.iter().any(|one| line.contains(one))), "{found:#?}");
    assert_eq!(returned(OPS), [""; 0], "nobody looks at them");
    assert_eq!(returned(OUTPUTS), [""; 0], "nor where ops are not wanted");
}
