//! Tests of the notes about data that is missing in the numbers.

use mlprof_core::hook::OpStart;
use mlprof_core::report::tensor::{SortKey, TableOptions, TimeUnit};
use mlprof_core::tensor::{GroupBy, Schedule};
use mlprof_core::{Action, Profiler, ProfilerExt, RunContext, Stage, TensorProfiler};

fn profiler(schedule: Schedule) -> TensorProfiler {
    TensorProfiler::new().export_trace(false).schedule(schedule)
}

/// Runs a fit with this many steps and returns its report.
fn fit(profiler: &TensorProfiler, steps: usize) -> String {
    profiler.setup(Stage::Fit, &RunContext::default());
    for _ in 0..steps {
        let _scope = profiler.profile("training_step");
        profiler.start_op(&OpStart::new(Action::op("aten::mm")));
        profiler.stop(Action::op("aten::mm")).expect("was started");
        drop(_scope);
        profiler.step();
    }
    profiler.teardown(Some(Stage::Fit));
    profiler.summary()
}

fn notes(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.strip_prefix("Note: ")).collect()
}

#[test]
fn a_fit_that_is_long_enough_has_nothing_to_say() {
    let profiler = profiler(Schedule::default());
    let text = fit(&profiler, 8);
    assert!(
        text.starts_with("FIT Profiler Report\n\nSteps 2 to 4 (counted from 0): 9 events in "),
        "{text}"
    );
    assert_eq!(notes(&text), [""; 0], "{text}");
    assert!(text.contains("Self CPU time total: "), "{text}");
}

#[test]
fn all_cycles_are_named() {
    let schedule = Schedule::new().wait(1).warmup(0).active(1).repeat(0);
    let text = fit(&profiler(schedule), 12);
    assert!(text.contains("Steps 1, 3, 5, 7, … (counted from 0) in 6 cycles: 18 events"), "{text}");
    let text = fit(&profiler(schedule.repeat(1)), 4);
    assert!(text.contains("\nStep 1 (counted from 0): 3 events in "), "{text}");
}

#[test]
fn a_fit_that_ends_where_the_first_active_step_begins_says_so() {
    let profiler = profiler(Schedule::default());
    let text = fit(&profiler, 2);
    assert!(text.contains("\nSteps 0 to 1 (counted from 0): 6 events"), "{text}");
    let [note] = notes(&text)[..] else { panic!("{text}") };
    assert!(note.contains("needs 5 steps and fit had 2 steps"), "{note}");
    // Work at the end of the trainer is still shown.
    profiler.setup(Stage::Fit, &RunContext::default());
    (0..2).for_each(|_| profiler.step());
    drop(profiler.profile("on_fit_end"));
    profiler.teardown(Some(Stage::Fit));
    let text = profiler.summary();
    assert!(
        text.contains("Steps 0 to 1 (counted from 0) and events after the last one: 3"),
        "{text}"
    );
    assert!(text.contains("on_fit_end"), "{text}");
}

#[test]
fn a_stage_that_is_one_step_is_reported() {
    let profiler = profiler(Schedule::new().wait(0).warmup(0).active(5));
    profiler.setup(Stage::Fit, &RunContext::default());
    let op = Action::op("aten::mm");
    profiler.start_op(&OpStart::new(op));
    profiler.stop(op).expect("was started");
    profiler.teardown(Some(Stage::Fit));
    let text = profiler.summary();
    assert!(text.contains("\nStep 0 (counted from 0): 2 events"), "{text}");
    assert_eq!(notes(&text), ["step() was never called, so the whole recording is one step"]);
}

/// Checks the report of a program without steps. It must not advise the user to call a function.
#[test]
fn a_program_without_steps_is_one_step_in_its_report() {
    let profiler = profiler(Schedule::default()).record_without_steps(true);
    assert_eq!(
        notes(&fit(&profiler, 0)),
        ["step() was never called, so the whole recording is one step"]
    );
}

#[test]
fn a_fit_that_ends_in_the_middle_of_a_cycle_reports_what_it_has() {
    let profiler = profiler(Schedule::default());
    let text = fit(&profiler, 3);
    let averages = profiler.key_averages(&GroupBy::name());
    let calls = averages.rows.iter().find(|row| row.name == "aten::mm").map(|row| row.calls);
    assert_eq!(calls, Some(1), "{text}");
    let [note] = notes(&text)[..] else { panic!("{text}") };
    assert_eq!(
        note,
        "cycle 0 is incomplete: the schedule needs 5 steps until its end, fit had 3 steps, and 1 of \
         the cycle's 3 steps were recorded"
    );
}

#[test]
fn a_loop_without_steps_is_told_to_call_step() {
    let profiler = profiler(Schedule::default());
    let text = fit(&profiler, 0);
    let [note] = notes(&text)[..] else { panic!("{text}") };
    assert!(note.starts_with("step() was never called, and the first active step is 2"), "{note}");
    let profiler = TensorProfiler::new().export_trace(false);
    drop(profiler.profile("training_step"));
    let text = profiler.summary();
    assert!(text.starts_with("Profiler Report\n\nNothing was recorded.\n"), "{text}");
    assert!(notes(&text)[0].starts_with("step() was never called"), "{text}");
    assert!(
        TensorProfiler::new().export_trace(false).summary().contains("Nothing was recorded."),
        "never used"
    );
}

