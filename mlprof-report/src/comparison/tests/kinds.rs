//! Comparison rows of each kind of report.

use super::*;
use crate::findings::samples::{kernel, remembered};
use crate::memory::ActionMemory;
use crate::steps::{StepEntry, StepSeries};
use mlprof_events::{ActionKind, Tallies};

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
    // One run per side does not show how these ops vary.
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
    // With 400 calls, the mean is known within 13 % of their deviation.
    assert_eq!(verdict(side(1.0, 0.1, 401), side(1.1, 0.1, 401)), Verdict::Worse);
    assert_eq!(verdict(side(1.0, 0.5, 401), side(1.1, 0.5, 401)), Verdict::Same);
    assert_eq!(verdict(side(1.0, 0.1, 8), side(9.0, 0.1, 8)), Verdict::TooFew);
}

/// Checks that shares of device time count each kernel once. The row of an op repeats the time of
/// its kernels.
#[test]
fn shares_of_device_time_are_of_all_kernels_once() {
    let side = |small: f64| {
        let launched = |name: &str, seconds: f64| crate::tensor::KeyAverage {
            device_seconds: seconds,
            self_device_seconds: seconds,
            ..op(name, 100, 0.001)
        };
        let row = |name: &str, seconds: f64| crate::tensor::KeyAverage {
            rest: Some(crate::tensor::RestDurations {
                min_seconds: 0.009 * seconds,
                max_seconds: 0.011 * seconds,
                deviation_seconds: Some(1e-4 * seconds),
            }),
            ..kernel(name, 100, seconds)
        };
        let rows = vec![
            launched("aten::mm", 1.0),
            row("gemm", 1.0),
            launched("aten::add", small),
            row("add", small),
        ];
        let mut report = recorded(rows);
        report.modules = vec![crate::tensor::ModuleStatistics {
            name: "Net".to_owned(),
            path: String::new(),
            type_name: String::new(),
            calls: 100,
            total: crate::tensor::ModuleCost::default(),
            own: crate::tensor::ModuleCost {
                forward_device_seconds: 1.0 + small,
                ..Default::default()
            },
            children: Vec::new(),
        }];
        [Report::Tensor(report)]
    };
    let comparison = of(&side(0.006), &side(0.012));
    let add = find(&comparison, Subject::Kernels, "add");
    about(Some(add.share), 0.012 / 1.012);
    about(Some(find(&comparison, Subject::Kernels, "gemm").share), 1.0 / 1.006);
    about(Some(find(&comparison, Subject::ModulesOnDevice, "Net").share), 1.0);
    let names: Vec<_> = comparison.regressions(0.05).into_iter().map(|it| it.name).collect();
    assert_eq!(names, ["add"], "it is 1.2 % of the device's time, and twice as much");
}

/// Checks that the first call of a kernel, which loads its module, does not count.
#[test]
fn the_first_call_of_a_kernel_is_no_part_of_its_typical_time() {
    let side = |first: f64| {
        let mut row = kernel("gemm", 100, 99.0 * 10e-6 + first);
        row.first_seconds = first;
        row.rest = Some(crate::tensor::RestDurations {
            min_seconds: 9e-6,
            max_seconds: 11e-6,
            deviation_seconds: Some(0.5e-6),
        });
        [Report::Tensor(recorded(vec![row]))]
    };
    let comparison = of(&side(5e-3), &side(8e-3));
    let gemm = find(&comparison, Subject::Kernels, "gemm");
    assert_eq!(gemm.verdict, Verdict::Same, "{gemm:?}");
    about(gemm.change, 0.0);
    about(gemm.before.map(|side| side.value), 10e-6);
}

/// Checks that both the limits and the value exclude the first call.
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
            let phases = [mlprof_events::Phase::Forward, mlprof_events::Phase::Backward];
            for (row, phase) in report.key_averages.rows.iter_mut().zip(phases) {
                row.phase = Some(phase);
            }
        }
        Report::Tensor(report)
    };
    let comparison = of(&[side(false)], &[side(true)]);
    about(find(&comparison, Subject::Ops, "matmul").change, 0.0);
    assert!(comparison.parts[0].notes.iter().any(|note| note.contains("compared by name")));
    let comparison = of(&[side(true)], &[side(true)]);
    about(find(&comparison, Subject::Ops, "matmul, forward").change, 0.0);
}

