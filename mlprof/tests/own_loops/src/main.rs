//! Multiplies matrices or activates neurons in its own loops. Prints the findings and the time of
//! the fastest call.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mlprof_core::prelude::profiled;
use mlprof_core::report::findings::Rules;
use mlprof_core::tensor::Schedule;
use mlprof_core::{
    Profiler, ProfilerExt, RunContext, Session, SimpleProfiler, Stage, TensorProfiler,
};

const SIDE: usize = 128;

fn multiply(one: &[f32], other: &[f32], product: &mut [f32]) {
    for (row, product) in one.chunks(SIDE).zip(product.chunks_mut(SIDE)) {
        for (factor, other) in row.iter().zip(other.chunks(SIDE)) {
            for (sum, number) in product.iter_mut().zip(other) {
                *sum += factor * number;
            }
        }
    }
}

/// Applies a polynomial that maps the range from 0 to 1 to itself. The compiler vectorises this
/// loop as far as the target allows. The loop waits neither for memory nor for divisions, which are
/// not faster in wide vectors on some processors.
#[profiled]
fn activation(numbers: &mut [f32]) {
    for number in numbers {
        for _ in 0..4 {
            *number *= 3.5 - 3.5 * *number;
        }
    }
}

fn multiply_matrices(profiler: &SimpleProfiler) -> Duration {
    let matrix: Vec<f32> = (0..SIDE * SIDE).map(|number| (number % 97) as f32 * 0.01).collect();
    let mut quickest = Duration::MAX;
    let started = Instant::now();
    // The total time must exceed the minimum that the rules require.
    while started.elapsed() < Duration::from_millis(1500) {
        let _scope = profiler.profile("multiply");
        let mut product = vec![0.0; SIDE * SIDE];
        let started = Instant::now();
        multiply(black_box(&matrix), &matrix, &mut product);
        quickest = quickest.min(started.elapsed());
        black_box(product);
    }
    quickest
}

const STEPS: u32 = 30;

/// Runs steps with enough calls to exceed the time that the rules require, even with wide vectors.
fn activate_neurons(profiler: &Arc<TensorProfiler>) -> Duration {
    let _session = Session::begin(profiler.clone(), Stage::Fit, &RunContext::default()).expect("a profiler");
    let mut numbers = vec![0.5; 1 << 16];
    let mut quickest = Duration::MAX;
    for _step in 0..STEPS {
        for _call in 0..8000 {
            let started = Instant::now();
            activation(black_box(&mut numbers));
            quickest = quickest.min(started.elapsed());
        }
        profiler.step();
    }
    quickest
}

fn main() {
    let (report, quickest) = if std::env::args().any(|argument| argument == "neurons") {
        let schedule = Schedule::new().wait(0).warmup(0).active(STEPS.into()).repeat(1);
        let profiler = Arc::new(TensorProfiler::new().schedule(schedule));
        let quickest = activate_neurons(&profiler);
        (profiler.report(), quickest)
    } else {
        let profiler = SimpleProfiler::new();
        let quickest = multiply_matrices(&profiler);
        (profiler.report(), quickest)
    };
    for finding in Rules::new().apply(&report.unwrap()) {
        println!("found {} {:?} {}", finding.rule, finding.confidence, finding.cost.share);
    }
    println!("quickest {}", quickest.as_secs_f64());
}
