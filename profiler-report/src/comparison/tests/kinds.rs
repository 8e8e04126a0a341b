//! What each kind of report has to compare.

use super::*;
use crate::findings::samples::{kernel, remembered};
use crate::memory::ActionMemory;
use crate::steps::{StepEntry, StepSeries};
use profiler_events::{ActionKind, Tallies};

#[test]
fn ops_are_compared_by_step_whatever_the_schedule_was() {
    let side = |steps: u64, seconds: f64| {
        let rows = vec![op("matmul", 4 * steps, seconds), kernel("gemm", steps, 2.0 * seconds)];
        let mut report = recorded(rows);
        report.recorded_steps = steps;
        Report::Tensor(report)
    };
    let before = [side(100, 1.0), side(100, 1.01), side(100, 0.99)];
    let after = [side(50, 1.0), side(50, 1.01), side(50, 0.99)];
    let comparison = of(&before, &after);
    let matmul = find(&comparison, Subject::Ops, "matmul");
    assert_eq!(matmul.verdict, Verdict::Worse);
    about(matmul.change, 1.0);
    about(find(&comparison, Subject::Kernels, "gemm").after.map(|it| it.value), 0.04);
    // One run of each does not say how these ops vary.
    let one = of(&before[..1], &after[..1]);
    assert_eq!(find(&one, Subject::Ops, "matmul").verdict, Verdict::TooFew);
    assert!(!one.is_judged() && one.regressions(0.0).is_empty());
}

#[test]
fn how_ops_vary_within_a_run_judges_them_too() {
    let side = |each: f64, deviation: f64, calls: u64| {
        let mut matmul = op("matmul", calls, calls as f64 * each);
        matmul.rest = Some(crate::tensor::RestDurations {
            min_seconds: each,
            max_seconds: each,
            deviation_seconds: Some(deviation),
        });
        [Report::Tensor(recorded(vec![matmul]))]
    };
    let verdict = |before: [Report; 1], after: [Report; 1]| {
        find(&of(&before, &after), Subject::Ops, "matmul").verdict
    };
    // Of 400 calls the mean is known within 13 % of their deviation.
    assert_eq!(verdict(side(1.0, 0.1, 401), side(1.1, 0.1, 401)), Verdict::Worse);
    assert_eq!(verdict(side(1.0, 1.0, 401), side(1.1, 1.0, 401)), Verdict::Same);
    assert_eq!(verdict(side(1.0, 0.1, 8), side(9.0, 0.1, 8)), Verdict::TooFew);
}

/// The limits are of the calls except the first, and so is the value.
#[test]
fn the_first_call_of_an_op_is_no_part_of_its_typical_time() {
    let side = |first: f64| {
        let mut matmul = op("matmul", 401, 400.0 + first);
        matmul.first_seconds = first;
        matmul.rest = Some(crate::tensor::RestDurations {
            min_seconds: 0.9,
            max_seconds: 1.1,
            deviation_seconds: Some(0.05),
        });
        [Report::Tensor(recorded(vec![matmul]))]
    };
    let comparison = of(&side(1.0), &side(300.0));
    let matmul = find(&comparison, Subject::Ops, "matmul");
    assert_eq!(matmul.verdict, Verdict::Same, "only the first call got longer: {matmul:?}");
    let after = matmul.after.expect("it is there");
    let limits = after.limits.expect("they are known");
    assert!(limits.low < after.value && after.value < limits.high, "{after:?}");
    about(matmul.change, 0.0);
}

#[test]
fn rows_told_apart_by_other_things_are_compared_by_name() {
    let side = |is_apart: bool| {
        let mut report = recorded(vec![op("matmul", 100, 1.0), op("matmul", 100, 2.0)]);
        if is_apart {
            report.key_averages.group_by.phase = true;
            let phases = [profiler_events::Phase::Forward, profiler_events::Phase::Backward];
            for (row, phase) in report.key_averages.rows.iter_mut().zip(phases) {
                row.phase = Some(phase);
            }
        }
        Report::Tensor(report)
    };
    let comparison = of(&[side(false)], &[side(true)]);
    about(find(&comparison, Subject::Ops, "matmul").change, 0.0);
    assert!(comparison.parts[0].notes.iter().any(|note| note.contains("by their names")));
    let comparison = of(&[side(true)], &[side(true)]);
    about(find(&comparison, Subject::Ops, "matmul, forward").change, 0.0);
}

/// So many bytes in each of 100 steps.
fn memory(bytes: u64, peak: i64) -> Report {
    let tallies = |steps: u64| Tallies {
        allocated_bytes: steps * bytes,
        allocated_blocks: steps,
        freed_bytes: steps * bytes,
        freed_blocks: steps,
    };
    let mut report = remembered(tallies(100));
    report.header = run(0.002, vec![]).header().clone();
    report.process.peak_bytes = peak;
    report.actions = vec![ActionMemory {
        action: "run_training_batch".to_owned(),
        kind: ActionKind::Action,
        sub_stage: None,
        calls: 100,
        total: tallies(100),
        own: tallies(100),
        peak_bytes: peak.unsigned_abs(),
    }];
    Report::Memory(report)
}

