//! Tests of data that relates the traces of several ranks: the machine's clocks, and the points at
//! which all ranks met.

use mlprof_core::hook::Observation;
use mlprof_core::{Profiler, RunContext};

use crate::parsed::Trace;
use crate::recorded::{action, op, read_run, spin, text, trace};

/// Checks that a time read from two clocks is the same moment, also in the trace's own time.
#[test]
fn a_trace_says_what_the_clocks_showed() {
    let run = RunContext::default().with_rank(1, 2);
    let text = read_run(&run, |profiler| op(profiler, "one", || spin(2000)), text);
    let trace = Trace::of(&text);
    let data = &trace.all["mlprof"];
    let base = trace.all["baseTimeNanoseconds"].as_i64().expect("a number");
    let clocks = data["clocks"].as_array().expect("a list");
    assert_eq!(clocks.len(), 2);
    let number = |reading: usize, name: &str| clocks[reading][name].as_i64();
    let time = |reading: usize| {
        let microseconds = clocks[reading]["ts"].as_f64().expect("a number");
        (microseconds * 1000.0).round() as i64
    };
    let error = |reading| number(reading, "error_ns").expect("a number");
    let allowed = error(0) + error(1) + 20_000; // the rate of so short a span is known to 1 %
    assert!(time(1) - time(0) >= 2_000_000);
    for clock in ["monotonic_ns", "boottime_ns"] {
        if let (Some(first), Some(last)) = (number(0, clock), number(1, clock)) {
            let apart = (last - first) - (time(1) - time(0));
            assert!(apart.abs() <= allowed + (last - first) / 100, "{clock}: {apart} ns");
        }
    }
    let one = trace.slice("one");
    assert!(time(0) <= one.start && one.end <= time(1), "{clocks:?} around {one:?}");
    let realtime = number(0, "realtime_ns").expect("everywhere");
    assert!((realtime - base - time(0)).abs() < 1_000_000_000, "the same second of the wall clock");
    #[cfg(target_os = "linux")]
    {
        assert!(number(0, "monotonic_ns").is_some() && number(0, "boottime_ns").is_some());
        let boot =
            std::fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("Linux has it");
        assert_eq!(data["boot_id"], boot.trim());
    }
}

#[test]
fn collectives_have_their_numbers() {
    let text = trace(|profiler| {
        action(profiler, "backward", || {
            for number in [0, 7] {
                action(profiler, &format!("all_reduce_{number}"), || {
                    profiler.observe(&Observation::Collective(number));
                    op(profiler, "copy", || {});
                });
            }
        });
        // No action is open at this time.
        profiler.observe(&Observation::Collective(9));
    });
    let trace = Trace::of(&text);
    for number in [0, 7] {
        let name = format!("all_reduce_{number}");
        let args = trace.slice(&name).args;
        assert_eq!((&args["Collective name"], &args["Seq"]), (&name.into(), &number.into()));
    }
    let backward = trace.slice("backward").args;
    assert!(backward.get("Seq").is_none() && backward.get("Collective name").is_none());
    let others = trace.slices().into_iter().filter(|slice| slice.args.get("Seq").is_some());
    assert_eq!(others.count(), 2);
}

/// Checks the macro, also while other profilers are active.
#[test]
fn the_macro_marks_what_it_opens() {
    use mlprof_core::{SimpleProfiler, TensorProfiler, activate, profile_collective};
    use std::sync::{Arc, Mutex};

    let traces: Arc<Mutex<Vec<String>>> = Arc::default();
    let place = traces.clone();
    let tensor = TensorProfiler::new()
        .without_schedule()
        .on_trace_ready(move |cycle| place.lock().expect("no panic").push(text(cycle)));
    let simple = Arc::new(SimpleProfiler::new());
    let both = Arc::new(mlprof_core::MultiProfiler::new([
        simple.clone() as Arc<dyn Profiler>,
        Arc::new(tensor),
    ]));
    let active = activate(both.clone());
    both.setup(mlprof_core::Stage::Fit, &RunContext::default());
    for step in 3..5 {
        let _scope = profile_collective!("average_gradients", step);
    }
    both.teardown(None);
    drop(active);
    let traces = traces.lock().expect("no panic");
    let trace = Trace::of(&traces[0]);
    let of_name = |slice: &crate::parsed::Slice| slice.name == "average_gradients";
    let mut met: Vec<_> = trace.slices().into_iter().filter(of_name).collect();
    met.sort_by_key(|slice| slice.start);
    assert_eq!(met.iter().map(|slice| slice.args["Seq"].clone()).collect::<Vec<_>>(), [3, 4]);
    let _none_active = profile_collective!("average_gradients", 9);
}
