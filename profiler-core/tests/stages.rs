//! Tests of stages that begin inside others, end out of order or twice, and run on several threads.
//! All profilers and file names must follow the same rules.

use std::sync::Arc;
use std::thread;

use mlprof_core::allocation::{AllocationProfiler, TrackingAllocator};
use mlprof_core::tensor::Schedule;
use mlprof_core::{
    AdvancedProfiler, MultiProfiler, NumericsProfiler, Observation, Output, Profiler, ProfilerExt,
    Report, RunContext, SimpleProfiler, Stage, TensorProfiler,
};

#[global_allocator]
static ALLOCATOR: TrackingAllocator = TrackingAllocator::new();

/// Event that a trainer may report, in any order.
#[derive(Debug, Clone, Copy)]
enum StageEvent {
    Begins(Stage),
    Ends(Option<Stage>),
}

const ALL: [StageEvent; 6] = [
    StageEvent::Begins(Stage::Fit),
    StageEvent::Begins(Stage::Validate),
    StageEvent::Begins(Stage::Test),
    StageEvent::Ends(Some(Stage::Fit)),
    StageEvent::Ends(Some(Stage::Validate)),
    StageEvent::Ends(None),
];

fn every_step() -> TensorProfiler {
    let schedule = Schedule::new().wait(0).warmup(0).active(1).repeat(0);
    TensorProfiler::new().schedule(schedule)
}

fn stage_of_report(profiler: &dyn Profiler) -> Option<Stage> {
    profiler.report().expect("has one").header().stage
}

fn report_event(profiler: &dyn Profiler, event: StageEvent) {
    match event {
        StageEvent::Begins(stage) => {
            profiler.setup(stage, &RunContext::default());
            drop(profiler.profile("batch"));
            profiler.step();
        }
        StageEvent::Ends(stage) => profiler.teardown(stage),
    }
}

#[test]
fn all_are_of_the_same_stage_whatever_they_are_told() {
    const LENGTH: usize = 4;
    for number in 0..ALL.len().pow(LENGTH as u32) {
        let profilers: [Arc<dyn Profiler>; 2] =
            [Arc::new(SimpleProfiler::new()), Arc::new(every_step())];
        let mut rest = number;
        let mut said = Vec::new();
        for _ in 0..LENGTH {
            let event = ALL[rest % ALL.len()];
            rest /= ALL.len();
            said.push(event);
            let [simple, tensor] = profilers.each_ref().map(|profiler| {
                report_event(&**profiler, event);
                (stage_of_report(&**profiler), profiler.output().and_then(Output::stage))
            });
            assert_eq!(simple.0, simple.1, "the file and the report of simple: {said:?}");
            assert_eq!(simple, tensor, "{said:?}");
        }
    }
}

fn steps(profiler: &TensorProfiler) -> u64 {
    profiler.snapshot().steps
}

#[test]
fn fit_validate_and_fit_again_is_the_second_fit() {
    let tensor = every_step();
    let run = RunContext::default();
    for (stage, steps) in [(Stage::Fit, 1), (Stage::Validate, 2), (Stage::Fit, 3)] {
        tensor.setup(stage, &run);
        for _ in 0..steps {
            tensor.step();
        }
    }
    assert_eq!(steps(&tensor), 3);
    tensor.teardown(Some(Stage::Fit));
    assert_eq!(steps(&tensor), 3, "the first fit does not go on");
    // Discarded steps use no memory of the next stage and are not in its numbers.
    tensor.setup(Stage::Test, &run);
    tensor.step();
    assert_eq!((steps(&tensor), tensor.snapshot().recorded_steps), (1, 1));
}

#[test]
fn a_stage_that_ends_around_another_keeps_what_it_has_recorded() {
    let tensor = TensorProfiler::new().without_schedule();
    let run = RunContext::default();
    tensor.setup(Stage::Fit, &run);
    drop(tensor.profile("of_fit"));
    tensor.setup(Stage::Validate, &run);
    drop(tensor.profile("of_validate"));
    tensor.teardown(Some(Stage::Fit));
    let report = tensor.snapshot();
    assert_eq!(report.header.stage, Some(Stage::Fit));
    let names: Vec<_> = report.key_averages.rows.iter().map(|row| row.name.as_str()).collect();
    assert!(names.contains(&"of_fit") && !names.contains(&"of_validate"), "{names:?}");
}

