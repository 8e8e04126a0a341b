//! Comparisons of traces with a known change, and without a change.

use mlprof_analysis::diff::compare;
use mlprof_analysis::rollups::Rollups;
use mlprof_report::Error;
use mlprof_report::comparison::{ComparedRow, Comparison, Subject, Verdict};

use crate::synthetic::{STREAM, action, call, op, trace, work};

/// Slow-down factors of a run's parts.
#[derive(Clone, Copy)]
struct Slower {
    op: f64,
    loading: f64,
    kernel: f64,
}

const HEALTHY: Slower = Slower { op: 1.0, loading: 1.0, kernel: 1.0 };

/// Returns a run with steps of about 1 ms. The durations of their parts vary randomly by a tenth,
/// depending on `seed`.
fn run(first: u32, steps: u32, seed: u64, slower: Slower) -> Rollups {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        0.95 + 0.1 * (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    // Times are whole nanoseconds, so that rounding does not move a slice across the end of its
    // parent.
    let mut about = |time: f64| (time * random() * 1e3).round() / 1e3;
    let (mut events, mut at) = (Vec::new(), f64::from(first) * 1e6);
    for step in 0..steps {
        let loading = about(100.0 * slower.loading);
        let (mm, add) = (about(300.0 * slower.op), about(200.0));
        let rest = about(300.0);
        let forward = mm + add + 20.0;
        events.extend([
            action(&format!("ProfilerStep#{}", first + step), at, loading + forward + rest),
            action("[_TrainingEpochLoop].train_dataloader_next", at, loading),
            action("[module]Linear: fc", at + loading, forward),
            op("mm", at + loading, mm),
            call("cudaLaunchKernel", at + loading + 100.0, 5.0, first + step + 1),
            op("add", at + loading + mm, add),
            work(
                "kernel",
                "gemm",
                at + loading + mm,
                about(150.0 * slower.kernel),
                first + step + 1,
            ),
            action("optimizer_step", at + loading + forward, rest * 0.9),
        ]);
        if step % 5 == 4 {
            events.push(op("log", at + loading + forward + 1.0, about(20.0)));
        }
        at += loading + forward + rest + 1.0;
    }
    assert_eq!(STREAM, (0, 7), "kernels stand there");
    Rollups::of(&trace(&events))
}

fn compared(before: &[Rollups], after: &[Rollups]) -> Comparison {
    compare(before, after).expect("something in common")
}

fn row<'a>(comparison: &'a Comparison, subject: Subject, name: &str) -> &'a ComparedRow {
    let mut tables = comparison.parts.iter().flat_map(|part| &part.tables);
    let table = tables.find(|table| table.subject == subject).expect("a table");
    table.rows.iter().find(|row| row.name == name).unwrap_or_else(|| panic!("{table:#?}"))
}

fn judged(comparison: &Comparison, verdict: Verdict) -> Vec<(Subject, &str)> {
    let tables = comparison.parts.iter().flat_map(|part| &part.tables);
    let rows = tables.flat_map(|table| table.rows.iter().map(move |row| (table.subject, row)));
    let mut found: Vec<_> = rows
        .filter(|(_, row)| row.verdict == verdict)
        .map(|(subject, row)| (subject, row.name.as_str()))
        .collect();
    found.sort_unstable();
    found
}

/// Checks the false positive rate: a hundred healthy pairs with ten rows each.
#[test]
fn healthy_pairs_are_equal() {
    let mut named = Vec::new();
    for seed in 1..=100 {
        let (before, after) = (run(0, 60, seed, HEALTHY), run(0, 60, seed + 1000, HEALTHY));
        let comparison = compared(&[before], &[after]);
        assert!(comparison.is_judged());
        assert_eq!(comparison.regressions(0.05), [], "seed {seed}");
        named.extend(judged(&comparison, Verdict::Worse).into_iter().map(|row| format!("{row:?}")));
    }
    assert!(named.len() <= 3, "one of some hundreds may differ by chance: {named:?}");
}

