//! Tests of steps, threads, names and modules.

use mlprof_analysis::{Activity, Analysis};

use crate::synthetic::{MAIN, OTHER, action, analysis, arrow, call, op, slice, work};

/// Returns a step of 100 µs.
fn step() -> Vec<String> {
    vec![
        action("ProfilerStep#1", 0.0, 100.0),
        action("[_TrainingEpochLoop].train_dataloader_next", 0.0, 20.0),
        op("aten::to", 5.0, 3.0),
        action("run_training_batch", 20.0, 70.0),
        action("forward", 20.0, 30.0),
        op("aten::mm", 25.0, 20.0),
        op("aten::addmm", 30.0, 10.0),
        action("optimizer_step", 60.0, 30.0),
    ]
}

fn part(analysis: &Analysis, action: Option<&str>, activity: Activity) -> i64 {
    let parts = &analysis.steps[0].parts;
    let found = parts.iter().filter(|part| {
        part.activity == activity
            && part.action.as_deref().map(|it| it.rsplit('.').next().unwrap_or(it)) == action
    });
    found.map(|part| part.duration_ns).sum()
}

#[test]
fn a_step_is_divided_up_exactly() {
    let analysis = analysis(&step());
    assert_eq!((analysis.rank, analysis.world_size), (1, 2));
    let [step] = &analysis.steps[..] else { panic!("{:?}", analysis.steps) };
    assert_eq!(
        (step.number, step.duration_ns, step.waiting_for_data_ns),
        (Some(1), 100_000, 20_000)
    );
    let data = Some("train_dataloader_next");
    for (action, activity, expected) in [
        (data, Activity::WaitingForData, 17_000),
        (data, Activity::Op, 3_000),
        (Some("forward"), Activity::Annotation, 10_000),
        (Some("forward"), Activity::Op, 20_000),
        (Some("run_training_batch"), Activity::Annotation, 10_000),
        (Some("optimizer_step"), Activity::Annotation, 30_000),
        (None, Activity::Nothing, 10_000),
    ] {
        assert_eq!(part(&analysis, action, activity), expected, "{action:?}, {activity:?}");
    }
    assert_eq!(step.parts.len(), 7);
    assert_eq!(analysis.all_steps, step.parts);
}

#[test]
fn names_have_times_of_their_own() {
    let analysis = analysis(&step());
    let row = |name: &str| analysis.names.iter().find(|row| row.name == name).expect("it ran");
    assert_eq!((row("aten::mm").total_ns, row("aten::mm").self_ns), (20_000, 10_000));
    assert_eq!((row("aten::addmm").self_ns, row("aten::addmm").calls), (10_000, 1));
    assert_eq!(row("run_training_batch").self_ns, 10_000);
    let own: i64 = analysis.names.iter().map(|row| row.self_ns).sum();
    assert_eq!(own, 100_000);
}

#[test]
fn threads_are_busy_waiting_or_idle() {
    let mut events = step();
    events.push(slice(OTHER, "cpu_op", "load", 50.0, 70.0));
    let analysis = analysis(&events);
    let [main, other] = &analysis.threads[..] else { panic!("{:?}", analysis.threads) };
    assert_eq!(main.thread, "thread 100");
    assert_eq!((main.window_ns, main.busy_ns, main.idle_ns), (100_000, 73_000, 10_000));
    assert_eq!((main.waiting_for_data_ns, main.waiting_for_device_ns), (17_000, 0));
    // Time after the last step is outside the window.
    assert_eq!((other.busy_ns, other.idle_ns), (50_000, 50_000));
}

#[test]
fn backward_ops_belong_to_the_modules_of_their_forward_ops() {
    let events = [
        action("ProfilerStep#1", 0.0, 100.0),
        action("[module]Sequential", 0.0, 50.0),
        action("[module]Linear: a", 10.0, 20.0),
        op("aten::linear", 12.0, 16.0),
        slice(OTHER, "cpu_op", "AddmmBackward0", 60.0, 30.0),
        slice(OTHER, "cpu_op", "aten::mm", 70.0, 5.0),
        arrow(1, (MAIN, 12.0), (OTHER, 60.0)),
    ];
    let analysis = analysis(&events);
    let row = |name: &str| analysis.modules.iter().find(|row| row.module == name).expect("it ran");
    let linear = row("[module]Linear: a");
    assert_eq!((linear.calls, linear.total_ns), (1, 20_000));
    assert_eq!((linear.self_ns, linear.backward_ns), (50_000, 30_000));
    assert_eq!(
        (row("[module]Sequential").self_ns, row("[module]Sequential").total_ns),
        (30_000, 50_000)
    );
}

fn steps(long: Option<usize>) -> Vec<String> {
    let (mut events, mut now) = (Vec::new(), 0.0);
    for number in 0..8 {
        let more = if long == Some(number) { 200.0 } else { number as f64 / 10.0 };
        events.push(action(&format!("ProfilerStep#{number}"), now, 100.0 + more));
        events.push(action("forward", now, 40.0));
        events.push(action("optimizer_step", now + 40.0, 50.0 + more));
        now += 100.0 + more;
    }
    events
}

