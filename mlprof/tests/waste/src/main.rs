//! Prepares images repeatedly. Prints the time of the fastest turn and the number of turns.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// Number of values per row of an image.
const ROW: usize = 16;

/// Allocates one block per row.
fn rows_in_blocks(images: &[f32]) -> f32 {
    let halved = |row: &[f32]| row.iter().map(|number| number * 0.5).collect();
    let rows: Vec<Vec<f32>> = images.chunks(ROW).map(halved).collect();
    rows.iter().map(|row| row[3]).sum()
}

/// Uses one block for all rows, which is reused in each turn.
fn rows_in_one(images: &[f32], rows: &mut Vec<f32>) -> f32 {
    rows.clear();
    rows.extend(images.iter().map(|number| number * 0.5));
    rows.chunks(ROW).map(|row| row[3]).sum()
}

/// Takes ownership without needing it.
fn first_of(images: Vec<f32>) -> f32 {
    black_box(&images)[0]
}

fn prepare(images: &[f32]) -> f32 {
    first_of(images.to_vec())
}

/// Returns the fastest of several runs in seconds.
fn quickest(mut work: impl FnMut()) -> f64 {
    let timed = |_| {
        let started = Instant::now();
        work();
        started.elapsed().as_secs_f64()
    };
    (0..20).map(timed).fold(f64::INFINITY, f64::min)
}

/// Prints the costs of blocks and copies on this machine, as thresholds of the rules.
fn print_costs() {
    const BLOCKS: usize = 4096;
    let blocks = quickest(|| {
        let blocks: Vec<Vec<f32>> =
            (0..BLOCKS).map(|_| Vec::with_capacity(black_box(ROW))).collect();
        drop(black_box(blocks));
    });
    println!("allocation-churn.seconds-per-block {}", blocks / BLOCKS as f64);
    let large = vec![1_u8; 48 << 20];
    let copied = quickest(|| drop(black_box(black_box(&large).clone())));
    println!("large-copies.new-bytes-per-second {}", large.len() as f64 / copied);
}

fn main() {
    let what = std::env::args().nth(1).unwrap_or_default();
    if what == "costs" {
        return print_costs();
    }
    let count = if what.starts_with("copies") { 12 << 20 } else { 4096 * ROW };
    let images: Vec<f32> = (0..count).map(|number| (number % 97) as f32).collect();
    let mut kept = Vec::new();
    let mut turn = || match what.as_str() {
        "blocks" => rows_in_blocks(black_box(&images)),
        "blocks-mended" => rows_in_one(black_box(&images), &mut kept),
        "copies" => prepare(black_box(&images)),
        "copies-mended" => black_box(&images)[0],
        other => panic!("what is {other:?}?"),
    };
    let (mut quickest, mut turns) = (f64::INFINITY, 0_u64);
    let started = Instant::now();
    // The total time must exceed the minimum that the rules require.
    while started.elapsed() < Duration::from_millis(1500) {
        let started = Instant::now();
        black_box(turn());
        quickest = quickest.min(started.elapsed().as_secs_f64());
        turns += 1;
    }
    println!("quickest {quickest}");
    println!("turns {turns}");
}
