//! Measurement of all peaks within a fixed time.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use super::memory::{Transfer, Walk};
use super::peaks::{BandwidthPoint, Peaks, ProductPeak, Rate};
use super::processor::Processor;
use super::product::{Kernel, Product, of_f32, of_f64};

/// Time of all measurements. Creating threads and memory takes the rest of 300 ms.
const BUDGET: Duration = Duration::from_millis(230);
/// Shortest part of a round that counts on its own.
const WINDOW: Duration = Duration::from_micros(500);
/// Share of the time for matrix products.
const FOR_PRODUCTS: f64 = 0.15;
/// Rounds of each measurement. The fastest one is the peak, and the others give the spread.
const ROUNDS: u32 = 3;
/// Shares of time for the last working set.
const LAST_WEIGHT: u32 = 4;
/// Working sets of one thread in bytes. The last one is replaced by one that no cache holds.
const WORKING_SETS: [usize; 6] = [16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20];

/// Measures this machine.
pub(super) fn measure(processor: Processor) -> Peaks {
    let started = Instant::now();
    let kernel = Kernel::detect();
    let cores = usize::try_from(processor.cores).unwrap_or(1).max(1);
    let mut all = vec![1];
    all.extend((cores > 1).then_some(cores));
    let share = |part: f64, count: usize| BUDGET.mul_f64(part / count as f64);
    let of_product = share(FOR_PRODUCTS, 2 * all.len());
    let mut products = Vec::new();
    for threads in &all {
        for (dtype, of) in [("f32", of_f32 as fn(Kernel) -> Product), ("f64", of_f64)] {
            let rate = product_rate(*threads, of_product, || of(kernel));
            let dtype = dtype.to_owned();
            products.push(ProductPeak { dtype, threads: *threads as u64, flops: rate });
        }
    }
    let mut memory = vec![0_u64; largest_set(&processor) / 8];
    touch(&mut memory, cores);
    let sets = WORKING_SETS.len() + LAST_WEIGHT as usize;
    let transfers = sets * Transfer::ALL.len() * all.len();
    let of_transfer = share(1.0 - FOR_PRODUCTS, transfers);
    let bandwidth = curves(&all, of_transfer, &mut memory, kernel);
    Peaks {
        schema_version: Peaks::SCHEMA_VERSION,
        processor,
        kernel: kernel.name().to_owned(),
        measured_in_seconds: started.elapsed().as_secs_f64(),
        products,
        bandwidth,
        empty_call_seconds: empty_call(),
    }
}

/// Returns the size of a working set that no cache holds, in bytes.
fn largest_set(processor: &Processor) -> usize {
    let cache = usize::try_from(processor.last_cache_bytes.unwrap_or(0)).unwrap_or(0);
    cache.saturating_mul(4).clamp(64 << 20, 256 << 20)
}

/// Writes to all pages, because untouched pages share one page of zeros.
fn touch(memory: &mut [u64], threads: usize) {
    let part = memory.len().div_ceil(threads);
    thread::scope(|scope| {
        for part in memory.chunks_mut(part) {
            scope.spawn(|| part.fill(1));
        }
    });
}

/// Repeats `step` until the share of time is over. Returns the units per second of each round:
/// those of its fastest window, because other processes interrupt some, or those of the median
/// window.
fn rounds(
    share: Duration,
    barrier: &Barrier,
    is_median: bool,
    mut step: impl FnMut() -> u64,
) -> [f64; 3] {
    step();
    [0; ROUNDS as usize].map(|_| {
        barrier.wait();
        let started = Instant::now();
        let (mut from, mut units, mut windows) = (started, 0, Vec::new());
        while windows.is_empty() || from - started < share / ROUNDS {
            units += step();
            let now = Instant::now();
            if now - from >= WINDOW {
                windows.push(units as f64 / (now - from).as_secs_f64());
                (from, units) = (now, 0);
            }
        }
        windows.sort_by(f64::total_cmp);
        let place = if is_median { windows.len() / 2 } else { windows.len() - 1 };
        windows[place]
    })
}

/// Returns the rate of all threads together.
fn together(rates: impl IntoIterator<Item = [f64; 3]>) -> Rate {
    let mut sums = [0.0_f64; 3];
    for rates in rates {
        sums.iter_mut().zip(rates).for_each(|(sum, rate)| *sum += rate);
    }
    let (best, worst) =
        (sums.iter().copied().fold(0.0, f64::max), sums.into_iter().fold(f64::MAX, f64::min));
    Rate { per_second: best, spread: (best - worst) / best }
}

