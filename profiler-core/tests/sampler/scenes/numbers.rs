//! Tests of the numbers' accuracy.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use mlprof_core::report::samples::{ActionSamples, SampleCounts, Samples};
use mlprof_core::sampler::{Sampler, SamplerSettings};
use mlprof_core::{AdvancedProfiler, ProfilerExt};

use crate::work::{
    TrueTimes, action, burn_large, burn_medium, burn_small, calls_large, function, processor_time,
    share_is_off,
};

const OUTSIDE: &str = "(outside of any action)";

pub fn shares_with_tables() {
    shares(SamplerSettings::new(1000));
}

/// Checks shares with frame pointers. If some code has none, only the innermost function is
/// certain, and only it is compared.
pub fn shares_by_frame_pointers() {
    shares(SamplerSettings::new(1000).frame_pointers(true));
}

/// Measures up to three times. Random shares must be right in one measurement, because a busy
/// machine may distort one, while an error in the code affects all. Certain results must be right
/// in every measurement.
fn shares(settings: SamplerSettings) {
    let mut off = Vec::new();
    for _ in 0..3 {
        let measured = Measured::of(settings);
        measured.check_what_is_certain();
        match measured.estimates_that_are_off() {
            none if none.is_empty() => return,
            some => off.push(some),
        }
    }
    panic!("in three measurements: {off:#?}");
}

/// Returns `true` if this program was compiled with frame pointers. In that case the frame pointer
/// is near the function's local variables.
fn has_frame_pointers() -> bool {
    #[inline(never)]
    fn frame_is_near(depth: u32) -> bool {
        // This array is larger than the distance to any caller's frame.
        let local = black_box([0_u8; 4096]);
        if depth > 0 {
            return black_box(frame_is_near(depth - 1)) && local[0] == 0;
        }
        let frame: usize;
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the instruction only copies a register.
        unsafe {
            std::arch::asm!("mov {}, rbp", out(reg) frame, options(nomem, nostack));
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: the instruction only copies a register.
        unsafe {
            std::arch::asm!("mov {}, x29", out(reg) frame, options(nomem, nostack));
        }
        frame.abs_diff(local.as_ptr() as usize) < 3 * local.len()
    }
    frame_is_near(4)
}

/// Rounds of work that take about ten or a hundred microseconds. This is much shorter than a
/// scheduler time slice, so that preemption does not affect the shares.
const UNIT: u64 = if cfg!(debug_assertions) { 3_000 } else { 20_000 };

/// Samples of two threads with an action and one without, and their true times.
struct Measured {
    samples: Samples,
    text: String,
    inside: TrueTimes,
    outside: TrueTimes,
    walks_tables: bool,
}

impl Measured {
    fn of(settings: SamplerSettings) -> Self {
        let walks_tables = settings == SamplerSettings::new(1000);
        let profiler = AdvancedProfiler::new().sampled(settings);
        let (inside, outside) = (TrueTimes::default(), TrueTimes::default());
        let work = |truth: &TrueTimes| {
            // The loop ends after 1.5 s of processor time, so a busy machine only makes it longer.
            let start = processor_time();
            while processor_time() - start < Duration::from_millis(1500) {
                truth.time(&truth.small, || burn_small(UNIT));
                truth.time(&truth.medium, || burn_medium(3 * UNIT));
                truth.time(&truth.large, || calls_large(6 * UNIT));
            }
        };
        std::thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| {
                    let _action = profiler.profile("known_shares");
                    work(&inside);
                });
            }
            threads.spawn(|| work(&outside));
        });
        let samples = profiler.snapshot().samples.expect("it is sampled");
        let text = mlprof_core::Profiler::summary(&profiler);
        println!("{} samples, {:?}\n{text}", samples.samples, samples.notes);
        Self { samples, text, inside, outside, walks_tables }
    }

    fn actions(&self) -> [(&'static str, &TrueTimes, &ActionSamples); 2] {
        let both = [("known_shares", &self.inside), (OUTSIDE, &self.outside)];
        both.map(|(name, truth)| (name, truth, action(&self.samples, name)))
    }

    /// Returns the samples of a function of an action, including inlined code.
    fn counts(&self, found: &ActionSamples, function_name: &str) -> SampleCounts {
        function(&self.samples, found, function_name)[1]
    }

    /// Checks how callers are found, which does not depend on the machine's load or the time of the
    /// samples.
    fn check_what_is_certain(&self) {
        for (name, _, found) in self.actions() {
            let cut = self.counts(found, "(unknown callers)");
            println!("{name}: {cut:?} without all callers");
            assert!(cut.working_ticks * 20 < found.all.working_ticks, "the way out is found");
            if self.walks_tables {
                let [own, total] = function(&self.samples, found, "calls_large");
                assert!(own.working_ticks * 20 < total.working_ticks, "{own:?} {total:?}");
                let large = self.counts(found, "burn_large").working_ticks;
                assert!(
                    (large..large + large / 50 + 5).contains(&total.working_ticks),
                    "its caller"
                );
            }
        }
        assert!(self.text.contains("Samples in: known_shares"), "{}", self.text);
    }

    /// Returns descriptions of shares and sums that are too far off.
    fn estimates_that_are_off(&self) -> Vec<String> {
        let mut off = Vec::new();
        for (name, truth, found) in self.actions() {
            // Without frame pointers the walk also succeeds, but it skips most callers.
            if !self.walks_tables && !has_frame_pointers() {
                continue;
            }
            let all = [
                ("burn_small", &truth.small),
                ("burn_medium", &truth.medium),
                ("burn_large", &truth.large),
            ];
            // The counts include inlined code, but not the clock readings between the functions.
            let counted = all.map(|(function_name, _)| self.counts(found, function_name));
            let burnt: u64 = counted.iter().map(|counts| counts.working_ticks).sum();
            for ((_, sum), mut counts) in all.into_iter().zip(counted) {
                counts.working_ticks = counts.working_ticks * found.all.working_ticks / burnt;
                off.extend(share_is_off(&self.samples, name, &counts, truth.share(sum)));
            }
        }
        // The samples cover all processor time of the process, except for the sampler's own and the
        // first moments.
        let (work, clock) = (self.samples.working_seconds(), self.samples.processor_seconds);
        println!("{work} s of work, {clock} s of processor time");
        if !(0.8..1.2).contains(&(work / clock)) {
            off.push(format!("{work} of {clock} s"));
        }
        off
    }
}