#[test]
fn a_slower_op_is_named_with_all_that_it_is_in() {
    let slower = Slower { op: 1.3, ..HEALTHY };
    let comparison = compared(&[run(0, 60, 1, HEALTHY)], &[run(0, 60, 2, slower)]);
    let worse =
        [(Subject::Steps, "step"), (Subject::Ops, "mm"), (Subject::Modules, "[module]Linear: fc")];
    assert_eq!(judged(&comparison, Verdict::Worse), worse);
    assert_eq!(judged(&comparison, Verdict::Better), []);
    let mm = row(&comparison, Subject::Ops, "mm");
    let change = mm.change.expect("both have it");
    assert!((change - 0.3).abs() < 0.03, "{change}");
    let sure = mm.sure_change.expect("it is sure");
    assert!(sure > 0.2 && sure < change, "{sure}");
    assert_eq!(mm.after.map(|side| side.calls), Some(60.0));
    // This is the self time, without the time of the nested call.
    assert!((mm.before.expect("both").value - 295e-6).abs() < 5e-6, "{mm:?}");
    let regressions = comparison.regressions(0.05);
    let told: Vec<String> = regressions.iter().map(ToString::to_string).collect();
    assert!(
        told.iter().any(|it| it.starts_with("trace, rank 1: Ops, host time: mm: slower, +")),
        "{told:?}"
    );
    assert_eq!(comparison.regressions(0.5), []);
    // The comparison in the opposite direction finds an improvement.
    let comparison = compared(&[run(0, 60, 2, slower)], &[run(0, 60, 1, HEALTHY)]);
    assert_eq!(judged(&comparison, Verdict::Better), worse);
    assert_eq!(comparison.regressions(0.0), []);
}

#[test]
fn a_slower_action_and_a_slower_kernel_are_named() {
    let slower = Slower { loading: 3.0, ..HEALTHY };
    let comparison = compared(&[run(0, 60, 1, HEALTHY)], &[run(0, 60, 2, slower)]);
    let loading = "[_TrainingEpochLoop].train_dataloader_next";
    let steps = [(Subject::Steps, "step"), (Subject::Steps, "step, waiting for data")];
    let worse = judged(&comparison, Verdict::Worse);
    assert_eq!(worse, [&steps[..], &[(Subject::Actions, loading)]].concat());
    let slower = Slower { kernel: 2.0, ..HEALTHY };
    let comparison = compared(&[run(0, 60, 1, HEALTHY)], &[run(0, 60, 2, slower)]);
    let (gemm, mm) = ((Subject::Kernels, "gemm"), (Subject::Kernels, "mm"));
    let worse = [gemm, mm, (Subject::ModulesOnDevice, "[module]Linear: fc")];
    assert_eq!(judged(&comparison, Verdict::Worse), worse);
}

/// Checks an op that occurs in every fifth step. It is compared over these steps only.
#[test]
fn rows_of_few_steps_are_compared_or_marked_unknown() {
    let comparison = compared(&[run(0, 60, 1, HEALTHY)], &[run(0, 60, 2, HEALTHY)]);
    let log = row(&comparison, Subject::Ops, "log");
    assert_eq!((log.verdict, log.after.map(|side| side.calls)), (Verdict::Same, Some(12.0)));
    assert!((log.after.expect("both").value - 20e-6).abs() < 1e-6, "{log:?}");
    let slower = Slower { op: 9.0, ..HEALTHY };
    let comparison = compared(&[run(0, 7, 1, HEALTHY)], &[run(0, 7, 2, slower)]);
    assert_eq!(row(&comparison, Subject::Ops, "mm").verdict, Verdict::TooFew);
    assert!(!comparison.is_judged());
}

#[test]
fn cycles_are_one_run_and_equal_steps_are_several() {
    let cycles = |seed| [run(0, 5, seed, HEALTHY), run(10, 5, seed + 50, HEALTHY)];
    let comparison = compared(&cycles(1), &cycles(2));
    let part = &comparison.parts[0];
    assert_eq!((part.before.runs, part.before.steps), (1, Some(10)));
    assert_eq!(row(&comparison, Subject::Ops, "mm").verdict, Verdict::Same);
    // These runs have cycles that overlap in time.
    let side = |seed: u64| -> Vec<Rollups> { (0..3).flat_map(|run| cycles(seed + run)).collect() };
    let comparison = compared(&side(1), &side(20));
    let part = &comparison.parts[0];
    assert_eq!((part.before.runs, part.after.runs, part.after.steps), (3, 3, Some(10)));
    assert!(comparison.notes.is_empty(), "{:?}", comparison.notes);
}

