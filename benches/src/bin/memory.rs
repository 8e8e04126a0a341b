//! Measures the memory of profilers. It must be the same after 10⁵ and after 10⁸ calls, without
//! allocations per scope. The program also measures the memory for each of ten thousand names.

use std::alloc::{GlobalAlloc, Layout, System};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use benches::conditions::Conditions;
use benches::settings;
use mlprof_core::{Action, AdvancedProfiler, Profiler, ProfilerExt, SimpleProfiler, profile};

const USAGE: &str = "\
Measures the memory of the profilers and their allocations per scope.

Usage: memory [--calls N] [--check]

  --calls N  large number of calls [default: 100000000]
  --check    exit with 1 if memory grows with calls, a scope allocates, or a name takes more than
             400 bytes
";

const FEW: u64 = 100_000;

/// The system allocator with a count of live bytes.
struct Counting;

static LIVE_BYTES: AtomicI64 = AtomicI64::new(0);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

fn count(size: usize, sign: i64) {
    LIVE_BYTES.fetch_add(sign * i64::try_from(size).unwrap_or(i64::MAX), Ordering::Relaxed);
}

// SAFETY: all calls are forwarded to the system allocator unchanged, which upholds the
// `GlobalAlloc` contract. Counting only updates two atomic integers, and does not allocate or
// panic.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        count(layout.size(), 1);
        // SAFETY: the caller upholds the contract of `GlobalAlloc::alloc`, and the arguments are
        // forwarded unchanged.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(layout.size(), -1);
        // SAFETY: the caller upholds the contract of `GlobalAlloc::dealloc`. `System` allocated the
        // pointer with the same layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes per octave of a duration histogram. The Simple profiler allocates them for each power of
/// two that an action's durations fall into, if it is far from the first durations.
const OCTAVE_BYTES: i64 = 80;
/// Maximum number of such allocations: 61 for each of the seven names.
const LATER: i64 = 7 * 61;

/// Memory of a profiler after few and after many calls.
struct MemoryUse {
    after_few: i64,
    after_many: i64,
    allocations_between: u64,
}

impl MemoryUse {
    /// Measures on a separate thread. When it ends, it frees its thread-local data, so that the
    /// next profiler does not reuse it.
    fn measure<P: Profiler + 'static>(make: fn() -> P, calls: u64) -> Self {
        let measured = std::thread::spawn(move || Self::measure_here(make, calls)).join();
        measured.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    fn measure_here<P: Profiler + 'static>(make: fn() -> P, calls: u64) -> Self {
        let names = ["data_next", "forward", "loss", "backward", "optimizer_step", "log"];
        let actions = names.map(Action::new);
        let batch = Action::new("run_training_batch");
        let before = LIVE_BYTES.load(Ordering::Relaxed);
        let profiler: Arc<dyn Profiler> = Arc::new(make());
        let run = |calls: u64| {
            let _batch = profiler.profile(batch);
            for call in 0..calls {
                let _scope = profiler.profile(actions[(call % 6) as usize]);
            }
            LIVE_BYTES.load(Ordering::Relaxed) - before
        };
        let after_few = run(FEW);
        let allocations = ALLOCATIONS.load(Ordering::Relaxed);
        let after_many = run(calls.saturating_sub(FEW));
        let allocations_between = ALLOCATIONS.load(Ordering::Relaxed) - allocations;
        Self { after_few, after_many, allocations_between }
    }

    fn is_constant(&self) -> bool {
        self.after_few == self.after_many && self.allocations_between == 0
    }

    /// Returns `true` if all additional memory is within [`OCTAVE_BYTES`] per allocation.
    fn is_bounded(&self) -> bool {
        let kept = self.after_many - self.after_few;
        kept <= LATER * OCTAVE_BYTES && self.allocations_between <= LATER as u64
    }
}

/// Number of names for measuring the memory per name.
const NAMES: i64 = 10_000;
/// Maximum memory per name in bytes.
const BYTES_PER_NAME: i64 = 400;

