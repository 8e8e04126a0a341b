//! Multiplies matrices by loops of its own, and says what is found, and how long the quickest took.

use std::hint::black_box;
use std::time::{Duration, Instant};

use profiler_core::report::findings::Rules;
use profiler_core::{Profiler, ProfilerExt, SimpleProfiler};

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

fn main() {
    let profiler = SimpleProfiler::new();
    let matrix: Vec<f32> = (0..SIDE * SIDE).map(|number| (number % 97) as f32 * 0.01).collect();
    let mut quickest = f64::INFINITY;
    let started = Instant::now();
    // Longer than rules ask for.
    while started.elapsed() < Duration::from_millis(1500) {
        let _scope = profiler.profile("multiply");
        let mut product = vec![0.0; SIDE * SIDE];
        let started = Instant::now();
        multiply(black_box(&matrix), &matrix, &mut product);
        quickest = quickest.min(started.elapsed().as_secs_f64());
        black_box(product);
    }
    let report = profiler.report().unwrap();
    for finding in Rules::new().apply(&report) {
        println!("found {} {:?} {}", finding.rule, finding.confidence, finding.cost.share);
    }
    println!("quickest {quickest}");
}
