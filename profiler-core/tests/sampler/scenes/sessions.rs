//! Tests of the assignment of samples to reports, and of their display.

use std::hint::black_box;
use std::time::Duration;

use mlprof_core::report::SamplesReport;
use mlprof_core::report::samples::Samples;
use mlprof_core::sampler::{HIGHEST_RATE, Sampler, SamplerError};
use mlprof_core::{
    AdvancedProfiler, Profiler, ProfilerExt, Report, RunContext, SimpleProfiler, Stage,
};

use crate::work::{action, burn_large, burn_medium, burn_small, processor_time};

pub fn refusals() {
    for hz in [0, HIGHEST_RATE + 1] {
        let error = Sampler::start(hz).expect_err("no such rate");
        assert!(matches!(error, SamplerError::Rate { .. }) && error.to_string().contains("20000"));
    }
    let first = Sampler::start(1000).expect("nothing else samples");
    assert!(matches!(Sampler::start(1000), Err(SamplerError::Running)));
    let profiler = AdvancedProfiler::new().sampled(1000);
    drop(profiler.profile("exact"));
    let text = profiler.summary();
    assert!(
        text.contains("Profile stats for: exact") && text.contains("another sampler"),
        "{text}"
    );
    drop(first);
    let profiler = AdvancedProfiler::new().sampled(1000).sampled(500);
    let samples = profiler.snapshot().samples.expect("it is sampled");
    assert_eq!(samples.asked_hz, 500.0);
    assert!(!samples.notes.iter().any(|note| note.contains("another sampler")), "{samples:?}");
}

fn burn(milliseconds: u64, work: fn(u64) -> u64) {
    let start = processor_time();
    while processor_time() - start < Duration::from_millis(milliseconds) {
        black_box(work(10_000));
    }
}

fn has(samples: &Samples, name: &str) -> bool {
    samples.actions.iter().any(|action| action.action == name)
}

/// Checks that every stage has its own samples, and that those of a sanity check are marked.
pub fn stages() {
    let profiler = AdvancedProfiler::new().sampled(1000);
    let run = RunContext::default();
    {
        let _action = profiler.profile("before");
        burn(100, burn_small);
    }
    profiler.setup(Stage::Fit, &run);
    profiler.setup(Stage::SanityCheck, &run);
    {
        let _action = profiler.profile("check");
        burn(100, burn_medium);
    }
    profiler.teardown(Some(Stage::SanityCheck));
    {
        let _action = profiler.profile("train");
        burn(200, burn_large);
    }
    burn(100, burn_large);
    let fit = profiler.snapshot().samples.expect("it is sampled");
    assert!(has(&fit, "before") && has(&fit, "train") && has(&fit, "(outside of any action)"));
    assert_eq!(action(&fit, "check").sub_stage, Some(Stage::SanityCheck));
    assert!(profiler.summary().contains("Samples in: [SanityCheck]check"));
    profiler.teardown(Some(Stage::Fit));
    let after = profiler.snapshot().samples.expect("it is sampled");
    assert_eq!(action(&after, "train").all, action(&fit, "train").all, "the stage's report stays");
    profiler.setup(Stage::Test, &run);
    {
        let _action = profiler.profile("test");
        burn(100, burn_small);
    }
    let test = profiler.snapshot().samples.expect("it is sampled");
    assert!(has(&test, "test") && !has(&test, "train") && !has(&test, "before"), "its own only");
}

/// Checks that actions of another recorder are not included.
pub fn two_recorders() {
    let profiler = AdvancedProfiler::new().sampled(1000);
    let other = SimpleProfiler::new();
    {
        let _action = other.profile("of_the_other");
        burn(200, burn_small);
    }
    {
        let _action = profiler.profile("own");
        burn(200, burn_small);
    }
    let samples = profiler.snapshot().samples.expect("it is sampled");
    assert!(has(&samples, "own") && has(&samples, "(outside of any action)"));
    assert!(!has(&samples, "of_the_other"));
    drop(profiler);
    // A sampler without a profiler takes all samples.
    let sampler = Sampler::start(1000).expect("the other one is gone");
    let _action = other.profile("of_the_other");
    burn(200, burn_small);
    assert!(has(&sampler.stop().samples, "of_the_other"));
}

pub fn text_and_json() {
    let sampler = Sampler::start(1000).expect("nothing else samples");
    let profiler = SimpleProfiler::new();
    {
        let _outer = profiler.profile("outer;1");
        let _inner = profiler.profile("inner");
        burn(300, burn_small);
    }
    let report: SamplesReport = sampler.stop();
    let text = mlprof_core::report::advanced::samples::paint(&report);
    println!("{text}");
    for part in
        ["Samples in: inner", "arithmetic (work.rs:", "1000 Hz requested", "Threads\n", "main"]
    {
        assert!(text.contains(part), "{part:?}");
    }
    let lines = report.samples.folded_stacks();
    let inner = lines.iter().filter(|line| line.starts_with("outer,1;inner;"));
    let ticks = |line: &String| {
        line.rsplit_once(' ').and_then(|(_, ticks)| ticks.parse::<u64>().ok()).expect("a number")
    };
    let sum: u64 = inner.clone().map(ticks).sum();
    assert_eq!(sum, action(&report.samples, "inner").all.working_ticks);
    assert!(inner.clone().any(|line| line.contains("main;") && line.contains("burn_small")));
    let all: u64 = lines.iter().map(ticks).sum();
    let threads = report.samples.threads.iter().map(|thread| thread.working_ticks);
    assert_eq!(all, threads.sum::<u64>(), "nothing is lost on the way");
    let report = Report::Samples(report);
    let json = report.to_json().expect("a report is JSON");
    assert!(json.contains("\"profiler\": \"samples\""));
    assert_eq!(Report::from_json(&json).expect("reads back"), report);
}