/// Returns the memory of a profiler per name in bytes. The names are either siblings below one
/// action, or each nested in the previous one.
fn bytes_per_name<P: Profiler + 'static>(make: fn() -> P, are_nested: bool) -> i64 {
    let actions: Vec<Action> = (0..NAMES).map(|name| Action::new(&format!("n{name}"))).collect();
    let measured = std::thread::spawn(move || {
        let profiler = make();
        let batch = Action::new("run_training_batch");
        drop(profiler.profile(batch));
        let before = LIVE_BYTES.load(Ordering::Relaxed);
        for _ in 0..3 {
            let _batch = profiler.profile(batch);
            for action in &actions {
                profiler.start(*action);
                if !are_nested {
                    let _ = profiler.stop(*action);
                }
            }
            if are_nested {
                for action in actions.iter().rev() {
                    let _ = profiler.stop(*action);
                }
            }
        }
        (LIVE_BYTES.load(Ordering::Relaxed) - before) / NAMES
    });
    measured.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Returns the number of allocations of `profile!` without an active profiler.
fn allocations_when_off() -> u64 {
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    for _ in 0..FEW {
        let _scope = profile!("training_step");
    }
    ALLOCATIONS.load(Ordering::Relaxed) - before
}

fn options() -> Result<Option<(u64, bool)>, lexopt::Error> {
    use lexopt::prelude::*;

    let (mut calls, mut check) = (100_000_000, false);
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("calls") => calls = parser.value()?.parse()?,
            Long("check") => check = true,
            Long("help") | Short('h') => return Ok(None),
            _ => return Err(argument.unexpected()),
        }
    }
    Ok(Some((calls, check)))
}

fn main() -> ExitCode {
    let (calls, check) = match settings(options(), USAGE) {
        Ok(settings) => settings,
        Err(code) => return code,
    };
    print!("{}", Conditions::here());
    println!(
        "method: bytes alive on the heap, counted in the allocator, of one thread and 7 names"
    );
    println!();
    let off = allocations_when_off();
    let rows = [
        ("simple", MemoryUse::measure(SimpleProfiler::new, calls)),
        ("advanced", MemoryUse::measure(AdvancedProfiler::new, calls)),
    ];
    let titles = [format!("after {FEW} calls"), format!("after {calls} calls")];
    println!("{:10}  {:>22}  {:>22}  {:>22}", "", titles[0], titles[1], "allocations between");
    for (name, kept) in &rows {
        let MemoryUse { after_few, after_many, allocations_between } = kept;
        let (few, many) = (format!("{after_few} B"), format!("{after_many} B"));
        let verdict = match (kept.is_constant(), kept.is_bounded()) {
            (true, _) => "constant",
            (false, true) => "constant, except for new lengths of durations",
            (false, false) => "GROWS",
        };
        println!("{name:10}  {few:>22}  {many:>22}  {allocations_between:>22}   {verdict}");
    }
    println!("\noff: {off} allocations in {FEW} scopes");
    println!("\nbytes for each of {NAMES} names, on one thread (at most {BYTES_PER_NAME}):");
    let names = [
        ("simple", bytes_per_name(SimpleProfiler::new, false)),
        ("simple, each inside the one before", bytes_per_name(SimpleProfiler::new, true)),
        ("advanced", bytes_per_name(AdvancedProfiler::new, false)),
        ("advanced, each inside the one before", bytes_per_name(AdvancedProfiler::new, true)),
    ];
    let is_small = |bytes: i64| bytes <= BYTES_PER_NAME;
    for (name, bytes) in names {
        println!(
            "{name:38}  {bytes:>5} B   {}",
            if is_small(bytes) { "holds" } else { "EXCEEDED" }
        );
    }
    let is_as_promised = off == 0
        && rows.iter().all(|(_, kept)| kept.is_bounded())
        && names.iter().all(|(_, bytes)| is_small(*bytes));
    if check && !is_as_promised { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
