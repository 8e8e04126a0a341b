//! Recording pauses within and between steps, as mlprof makes them for validations. Times are in
//! microseconds.

use mlprof_analysis::diff::compare;
use mlprof_analysis::rollups::Rollups;
use mlprof_analysis::{Analysis, kineto};

use crate::synthetic::{action, analysis, call, json, op, trace, work};

/// Returns step 0 in two parts of 30 and 100 µs, and steps 1 and 2 of 100 µs. The pauses are 100
/// and 70 µs long.
fn events() -> Vec<String> {
    vec![
        action("ProfilerStep#0", 0.0, 30.0),
        op("aten::mm", 10.0, 10.0),
        action("ProfilerStep#0", 130.0, 100.0),
        op("aten::mm", 140.0, 50.0),
        call("cudaLaunchKernel", 200.0, 10.0, 1),
        action("ProfilerStep#1", 230.0, 100.0),
        op("aten::mm", 230.0, 90.0),
        action("ProfilerStep#2", 400.0, 100.0),
        op("aten::mm", 410.0, 60.0),
        // The kernel runs into the pause between steps 1 and 2.
        work("kernel", "gemm", 300.0, 50.0, 1),
    ]
}

#[test]
fn a_step_in_parts_is_one_step() {
    let analysis = analysis(&events());
    let steps: Vec<_> =
        analysis.steps.iter().map(|step| (step.number, step.start_ns, step.duration_ns)).collect();
    assert_eq!(
        steps,
        [(Some(0), 0, 130_000), (Some(1), 230_000, 100_000), (Some(2), 400_000, 100_000)]
    );
    for (step, path) in analysis.steps.iter().zip(&analysis.critical_paths) {
        assert_eq!(step.parts.iter().map(|part| part.duration_ns).sum::<i64>(), step.duration_ns);
        assert_eq!(path.length_ns, step.duration_ns);
    }
    let path = Analysis::with_path_of(&trace(&events()), Some(0));
    let path = &path.critical_paths[0];
    let mut now = 0;
    for segment in &path.segments {
        assert_eq!(segment.start_ns, now);
        now += segment.duration_ns;
    }
    assert_eq!((path.step, now), (Some(0), 130_000));
}

