//! Measures the cost of one stack sample, with unwind tables and with frame pointers, and the
//! overhead of sampling for a program.

use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use benches::harness::median;
use benches::settings;
use mlprof_core::sampler::{Sampler, SamplerError, SamplerSettings};

const USAGE: &str = "\
Measures the cost of a stack sample, and the slowdown of a sampled program.

Usage: sampler [--hz N] [--rounds N] [--seconds N]

  --hz N       samples per second for the slowdown [default: 1000]
  --rounds N   number of measurements, whose medians are shown [default: 11]
  --seconds N  duration of a measurement of the cost in seconds [default: 0.5]
";

struct Settings {
    hz: u32,
    rounds: usize,
    seconds: f64,
}

fn options() -> Result<Option<Settings>, lexopt::Error> {
    use lexopt::prelude::*;

    let mut settings = Settings { hz: 1000, rounds: 11, seconds: 0.5 };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("hz") => settings.hz = parser.value()?.parse()?,
            Long("rounds") => settings.rounds = parser.value()?.parse::<usize>()?.max(1),
            Long("seconds") => settings.seconds = parser.value()?.parse()?,
            Long("help") | Short('h') => return Ok(None),
            _ => return Err(argument.unexpected()),
        }
    }
    Ok(Some(settings))
}

/// Performs a fixed amount of work at the given stack depth.
#[inline(never)]
fn work(depth: u32, rounds: u64) -> u64 {
    let below = if depth == 0 {
        (0..rounds).fold(1_u64, |value, _| black_box(value.wrapping_mul(6_364_136_223_846_793_005)))
    } else {
        // The call goes through a function pointer, so that the compiler does not turn the
        // recursion into a loop.
        let next: fn(u32, u64) -> u64 = black_box(work);
        next(depth - 1, rounds)
    };
    black_box(below).wrapping_add(1)
}

/// Returns the time of the signal handler per sample of a stack with about this depth, in seconds.
fn handler_cost(
    depth: u32,
    frame_pointers: bool,
    settings: &Settings,
) -> Result<f64, SamplerError> {
    let mut costs = Vec::new();
    for _ in 0..settings.rounds {
        let rate = SamplerSettings::new(2000).frame_pointers(frame_pointers);
        let sampler = Sampler::start(rate)?;
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs_f64(settings.seconds) {
            work(depth, 100_000);
        }
        let samples = sampler.stop().samples;
        costs.push(samples.handler_seconds / samples.samples.max(1) as f64);
    }
    Ok(median(costs.into_iter()))
}

/// Returns the calling thread's CPU time for the same work, in seconds.
fn processor_seconds() -> f64 {
    let started = processor_time();
    for _ in 0..100 {
        work(20, 1_000_000);
    }
    processor_time() - started
}

fn processor_time() -> f64 {
    std::fs::read_to_string("/proc/thread-self/schedstat")
        .ok()
        .and_then(|text| text.split(' ').next()?.parse::<f64>().ok())
        .map_or(f64::NAN, |nanoseconds| nanoseconds * 1e-9)
}

/// Alternates unsampled and sampled runs. Returns the relative slowdown and the cost per sample in
/// seconds.
fn slowdown(frame_pointers: bool, settings: &Settings) -> Result<(f64, f64), SamplerError> {
    let (mut ratios, mut per_sample) = (Vec::new(), Vec::new());
    for round in 0..settings.rounds * 4 {
        // On some machines, the first of two runs is slower, so the order also alternates.
        let mut alone = if round % 2 == 0 { processor_seconds() } else { 0.0 };
        let rate = SamplerSettings::new(settings.hz).frame_pointers(frame_pointers);
        let sampler = Sampler::start(rate)?;
        let sampled = processor_seconds();
        let samples = sampler.stop().samples.samples;
        if round % 2 == 1 {
            alone = processor_seconds();
        }
        ratios.push(sampled / alone - 1.0);
        per_sample.push((sampled - alone) / samples.max(1) as f64);
    }
    Ok((median(ratios.into_iter()), median(per_sample.into_iter())))
}

fn measure(settings: &Settings) -> Result<(), SamplerError> {
    for (walk, frame_pointers) in [("unwinding tables", false), ("frame pointers", true)] {
        for depth in [10, 40] {
            let cost = handler_cost(depth, frame_pointers, settings)?;
            println!("handler, {walk:<16} {depth} frames + main  {:8.0} ns", cost * 1e9);
        }
        let (slower, per_sample) = slowdown(frame_pointers, settings)?;
        println!(
            "at {} Hz, {walk:<16} {:+.2} % processor time, {:.0} ns per sample including the kernel",
            settings.hz,
            100.0 * slower,
            per_sample * 1e9
        );
    }
    Ok(())
}

fn main() -> ExitCode {
    let settings = match settings(options(), USAGE) {
        Ok(settings) => settings,
        Err(code) => return code,
    };
    match measure(&settings) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
