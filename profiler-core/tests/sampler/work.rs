//! Work in known functions, with their times by the thread's own clock.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mlprof_core::report::samples::{ActionSamples, SampleCounts, Samples};

/// Returns the calling thread's processor time.
pub fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a local variable and valid during the call.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Does this many rounds of arithmetic, of which several take a microsecond.
#[inline(always)]
fn arithmetic(rounds: u64) -> u64 {
    let mut value = 1_u64;
    for _ in 0..rounds {
        value = black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
    value
}

#[inline(never)]
pub fn burn_small(rounds: u64) -> u64 {
    black_box(arithmetic(rounds))
}

#[inline(never)]
pub fn burn_medium(rounds: u64) -> u64 {
    black_box(arithmetic(rounds))
}

#[inline(never)]
pub fn burn_large(rounds: u64) -> u64 {
    black_box(arithmetic(rounds))
}

/// Runs [`burn_large`] through one more function.
#[inline(never)]
pub fn calls_large(rounds: u64) -> u64 {
    black_box(burn_large(rounds)).wrapping_add(1)
}

/// True times of the functions, in nanoseconds.
#[derive(Default)]
pub struct TrueTimes {
    pub small: AtomicU64,
    pub medium: AtomicU64,
    pub large: AtomicU64,
}

impl TrueTimes {
    /// Runs the function and adds its time to `sum`.
    pub fn time(&self, sum: &AtomicU64, work: impl FnOnce() -> u64) {
        let before = processor_time();
        black_box(work());
        let spent = processor_time() - before;
        sum.fetch_add(spent.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Returns the share of `sum` in the total time.
    pub fn share(&self, sum: &AtomicU64) -> f64 {
        let all = [&self.small, &self.medium, &self.large];
        let all: u64 = all.iter().map(|sum| sum.load(Ordering::Relaxed)).sum();
        sum.load(Ordering::Relaxed) as f64 / all as f64
    }
}

/// Returns the samples of an action.
pub fn action<'samples>(samples: &'samples Samples, name: &str) -> &'samples ActionSamples {
    let found = samples.actions.iter().find(|action| action.action == name);
    found.unwrap_or_else(|| panic!("no samples in {name:?}: {:?}", names(samples)))
}

fn names(samples: &Samples) -> Vec<&str> {
    samples.actions.iter().map(|action| action.action.as_str()).collect()
}

/// Returns the self and total counts of all functions with the name `function`.
pub fn function(samples: &Samples, action: &ActionSamples, function: &str) -> [SampleCounts; 2] {
    let mut sums = [SampleCounts::default(); 2];
    for row in &action.functions {
        let name = &samples.function(row).expect("its function").name;
        if name.rsplit("::").next() == Some(function) {
            for (sum, counts) in sums.iter_mut().zip([row.own, row.total]) {
                sum.samples += counts.samples;
                sum.working_ticks += counts.working_ticks;
                sum.waiting_ticks += counts.waiting_ticks;
                sum.stalled_ticks += counts.stalled_ticks;
            }
        }
    }
    sums
}

/// Describes the deviation of a share from its true value. Returns it only if it exceeds two
/// percentage points and the statistical error of so few samples.
pub fn share_is_off(
    samples: &Samples,
    name: &str,
    counts: &SampleCounts,
    truth: f64,
) -> Option<String> {
    let (share, error) = action(samples, name).share(counts);
    println!("{name}: {:.2} ± {:.2} %, truth {:.2} %", 100.0 * share, 100.0 * error, 100.0 * truth);
    let is_off = (share - truth).abs() >= f64::max(0.02, 4.0 * error);
    is_off.then(|| format!("{name}: {share} ± {error}, not {truth}"))
}
