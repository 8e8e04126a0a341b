//! Traces with very deep nesting or many crossing slices, as in an endless recursion. If the cost
//! per slice grew with the number of open slices, these tests would take minutes.

use mlprof_analysis::ranks::RankFacts;
use mlprof_analysis::rollups::Rollups;
use mlprof_analysis::{Analysis, kineto, perfetto, xplane};

use crate::synthetic::{MAIN, arrow, json, slice, with};

const CATEGORIES: [&str; 4] = ["cpu_op", "user_annotation", "python_function", "cuda_runtime"];

/// Runs all analyses and writers on a trace. Returns the number of its slices.
fn ask(events: &[String]) -> usize {
    let json = json(events);
    let trace = kineto::read(json.as_bytes()).expect("a trace");
    let analysis = Analysis::of(&trace);
    assert!(!analysis.text(10).is_empty());
    assert!(!Rollups::of(&trace).ops.is_empty());
    drop(RankFacts::of("one", &trace));
    perfetto::write(&trace, &mut Vec::new()).expect("memory takes all");
    let of_xprof = kineto::read_for_xprof(json.as_bytes()).expect("a trace");
    xplane::write(&of_xprof, &mut Vec::new()).expect("memory takes all");
    trace.slices.len()
}

#[test]
fn slices_nest_a_hundred_thousand_deep() {
    let count = 100_000_u32;
    let mut events = vec![slice(MAIN, "user_annotation", "ProfilerStep#1", 0.0, 1e6)];
    for number in 1..=count {
        let at = f64::from(number);
        let duration = 1e6 - 2.0 * at;
        let category = CATEGORIES[number as usize % 4];
        let name = format!("name {}", number % 100);
        let args = format!(r#"{{"correlation":{number}}}"#);
        events.push(with(MAIN, category, &name, (at, duration), &args));
        if category == "cuda_runtime" {
            events.push(with((0, 7), "kernel", "ncclKernel", (at + 0.5, 1.0), &args));
        }
    }
    assert_eq!(ask(&events), 1 + count as usize + count as usize / 4);
}

/// Checks many short slices at the bottom of a deep stack, with steps, batches and arrows among
/// them.
#[test]
fn stacks_are_deep_and_busy() {
    let (depth, count) = (30_000_u32, 30_000_u32);
    let mut events = Vec::new();
    for number in 0..depth {
        let at = f64::from(number);
        events.push(slice(MAIN, "python_function", &format!("f{number}"), at, 1e6 - 2.0 * at));
    }
    for number in 0..count {
        let at = f64::from(depth + 10 * number);
        let args = format!(r#"{{"correlation":{}}}"#, number + 1);
        events.push(slice(MAIN, "user_annotation", &format!("ProfilerStep#{number}"), at, 9.0));
        let batch = format!("execute_context_{number}(8)_generation_0(0)");
        events.push(slice(MAIN, "user_annotation", &batch, at + 0.5, 3.0));
        events.push(with(MAIN, "cuda_runtime", "cudaLaunchKernel", (at + 1.0, 1.0), &args));
        events.push(with((0, 7), "kernel", "gemm", (at + 2.5, 3.0), &args));
        events.push(arrow(number, (MAIN, at + 1.0), ((0, 7), at + 2.5)));
    }
    assert_eq!(ask(&events), (depth + 4 * count) as usize);
}

/// Checks slices of which each begins and ends after the previous one.
#[test]
fn thirty_thousand_slices_cross() {
    let count = 30_000_u32;
    let events: Vec<String> = (0..count)
        .map(|number| slice(MAIN, "cpu_op", "aten::mm", number.into(), f64::from(count)))
        .collect();
    assert_eq!(ask(&events), count as usize);
}