fn sampled(work: impl FnOnce(&AdvancedProfiler)) -> Samples {
    let profiler = AdvancedProfiler::new().sampled(1000);
    work(&profiler);
    profiler.snapshot().samples.expect("it is sampled")
}

pub fn waiting_and_working() {
    let mut waited = 0.0;
    let samples = sampled(|profiler| {
        {
            let started = Instant::now();
            let action = profiler.profile("sleeps");
            std::thread::sleep(Duration::from_millis(500));
            drop(action);
            waited = started.elapsed().as_secs_f64();
        }
        let _action = profiler.profile("works");
        let start = processor_time();
        while processor_time() - start < Duration::from_millis(500) {
            burn_small(10_000);
        }
    });
    for name in ["sleeps", "works"] {
        println!("{name}: {:?}", action(&samples, name).all);
    }
    let (sleeps, works) = (action(&samples, "sleeps").all, action(&samples, "works").all);
    let slept = sleeps.waiting_ticks as f64 * samples.seconds_per_tick;
    // The limit allows one tick at either end.
    let most = 1.01 * waited + 2.0 * samples.seconds_per_tick;
    assert!((0.4..most).contains(&slept), "{slept} s, where it was in there for {waited} s");
    assert!(sleeps.working_ticks * 10 < sleeps.waiting_ticks);
    assert!(works.waiting_ticks * 10 < works.working_ticks);
}