#[test]
fn a_trace_without_steps_is_a_step_of_its_own() {
    let whole = |mm: f64| Rollups::of(&trace(&[op("mm", 0.0, mm), op("add", mm, 50.0)]));
    let side = |mms: [f64; 3]| mms.map(whole);
    let (before, after) = (side([100.0, 101.0, 102.0]), side([150.0, 151.0, 152.0]));
    assert_eq!(
        row(&compared(&before[..1], &after[..1]), Subject::Ops, "mm").verdict,
        Verdict::TooFew
    );
    let comparison = compared(&before, &after);
    assert_eq!(row(&comparison, Subject::Ops, "mm").verdict, Verdict::Worse);
    assert_eq!(row(&comparison, Subject::Ops, "add").verdict, Verdict::Same);
    let of_steps = run(0, 60, 1, HEALTHY);
    assert!(compare(&[of_steps], &after).is_ok(), "both have mm");
}

#[test]
fn sides_without_anything_in_common_are_refused() {
    let other = Rollups::of(&trace(&[op("conv", 0.0, 1.0)]));
    let error = compare(&[run(0, 9, 1, HEALTHY)], &[other]).expect_err("nothing");
    assert_eq!(error, Error::OtherProgram);
    let error = compare(&[], &[run(0, 9, 1, HEALTHY)]).expect_err("nothing");
    assert!(matches!(error, Error::NothingInCommon { .. }), "{error}");
}

/// Returns the sums of one step of a rank, in which an op launches a kernel.
fn one_step(rank: u32, kernel: f64) -> Rollups {
    let events = [
        action("ProfilerStep#1", 0.0, 500.0),
        op("aten::addmm", 10.0, 50.0),
        call("cudaLaunchKernel", 20.0, 5.0, 1),
        work("kernel", "gemm", 100.0, kernel, 1),
        // Triton names its ops after their kernels.
        op("triton_poi_fused_add_0", 70.0, 20.0),
        call("cuLaunchKernel", 75.0, 5.0, 2),
        work("kernel", "triton_poi_fused_add_0", 400.0, 10.0, 2),
    ];
    let mut trace = trace(&events);
    (trace.info.rank, trace.info.world_size) = (rank, 8);
    Rollups::of(&trace)
}

#[test]
fn ops_have_the_time_of_devices_that_they_caused() {
    let comparison = compared(&[one_step(0, 100.0)], &[one_step(0, 130.0)]);
    let seconds = |name: &str| {
        let row = row(&comparison, Subject::Kernels, name);
        [&row.before, &row.after].map(|side| side.as_ref().expect("on both sides").value)
    };
    assert_eq!(seconds("aten::addmm"), [100e-6, 130e-6]);
    assert_eq!(seconds("gemm"), [100e-6, 130e-6]);
    assert_eq!(seconds("triton_poi_fused_add_0"), [10e-6, 10e-6]);
}

#[test]
fn two_ranks_and_single_steps_are_compared_with_a_note() {
    let comparison = compared(&[one_step(3, 100.0)], &[one_step(1, 130.0)]);
    let note = |part: &str| comparison.notes.iter().any(|note| note.contains(part));
    assert!(note("the comparison is between rank 3 and rank 1"), "{:?}", comparison.notes);
    assert!(note("each side has only one step"), "{:?}", comparison.notes);
    let same = compared(&[one_step(3, 100.0)], &[one_step(3, 130.0)]);
    assert_eq!(same.parts[0].rank, Some(3));
    assert!(
        !same.notes.iter().any(|note| note.contains("the comparison is between")),
        "{:?}",
        same.notes
    );
    // With several ranks, only those that both sides have are compared.
    let several = [one_step(0, 100.0), one_step(1, 100.0)];
    assert_eq!(compared(&several, &[one_step(1, 130.0)]).parts[0].rank, Some(1));
    assert!(matches!(compare(&several, &[one_step(2, 130.0)]), Err(Error::NothingInCommon { .. })));
}