/// Analyses these events with recorded pauses.
fn paused(events: &[String], pauses: &str) -> Analysis {
    let header = format!(r#""mlprof":{{"stage":"fit","pauses":[{pauses}]}},"traceName":"x""#);
    let json = json(events).replace(r#""traceName":"x""#, &header);
    Analysis::of(&kineto::read(json.as_bytes()).expect("a trace"))
}

#[test]
fn pauses_are_in_no_window() {
    let pauses = r#"{"ts":30.0,"until":130.0},{"ts":330.0,"until":400.0}"#;
    let analysis = paused(&events(), pauses);
    let [main] = &analysis.threads[..] else { panic!("{:?}", analysis.threads) };
    assert_eq!((main.window_ns, main.busy_ns, main.idle_ns), (330_000, 220_000, 110_000));
    let times = &analysis.devices[0].times;
    assert_eq!((times.window_ns, times.compute_ns), (330_000, 30_000));
    let idle = (times.idle_before_ns, times.idle_between_ns, times.idle_after_ns);
    assert_eq!(idle, (200_000, 0, 100_000));
    assert_eq!((times.outside_ns, times.after_last_step_ns), (20_000, 0));
    assert!(analysis.notes[0].contains("recording paused for 170 µs"), "{:?}", analysis.notes);
    assert_eq!(analysis.notes.len(), 1);
}

/// Checks that only the gap between two parts of a step is known to be a pause.
#[test]
fn a_gap_between_steps_is_in_the_window() {
    let analysis = analysis(&events());
    assert_eq!(analysis.threads[0].window_ns, 400_000);
    assert_eq!(analysis.devices[0].times.compute_ns, 50_000);
}

/// Checks that an epoch that crosses its first step excludes the time of a validation within it.
#[test]
fn slices_that_cross_have_no_time_of_pauses() {
    let mut events = events();
    events.push(action("run_training_epoch", 5.0, 495.0));
    let pauses = r#"{"ts":30.0,"until":130.0},{"ts":330.0,"until":400.0}"#;
    let analysis = paused(&events, pauses);
    let row = analysis.names.iter().find(|row| row.name == "run_training_epoch").expect("it ran");
    let own: i64 = analysis.names.iter().map(|row| row.self_ns).sum();
    assert_eq!((row.total_ns, own), (495_000, 330_000));
    // The step crosses the epoch at 5 µs. From there on, the rest of step 0 belongs to the epoch,
    // except for 10 µs of an op.
    assert_eq!((row.self_ns, analysis.crossing_ns), (15_000, 15_000));
}

#[test]
fn a_trace_without_steps_has_no_pauses_in_its_time() {
    let events = [op("aten::mm", 0.0, 10.0), op("aten::mm", 70.0, 30.0)];
    let analysis = paused(&events, r#"{"ts":20.0,"until":60.0}"#);
    let [whole] = &analysis.steps[..] else { panic!("{:?}", analysis.steps) };
    assert_eq!((whole.number, whole.duration_ns), (None, 60_000));
    assert_eq!(analysis.critical_paths[0].length_ns, 60_000);
    assert_eq!((analysis.threads[0].window_ns, analysis.threads[0].idle_ns), (60_000, 20_000));
}

/// Checks eight steps of 100 µs. Only in the first file does step 0 have two parts.
#[test]
fn steps_in_parts_are_compared_as_steps() {
    let steps = |parts: bool| {
        let mut events = Vec::new();
        for number in 0..8 {
            let (name, start) = (format!("ProfilerStep#{number}"), f64::from(number) * 100.0);
            match number == 0 && parts {
                true => {
                    events.push(action(&name, start, 40.0));
                    events.push(action(&name, start + 40.5, 59.5));
                }
                false => events.push(action(&name, start, 100.0)),
            }
        }
        Rollups::of(&trace(&events))
    };
    let (before, after) = (steps(true), steps(false));
    assert_eq!((before.steps.len(), before.steps[0].duration), (8, 99_500));
    let comparison = compare(&[before], &[after]).expect("they have steps in common");
    let mut rows = comparison.parts.iter().flat_map(|part| &part.tables).flat_map(|it| &it.rows);
    let row = rows.find(|row| row.name == "step").expect("a row");
    let calls = [row.before, row.after].map(|side| side.map(|side| side.calls));
    assert_eq!(calls, [Some(8.0), Some(8.0)]);
}

/// Checks that analyses of tables equal those of the trace. The tables also replace those of an
/// earlier version, which had no pauses.
#[cfg(feature = "parquet")]
#[test]
fn tables_keep_pauses() {
    use mlprof_analysis::columns;

    let header = r#""mlprof":{"stage":"fit","pauses":[{"ts":30.0,"until":130.0},{"ts":330.0,"until":400.0}]},"traceName":"x""#;
    let json = format!("{{{header},\"traceEvents\":[{}]}}", events().join(","));
    let before = mlprof_analysis::kineto::read(json.as_bytes()).expect("a trace");
    assert_eq!(before.info.pauses.len(), 2);
    let folder = tempfile::tempdir().expect("a folder");
    let files = columns::write(&before, folder.path()).expect("tables");
    let after = columns::read(&files).expect("they can be read");
    assert_eq!(after.info, before.info.kept_in_tables());
    assert_eq!(Analysis::of(&after), Analysis::of(&before));
    let pauses = columns::TABLES.iter().find(|table| table.name == "pauses");
    std::fs::remove_file(files.of(pauses.expect("a table"))).expect("it is there");
    columns::write(&before, folder.path()).expect("the same trace takes their place");
    assert_eq!(columns::read(&files).expect("tables").info.pauses, before.info.pauses);
}
