//! Measures the cost of the tracking allocator, enabled and disabled, compared with the system
//! allocator and dhat's.

use std::alloc::{GlobalAlloc, Layout, System};
use std::any::Any;
use std::hint::black_box;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use benches::conditions::Conditions;
use benches::harness::{self, Plan, Subject, time};
use benches::{settings, thread_counts};
use mlprof_core::ProfilerExt;
use mlprof_core::allocation::{AllocationProfiler, Counting, TrackingAllocator};

const USAGE: &str = "\
Measures the cost of an allocation and its free with the tracking allocator.

Usage: allocations [--threads 1,2,8] [--rounds N] [--check]

  --threads LIST  numbers of parallel threads [default: 1,2]
  --rounds N      number of rounds per subject [default: 60]
  --check         exit with 1 if a budget is exceeded
";

/// Maximum cost of the disabled allocator per allocation and free, in nanoseconds.
const OFF_BUDGET: f64 = 2.0;

const SMALL: usize = 64;
const LARGE: usize = 4096;

static TRACKING: TrackingAllocator = TrackingAllocator::new();

/// Guard that keeps counting enabled while a subject is measured.
type Guard = Option<Box<dyn Any + Send>>;

/// Allocates a block and frees it.
struct Blocks<A> {
    name: &'static str,
    allocator: A,
    size: usize,
    turn_on: fn() -> Guard,
    on: Mutex<Guard>,
}

impl<A> Blocks<A> {
    fn new(name: &'static str, allocator: A, size: usize, turn_on: fn() -> Guard) -> Self {
        Self { name, allocator, size, turn_on, on: Mutex::new(None) }
    }
}

impl<A: GlobalAlloc + Sync> Subject for Blocks<A> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn begin(&self) {
        *self.on.lock().unwrap_or_else(PoisonError::into_inner) = (self.turn_on)();
    }

    fn end(&self) {
        *self.on.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn slice(&self, scopes: usize) -> Duration {
        let Ok(layout) = Layout::from_size_align(black_box(self.size), 8) else {
            return Duration::ZERO;
        };
        time(scopes, |_| {
            // SAFETY: the layout has a non-zero size. The block is freed once, with the layout of
            // its allocation.
            unsafe {
                let block = black_box(self.allocator.alloc(layout));
                self.allocator.dealloc(block, layout);
            }
        })
    }
}

/// An action without allocations.
struct Actions(AllocationProfiler);

impl Subject for Actions {
    fn name(&self) -> &'static str {
        "an action of the profiler"
    }

    fn slice(&self, scopes: usize) -> Duration {
        time(scopes, |call| {
            let _scope = self.0.profile("training_step");
            harness::work(call);
        })
    }
}

fn nothing() -> Guard {
    None
}

fn counting() -> Guard {
    Some(Box::new(Counting::start()))
}

fn origins() -> Guard {
    Some(Box::new(AllocationProfiler::new()))
}

fn dhat() -> Guard {
    Some(Box::new(dhat::Profiler::builder().testing().build()))
}

fn subjects() -> Vec<Box<dyn Subject>> {
    vec![
        Box::new(Blocks::new("system, 64 B", System, SMALL, nothing)),
        Box::new(Blocks::new("tracking off, 64 B", TRACKING, SMALL, nothing)),
        Box::new(Blocks::new("counting, 64 B", TRACKING, SMALL, counting)),
        Box::new(Blocks::new("with the profiler, 64 B", TRACKING, SMALL, origins)),
        Box::new(Blocks::new("dhat, 64 B", dhat::Alloc, SMALL, dhat)),
        Box::new(Blocks::new("system, 4 KB", System, LARGE, nothing)),
        Box::new(Blocks::new("tracking off, 4 KB", TRACKING, LARGE, nothing)),
        Box::new(Blocks::new("counting, 4 KB", TRACKING, LARGE, counting)),
        Box::new(Blocks::new("with the profiler, 4 KB", TRACKING, LARGE, origins)),
        Box::new(Actions(AllocationProfiler::new())),
    ]
}

struct Options {
    threads: Vec<usize>,
    plan: Plan,
    check: bool,
}

fn options() -> Result<Option<Options>, lexopt::Error> {
    use lexopt::prelude::*;

    let mut options = Options { threads: vec![1, 2], plan: Plan::default(), check: false };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("threads") => options.threads = thread_counts(&parser.value()?.string()?)?,
            Long("rounds") => options.plan.rounds = parser.value()?.parse::<usize>()?.max(1),
            Long("check") => options.check = true,
            Long("help") | Short('h') => return Ok(None),
            _ => return Err(argument.unexpected()),
        }
    }
    Ok(Some(options))
}

fn main() -> ExitCode {
    let options = match settings(options(), USAGE) {
        Ok(settings) => settings,
        Err(code) => return code,
    };
    let Plan { rounds, slices, scopes, .. } = options.plan;
    print!("{}", Conditions::here());
    println!(
        "method: medians of {rounds} interleaved rounds of {slices} slices of {scopes} blocks, each\n        \
         allocated and freed; wall time, the loop included"
    );
    let mut is_within_budget = true;
    for threads in &options.threads {
        // The subjects are created anew, so that the action profiler does not count during the
        // other measurements.
        let mut subjects = subjects();
        let actions = subjects.pop().into_iter().collect::<Vec<_>>();
        let of_actions = harness::measure(&actions, *threads, options.plan);
        let action_names: Vec<_> = actions.iter().map(|subject| subject.name()).collect();
        drop(actions);
        let measured = harness::measure(&subjects, *threads, options.plan);
        println!("\n{threads} thread(s)");
        let mut base = f64::NAN;
        for (subject, median) in subjects.iter().zip(&measured.medians) {
            if subject.name().starts_with("system") {
                base = *median;
            }
            println!("{:26} {median:8.2} ns  {:+8.2} ns", subject.name(), median - base);
            if subject.name().starts_with("tracking off") && *threads == 1 {
                is_within_budget &= median - base <= OFF_BUDGET;
            }
        }
        for (name, median) in action_names.iter().zip(&of_actions.medians) {
            println!("{name:26} {median:8.2} ns");
        }
    }
    println!(
        "\nbudget: off at most {OFF_BUDGET} ns more than the system's allocator, on one thread"
    );
    if options.check && !is_within_budget { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