#[test]
fn a_long_step_is_named_with_what_differed() {
    let analysis = analysis(&steps(Some(5)));
    let [outlier] = &analysis.outliers[..] else { panic!("{:?}", analysis.outliers) };
    assert_eq!((outlier.number, outlier.duration_ns), (5, 300_000));
    assert_eq!(outlier.median_ns, 100_350);
    let [difference] = &outlier.differences[..] else { panic!("{:?}", outlier.differences) };
    assert_eq!(difference.action.as_deref(), Some("optimizer_step"));
    assert_eq!((difference.duration_ns, difference.median_ns), (250_000, 50_300));
    let text = analysis.text(10);
    let (_, table) = text.split_once("\nSteps much longer than the others\n").expect("it");
    let row = table.lines().nth(2).expect("a row").trim_start();
    let words: Vec<_> = row.split_whitespace().collect();
    assert_eq!(words[..5], ["5", "300", "µs", "100", "µs"], "{text}");
    assert!(row.contains("optimizer_step") && row.ends_with("by 200 µs"), "{text}");
}

#[test]
fn steps_that_are_alike_have_no_outlier() {
    assert!(analysis(&steps(None)).outliers.is_empty());
}

#[test]
fn a_trace_without_steps_is_divided_up_as_a_whole() {
    let events = [op("aten::mm", 10.0, 20.0), slice(OTHER, "cpu_op", "aten::to", 0.0, 5.0)];
    let analysis = analysis(&events);
    let [whole] = &analysis.steps[..] else { panic!("{:?}", analysis.steps) };
    assert_eq!((whole.number, whole.duration_ns, &*whole.thread), (None, 30_000, "thread 100"));
    assert_eq!(part(&analysis, None, Activity::Op), 20_000);
    assert_eq!(part(&analysis, None, Activity::Nothing), 10_000);
    assert_eq!(analysis.critical_paths[0].length_ns, 30_000);
    assert!(analysis.text(10).contains("no steps"));
}

/// Checks that crossing slices get tracks of their own, and that each moment counts exactly once.
#[test]
fn time_of_slices_that_cross_belongs_to_the_innermost_one() {
    let mut events = step();
    // The op crosses `forward` and ends within `optimizer_step`.
    events.push(op("aten::late", 40.0, 30.0));
    let analysis = analysis(&events);
    assert_eq!(analysis.steps[0].parts.iter().map(|part| part.duration_ns).sum::<i64>(), 100_000);
    let row = analysis.names.iter().find(|row| row.name == "aten::late").expect("it ran");
    assert_eq!((row.total_ns, row.self_ns), (30_000, 20_000));
    let own: i64 = analysis.names.iter().map(|row| row.self_ns).sum();
    assert_eq!((own, analysis.crossing_ns), (100_000, 20_000));
    assert!(analysis.text(10).contains("20.0 µs of their time"), "{}", analysis.text(10));
    assert_eq!(analysis.threads.len(), 1);
}

/// Checks a trace without steps in which the host works for 100 µs and its device for 1 ms.
#[test]
fn time_in_which_only_a_device_works_is_not_unrecorded() {
    let events = [
        op("aten::mm", 0.0, 100.0),
        call("cudaLaunchKernel", 50.0, 10.0, 1),
        work("kernel", "gemm", 70.0, 830.0, 1),
        work("gpu_memcpy", "Memcpy DtoH", 950.0, 50.0, 2),
    ];
    let analysis = analysis(&events);
    let parts = [Activity::Op, Activity::Runtime, Activity::DeviceWorks, Activity::Nothing];
    let found = parts.map(|activity| part(&analysis, None, activity));
    assert_eq!(found, [90_000, 10_000, 850_000, 50_000]);
    assert_eq!(analysis.steps[0].duration_ns, 1_000_000);
    let text = analysis.text(10);
    let heading = "Time breakdown of the trace (thread 100)";
    assert!(text.contains(heading), "{text}");
    assert!(text.contains("850 µs  85.00 %  a device works, nothing recorded here"), "{text}");
}

/// Checks that device work does not change the breakdown of a step recorded on its thread.
#[test]
fn steps_are_about_their_thread() {
    let mut events = step();
    events.push(work("kernel", "gemm", 0.0, 300.0, 1));
    let analysis = analysis(&events);
    assert_eq!(part(&analysis, None, Activity::DeviceWorks), 0);
    assert!(analysis.text(10).contains("Time breakdown of steps (thread 100)"));
    let times = &analysis.devices[0].times;
    assert_eq!((times.outside_ns, times.after_last_step_ns), (200_000, 200_000));
    let text = analysis.text(10);
    assert!(!text.contains("No table has this time"), "{text}");
    assert!(
        text.contains("launch and kernel tables include all work that steps launched"),
        "{text}"
    );
}