#[test]
fn the_memory_of_a_process_is_that_of_the_last_stage_in_whatever_order_stages_end() {
    use Stage::{Fit, Test, Validate};
    let process = |profiler: &AllocationProfiler| profiler.snapshot().process;
    for begun_and_ended in [
        [vec![Fit, Fit], vec![Fit]],
        [vec![Fit, Validate], vec![Fit]],
        [vec![Fit, Validate], vec![Validate, Fit]],
        [vec![Fit, Validate, Fit, Validate], vec![Validate, Fit]],
    ] {
        let profiler = AllocationProfiler::new();
        let [begun, ended] = &begun_and_ended;
        begun.iter().for_each(|stage| profiler.setup(*stage, &RunContext::default()));
        // A stage that is not running cannot end.
        profiler.teardown(Some(Test));
        let before = process(&profiler);
        drop(std::hint::black_box(vec![0_u8; 10_000]));
        assert_ne!(process(&profiler), before, "it goes on: {begun_and_ended:?}");
        ended.iter().for_each(|stage| profiler.teardown(Some(*stage)));
        let before = process(&profiler);
        drop(std::hint::black_box(vec![0_u8; 10_000]));
        assert_eq!(process(&profiler), before, "it is over: {begun_and_ended:?}");
    }
}

#[test]
fn stages_of_several_threads_leave_nothing_running() {
    const ROUNDS: usize = 200;
    let profilers: [Arc<dyn Profiler>; 4] = [
        Arc::new(SimpleProfiler::new()),
        Arc::new(AdvancedProfiler::new()),
        Arc::new(AllocationProfiler::new()),
        Arc::new(every_step()),
    ];
    for profiler in profilers {
        thread::scope(|threads| {
            for stage in [Stage::Fit, Stage::Validate, Stage::Test] {
                let profiler = &profiler;
                threads.spawn(move || {
                    for _ in 0..ROUNDS {
                        report_event(&**profiler, StageEvent::Begins(stage));
                        report_event(&**profiler, StageEvent::Ends(Some(stage)));
                    }
                });
            }
        });
        // All earlier stages are over, so the next one is not nested.
        profiler.setup(Stage::Predict, &RunContext::default());
        drop(profiler.profile("predict"));
        profiler.step();
        assert_eq!(stage_of_report(&*profiler), Some(Stage::Predict));
        profiler.teardown(Some(Stage::Predict));
        assert_eq!(profiler.output().and_then(Output::stage), Some(Stage::Predict));
        let report = profiler.report();
        if let Some(Report::Simple(report)) = report {
            assert!(report.actions.iter().all(|row| row.sub_stage.is_none()), "{report:?}");
        }
    }
}

/// Checks a note that every profiler receives, such as the kind of the loop.
#[test]
fn all_reports_show_a_fact_about_their_stage_once() {
    let profilers: [Arc<dyn Profiler>; 5] = [
        Arc::new(SimpleProfiler::new()),
        Arc::new(SimpleProfiler::new().measure_cpu()),
        Arc::new(AdvancedProfiler::new()),
        Arc::new(every_step()),
        Arc::new(NumericsProfiler::new()),
    ];
    let both = MultiProfiler::new([profilers[0].clone(), profilers[2].clone()]);
    for profiler in profilers.iter().cloned().chain([Arc::new(both) as Arc<dyn Profiler>]) {
        let run = RunContext::default();
        profiler.setup(Stage::Fit, &run);
        for _ in 0..2 {
            profiler.observe(&Observation::StageNote("loop: of this test"));
        }
        drop(profiler.profile("run_training_batch"));
        let notes = |report: Option<Report>| report.expect("a report").header().notes.clone();
        let of_fit = profiler.parts().first().unwrap_or(&profiler).report();
        let notes_of_fit = notes(of_fit);
        assert_eq!(notes_of_fit.iter().filter(|note| *note == "loop: of this test").count(), 1);
        profiler.teardown(Some(Stage::Fit));
        profiler.setup(Stage::Test, &run);
        drop(profiler.profile("run_test_batch"));
        let of_test = notes(profiler.parts().first().unwrap_or(&profiler).report());
        assert!(!of_test.contains(&"loop: of this test".to_owned()), "{of_test:?}");
        profiler.teardown(Some(Stage::Test));
    }
}