fn product_rate(threads: usize, share: Duration, product: impl Fn() -> Product + Sync) -> Rate {
    let barrier = Barrier::new(threads);
    let one = || rounds(share, &barrier, false, product());
    thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(one)).collect();
        let own = one();
        together([own].into_iter().chain(others.into_iter().filter_map(|other| other.join().ok())))
    })
}

/// Measures the bandwidth for each working set with each number of threads.
fn curves(
    threads: &[usize],
    share: Duration,
    memory: &mut [u64],
    kernel: Kernel,
) -> Vec<BandwidthPoint> {
    let (mut points, all) = (Vec::new(), memory.len());
    for threads in threads {
        let part = all / threads;
        points.push(point(*threads, part, share * LAST_WEIGHT, memory, kernel));
    }
    for set in WORKING_SETS.iter().rev().map(|bytes| bytes / 8) {
        for threads in threads.iter().filter(|threads| 2 * set < all / **threads) {
            points.push(point(*threads, set, share, memory, kernel));
        }
    }
    points.sort_by_key(|point| (point.threads, point.working_set_bytes));
    points
}

/// Measures the bandwidth of threads, each with its own working set of `set` numbers.
fn point(
    threads: usize,
    set: usize,
    share: Duration,
    memory: &mut [u64],
    kernel: Kernel,
) -> BandwidthPoint {
    let barrier = Barrier::new(threads);
    let is_last = set == memory.len() / threads;
    let one = |memory: &mut [u64]| -> Vec<[f64; 3]> {
        let rates = |transfer| {
            let mut walk = Walk::new(memory, transfer, kernel);
            // At first, caches hold what is written to memory.
            rounds(share, &barrier, is_last, || walk.step())
        };
        Transfer::ALL.map(rates).into()
    };
    let all: Vec<Vec<[f64; 3]>> = thread::scope(|scope| {
        let mut parts = memory.chunks_exact_mut(set);
        let own = parts.next();
        let others: Vec<_> =
            parts.take(threads - 1).map(|part| scope.spawn(|| one(part))).collect();
        let own = own.map(one);
        own.into_iter().chain(others.into_iter().filter_map(|other| other.join().ok())).collect()
    });
    let rate = |place: usize| together(all.iter().filter_map(|rates| rates.get(place).copied()));
    BandwidthPoint {
        threads: threads as u64,
        working_set_bytes: (8 * set * threads) as u64,
        read: rate(0),
        write: rate(1),
        copy: rate(2),
    }
}

/// Returns the time of a call that only creates and frees a small output, in seconds.
fn empty_call() -> f64 {
    let call: &dyn Fn() -> Vec<u8> = &|| black_box(Vec::with_capacity(64));
    let calls = 10_000;
    let time = |_| {
        let started = Instant::now();
        for _ in 0..calls {
            drop(black_box(black_box(call)()));
        }
        started.elapsed().as_secs_f64() / f64::from(calls)
    };
    (0..ROUNDS).map(time).fold(f64::MAX, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_add_up_and_the_slowest_round_is_the_spread() {
        let rate = together([[1.0, 2.0, 3.0], [3.0, 2.0, 5.0]]);
        assert_eq!(rate, Rate { per_second: 8.0, spread: 0.5 });
    }

    /// Measures for a short time. Rates depend on the machine, so only their order is checked.
    #[test]
    fn every_kernel_and_transfer_is_measured() {
        let share = Duration::from_millis(3);
        for kernel in [Kernel::detect(), Kernel::Baseline] {
            let rate = product_rate(2, share, || of_f64(kernel));
            assert!(rate.per_second > 1e6, "{rate:?}");
            let mut memory = vec![1; 1 << 18];
            let points = curves(&[2], share, &mut memory, kernel);
            let sets: Vec<u64> = points.iter().map(|point| point.working_set_bytes).collect();
            assert_eq!(sets, [32 << 10, 128 << 10, 512 << 10, 2 << 20]);
            for point in points {
                let rates = [point.read, point.write, point.copy];
                assert!(rates.iter().all(|rate| rate.per_second > 1e6), "{point:?}");
            }
        }
        assert!(empty_call() > 0.0);
    }
}