#[test]
fn a_report_in_the_middle_says_that_more_comes() {
    let profiler = profiler(Schedule::new().wait(0).warmup(0).active(100));
    profiler.setup(Stage::Fit, &RunContext::default());
    profiler.step();
    let text = profiler.summary();
    assert!(notes(&text)[0].contains("still being recorded"), "{text}");
}

#[test]
fn dropped_and_open_events_are_counted() {
    let schedule = Schedule::new().wait(0).warmup(0).active(1).repeat(0);
    let small = profiler(schedule).max_events(2048);
    small.setup(Stage::Fit, &RunContext::default());
    for _ in 0..5000 {
        drop(small.profile("scope"));
    }
    small.step();
    small.teardown(Some(Stage::Fit));
    let text = small.summary();
    let dropped = notes(&text).into_iter().find(|note| note.contains("were dropped"));
    // The span of the step did not fit either.
    assert!(dropped.is_some_and(|note| note.starts_with("2,953 ops")), "{text}");
    let whole = TensorProfiler::new().export_trace(false).without_schedule();
    whole.setup(Stage::Test, &RunContext::default());
    let _open = whole.profile("never_stopped");
    whole.teardown(Some(Stage::Test));
    let text = whole.summary();
    assert!(text.starts_with("TEST Profiler Report\n\nThe whole stage"), "{text}");
    let open = notes(&text).into_iter().find(|note| note.contains("still open"));
    assert!(open.is_some_and(|note| note.starts_with("1 scope ")), "{text}");
    assert!(text.contains("never_stopped"), "{text}");
}

#[test]
fn the_report_is_as_it_was_asked_for() {
    let schedule = Schedule::new().wait(0).warmup(0).active(1).repeat(0);
    let chosen = profiler(schedule).sort_by(SortKey::Count).row_limit(1);
    let chosen = chosen.group_by_phase(true).group_by_module(true).group_by_stack_n(1);
    let text = fit(&chosen.group_by_input_shapes(true), 2);
    assert!(text.contains("Phase") && text.contains("Source Location"), "{text}");
    assert!(text.contains("\n1 of 3 rows are shown.\n"), "{text}");
    let by_calls =
        fit(&profiler(schedule).sort_by("calls".parse().expect("a key")).row_limit(1), 2);
    assert!(by_calls.contains("1 of 3 rows are shown."), "{by_calls}");
    let error = "speed".parse::<SortKey>().expect_err("no such column");
    assert!(error.to_string().contains("\"cpu_time_total\""), "{error}");
    let all = fit(&profiler(schedule).row_limit(None), 2);
    assert!(!all.contains("rows are shown"), "{all}");
}

#[test]
fn thousands_of_names_are_cut_to_twenty_rows_and_the_default_fits_a_terminal() {
    let schedule = Schedule::new().wait(0).warmup(0).active(1).repeat(0);
    let profiler = profiler(schedule).profile_memory(true);
    profiler.setup(Stage::Fit, &RunContext::default());
    for number in 0..100 {
        drop(profiler.profile(format!("{}{number}", "a_very_long_name_".repeat(20))));
    }
    profiler.step();
    profiler.teardown(Some(Stage::Fit));
    let text = profiler.summary();
    assert!(text.contains("\n20 of 101 rows are shown.\n"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 200), "{text}");
    let all = profiler
        .key_averages(&GroupBy::name())
        .table(&TableOptions { row_limit: None, ..TableOptions::default() });
    assert_eq!(all.lines().count(), 101 + 5);
}

#[test]
fn all_times_of_a_table_are_in_the_unit_that_is_asked_for() {
    for (unit, ending) in [
        (TimeUnit::Nanoseconds, "ns"),
        (TimeUnit::Microseconds, "us"),
        (TimeUnit::Milliseconds, "ms"),
        (TimeUnit::Seconds, "s"),
    ] {
        let profiler = TensorProfiler::new().without_schedule().time_unit(unit);
        profiler.setup(Stage::Fit, &RunContext::default());
        profiler.start_op(&OpStart::new(Action::op("slow")));
        std::thread::sleep(std::time::Duration::from_millis(2));
        profiler.stop(Action::op("slow")).expect("it was started");
        drop(profiler.profile("quick"));
        profiler.teardown(Some(Stage::Fit));
        let report = profiler.summary();
        for name in ["slow", "quick"] {
            let row = report.lines().find(|line| line.trim_start().starts_with(name));
            let cells: Vec<_> = row.expect("a row").split_whitespace().collect();
            let times = [cells[2], cells[4], cells[5]];
            let numbers = times.map(|time| time.strip_suffix(ending).expect("the unit"));
            assert!(numbers.iter().all(|number| number.parse::<f64>().is_ok()), "{times:?}");
        }
    }
}

#[test]
fn a_report_on_the_console_says_how_to_get_the_trace() {
    let profiler = TensorProfiler::new().without_schedule();
    profiler.setup(Stage::Fit, &RunContext::default());
    drop(profiler.profile("work"));
    profiler.teardown(Some(Stage::Fit));
    let report = profiler.summary();
    assert!(
        report.contains("no trace was written, because it needs a directory: set dirpath"),
        "{report}"
    );
}