/// Builds a report with `bytes` allocated in each of 100 steps.
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
            "Memory allocated: run_training_batch: more, +20.0 % (at least +18.8 %): 1000 B before, 1.17 KiB after"
        ),
        "{text}"
    );
    assert!(text.contains("Peak memory: (the process): more, +60.0 % (at least +"), "{text}");
    assert!(!text.contains("Blocks"), "as many: {text}");
    assert_eq!(of(&[memory(1_000, 5_000)], &[memory(1_002, 5_010)]).regressions(0.0), []);
}

/// Builds a report with `count` steps of one distribution, in which every tenth step takes twice as
/// long. Steps share entries if there are more than 4,096.
fn of_steps(count: u64, times: f64) -> Report {
    let Report::Simple(mut report) = run(0.002, vec![]) else { panic!("a Simple report") };
    let mut log = crate::steps::log::StepLog::default();
    for number in 0..count {
        let noise = 0.99 + 0.02 * ((number * 7_919) % 101) as f64 / 101.0;
        let usual = if number % 10 == 4 { 2e8 } else { 1e8 };
        let elapsed = (times * usual * noise) as u64;
        log.add(crate::steps::log::StepTicks {
            number,
            started: number * 100_000_000,
            elapsed,
            parts: crate::steps::log::StepParts { forward: elapsed, ..Default::default() },
            slowest: None,
        });
    }
    report.step_series = vec![log.series(report.header.stage, 0, |ticks| ticks as f64 * 1e-9)];
    report.header.wall_seconds = 0.11 * count as f64;
    Report::Simple(report)
}

#[test]
fn runs_of_any_length_are_compared_by_single_steps() {
    let comparison = of(&[of_steps(4_000, 1.0)], &[of_steps(30_000, 1.0)]);
    assert_eq!(comparison.regressions(0.0), []);
    for name in ["step", "step, forward", "step, 95 % took no longer"] {
        let row = find(&comparison, Subject::Steps, name);
        assert!(row.change.is_some_and(|change| change.abs() < 0.016), "{row:?}");
        assert!(row.verdict != Verdict::Worse && row.verdict != Verdict::Better, "{row:?}");
    }
    for (before, after) in [(4_000, 30_000), (30_000, 4_000), (30_000, 50_000)] {
        let comparison = of(&[of_steps(before, 1.0)], &[of_steps(after, 1.1)]);
        let names: Vec<_> = comparison.regressions(0.05).into_iter().map(|it| it.name).collect();
        let slow = "step, 95 % took no longer";
        assert_eq!(names, ["step", "step, forward", slow], "{before} {after}");
    }
    // Reports of versions without single steps are not judged by means.
    let mut old = of_steps(30_000, 1.0);
    let Report::Simple(report) = &mut old else { panic!("a Simple report") };
    report.step_series[0].durations = None;
    let comparison = of(&[of_steps(4_000, 1.0)], &[old]);
    let step = find(&comparison, Subject::Steps, "step");
    assert_eq!(step.verdict, Verdict::Unknown, "{step:?}");
}

/// Builds a report with 200 steps and the given forward time of each step.
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
    report.step_series =
        vec![StepSeries { stage: report.header.stage, steps: 200, entries, durations: None }];
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
    let slow = "step, 95 % took no longer";
    assert_eq!(names, ["step, forward", slow, "step"], "what is in the step weighs as much");
    // A few outliers do not change the typical step.
    let hiccups = with_steps(|step| if step % 50 == 7 { 1.0 } else { 0.006 });
    assert_eq!(of(&[with_steps(|_| 0.006)], &[hiccups]).regressions(0.0), []);
}

/// Checks that drift of the steps also widens the uncertainty of actions inside them.
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
        ["The run: as a whole", "Actions: the median of calls without the first one"]
    );
    let action = crate::tensor::KeyAverage { kind: ActionKind::Action, ..op("forward", 9, 1.0) };
    let tensor = of_kind(Report::Tensor(recorded(vec![action])));
    assert_eq!(tensor[1], "Actions: the mean of recorded steps");
    let memory = of_kind(memory(1_000, 5_000));
    assert!(memory.contains(&"Memory allocated: self values, the mean of calls".to_owned()));
}