#[test]
fn more_memory_is_a_regression_too() {
    let comparison = of(&[memory(1_000, 5_000)], &[memory(1_200, 8_000)]);
    let told: Vec<_> = comparison.regressions(0.05).iter().map(ToString::to_string).collect();
    let text = told.join("\n");
    assert!(
        text.contains(
            "Memory allocated: run_training_batch: more, +20.0 %: 1000 B before, 1.17 KiB after"
        ),
        "{text}"
    );
    assert!(text.contains("Most memory at once: (the process): more, +60.0 %: "), "{text}");
    assert!(!text.contains("Blocks"), "as many: {text}");
    assert_eq!(of(&[memory(1_000, 5_000)], &[memory(1_002, 5_010)]).regressions(0.0), []);
}

/// 200 steps, each with so much of forward, and a report of them.
fn with_steps(forward: impl Fn(u64) -> f64) -> Report {
    let Report::Simple(mut report) = run(0.002, vec![]) else { panic!("a Simple report") };
    let entry = |number| StepEntry {
        number,
        count: 1,
        seconds: 0.004 + forward(number),
        forward_seconds: forward(number),
        data_seconds: 0.004,
        ..StepEntry::default()
    };
    let entries = (0..200).map(entry).collect();
    report.step_series = vec![StepSeries { stage: report.header.stage, steps: 200, entries }];
    report.header.wall_seconds = 2.0;
    Report::Simple(report)
}

#[test]
fn steps_and_their_parts_are_compared_by_their_values() {
    let steady = |each: f64| with_steps(move |step| each * (1.0 + (step % 5) as f64 / 100.0));
    let comparison = of(&[steady(0.006)], &[steady(0.007)]);
    let forward = find(&comparison, Subject::Steps, "step, forward");
    assert_eq!(forward.verdict, Verdict::Worse);
    about(forward.change, 1.0 / 6.0);
    assert_eq!(find(&comparison, Subject::Steps, "step").verdict, Verdict::Worse);
    let data = find(&comparison, Subject::Steps, "step, data");
    assert_eq!((data.verdict, data.before.map(|it| it.calls)), (Verdict::Same, Some(200.0)));
    let names: Vec<_> =
        comparison.regressions(0.05).into_iter().map(|regression| regression.name).collect();
    assert_eq!(names, ["step, forward", "step"], "what is in the step weighs as much");
    // A few steps that are far off are not the step.
    let hiccups = with_steps(|step| if step % 50 == 7 { 1.0 } else { 0.006 });
    assert_eq!(of(&[with_steps(|_| 0.006)], &[hiccups]).regressions(0.0), []);
}

/// When steps drift while the program runs, so may whatever runs in them.
#[test]
fn no_time_is_known_better_than_that_of_steps() {
    let actions = |report: Report, load: f64| {
        let Report::Simple(mut report) = report else { panic!("a Simple report") };
        report.actions[1] = known("load", 100, load, 0.01);
        [Report::Simple(report)]
    };
    let drifting = || with_steps(|step| if step < 100 { 0.006 } else { 0.012 });
    let steady = || with_steps(|_| 0.006);
    assert_eq!(
        verdict(&actions(steady(), 0.002), &actions(steady(), 0.003), "load"),
        Verdict::Worse
    );
    assert_eq!(
        verdict(&actions(drifting(), 0.002), &actions(drifting(), 0.003), "load"),
        Verdict::Same
    );
    let comparison = of(&[drifting()], &[with_steps(|_| 0.011)]);
    assert_eq!(find(&comparison, Subject::Steps, "step").verdict, Verdict::Same);
}

#[test]
fn tables_say_what_their_numbers_are_of() {
    let of_kind = |report: Report| {
        let comparison = of(std::slice::from_ref(&report), std::slice::from_ref(&report));
        let headings = comparison.parts[0].tables.iter().map(ComparedTable::heading);
        headings.collect::<Vec<_>>()
    };
    let simple = of_kind(run(0.002, vec![]));
    assert_eq!(
        simple,
        ["The run: as a whole", "Actions: the median of calls, but for the first one"]
    );
    let action = crate::tensor::KeyAverage { kind: ActionKind::Action, ..op("forward", 9, 1.0) };
    let tensor = of_kind(Report::Tensor(recorded(vec![action])));
    assert_eq!(tensor[1], "Actions: the mean of recorded steps");
    let memory = of_kind(memory(1_000, 5_000));
    assert!(memory.contains(&"Memory allocated: of their own, the mean of calls".to_owned()));
}