/// Checks that waiting threads are interrupted only a few times, and that their waiting time still
/// counts.
pub fn idle_threads() {
    let barrier = Barrier::new(17);
    let sampler = Sampler::start(1000).expect("nothing else samples");
    let waited = std::thread::scope(|threads| {
        for _ in 0..16 {
            threads.spawn(|| barrier.wait());
        }
        let started = Instant::now();
        std::thread::sleep(Duration::from_millis(1000));
        barrier.wait();
        started.elapsed().as_secs_f64()
    });
    let samples = sampler.stop().samples;
    let waiting: u64 = samples.threads.iter().map(|thread| thread.waiting_ticks).sum();
    let seconds = waiting as f64 * samples.seconds_per_tick;
    println!("{} samples; {seconds} s of waiting in 17 threads of {waited} s", samples.samples);
    assert!(samples.samples < 17 * 200, "{} samples of threads that wait", samples.samples);
    assert!((0.9..1.1).contains(&(seconds / (17.0 * waited))), "{seconds} s");
}

/// Checks samples of C library functions, with their names and callers.
pub fn shared_libraries() {
    #[inline(never)]
    fn sorts_by_the_c_library() {
        unsafe extern "C" fn compare(one: *const libc::c_void, other: *const libc::c_void) -> i32 {
            // SAFETY: `qsort` passes pointers to elements of the array below.
            let (one, other) = unsafe { (*one.cast::<u32>(), *other.cast::<u32>()) };
            one.cmp(&other) as i32
        }
        let mut numbers: Vec<u32> =
            (0..200_000_u32).map(|n| n.wrapping_mul(2_654_435_761)).collect();
        // SAFETY: the array has this number of elements of this size, and `compare` has the right
        // signature.
        unsafe { libc::qsort(numbers.as_mut_ptr().cast(), numbers.len(), 4, Some(compare)) };
        black_box(&numbers);
    }
    let samples = sampled(|profiler| {
        let _action = profiler.profile("sorts");
        let start = processor_time();
        while processor_time() - start < Duration::from_millis(600) {
            sorts_by_the_c_library();
        }
    });
    let sorts = action(&samples, "sorts");
    let [_, caller] = function(&samples, sorts, "sorts_by_the_c_library");
    let in_c = sorts.functions.iter().filter(|row| {
        samples.function(row).is_some_and(|code| code.library.starts_with("libc.so"))
    });
    let in_c: u64 = in_c.map(|row| row.own.working_ticks).sum();
    println!("{in_c} ticks in libc of {:?}, {caller:?} below the caller", sorts.all);
    let all = sorts.all.working_ticks;
    assert!(in_c * 10 > all, "qsort takes time");
    assert!(caller.working_ticks * 10 > all * 9, "the way out of the library is found");
    let named = samples.functions.iter().any(|code| code.name.contains("qsort"));
    assert!(named, "a name from the symbol table");
}

/// Checks that only the innermost frames are kept and that the innermost function is correct.
pub fn deep_recursion() {
    #[inline(never)]
    fn recurses(depth: u32) -> u64 {
        let below = if depth == 0 { burn_large(200_000_000) } else { recurses(depth - 1) };
        black_box(below).wrapping_add(u64::from(depth))
    }
    let samples = sampled(|profiler| {
        let builder = std::thread::Builder::new().stack_size(512 << 20);
        std::thread::scope(|threads| {
            let recursion = builder.spawn_scoped(threads, || {
                let _action = profiler.profile("recursion");
                black_box(recurses(100_000));
            });
            recursion.expect("a thread").join().expect("no overflow");
        });
    });
    let recursion = action(&samples, "recursion");
    let [own, total] = function(&samples, recursion, "recurses");
    let [_, burnt] = function(&samples, recursion, "burn_large");
    let all = recursion.all.working_ticks;
    println!("{all} ticks; recurses: {own:?} {total:?}; burn_large: {burnt:?}");
    assert!(burnt.working_ticks * 2 > all);
    assert!(total.working_ticks <= all, "counted once per stack");
    assert!(total.working_ticks * 10 > all * 9, "the callers that are kept are right");
    assert!(samples.functions.iter().any(|code| code.name == "(unknown callers)"));
    black_box(burn_medium(1));
}
