//! Activates its own profilers in all supported ways, and prints the calls that each of them
//! counted.

use std::sync::Arc;
use std::sync::Mutex;

use mlprof_core::nvtx::EmitNvtxExt;
use mlprof_core::{
    Activated, IntoProfiler, Profiler, ProfilerExt, SimpleProfiler, activate, bound, profile,
};

mod net {
    #[inline(never)]
    pub fn forward(input: u64) -> u64 {
        let _scope = mlprof_core::profile!("layer");
        std::hint::black_box(input + 1)
    }
}

fn forward(times: u64) {
    (0..times).for_each(|input| drop(net::forward(input)));
}

/// Runs before `main`, and before the runtime library has registered this program.
extern "C" fn early() {
    let profiler = Arc::new(SimpleProfiler::new());
    let active = activate(profiler.clone());
    *EARLY.lock().unwrap() = Some((profiler, active));
}

static EARLY: Mutex<Option<(Arc<SimpleProfiler>, Activated)>> = Mutex::new(None);

#[used]
#[unsafe(link_section = ".init_array.00050")]
static AT_LOAD: extern "C" fn() = early;

fn layers(profiler: &SimpleProfiler) -> u64 {
    profiler.snapshot().actions.iter().filter(|row| row.action == "layer").map(|row| row.calls).sum()
}

fn main() {
    let (profiler, active) = EARLY.lock().unwrap().take().unwrap();
    forward(1);
    drop(active);
    println!("early {}", layers(&profiler));

    // This is the example of the README.
    let profiler = Arc::new(SimpleProfiler::new());
    let active = activate(profiler.clone());
    forward(10);
    // A second profiler is active inside the first one.
    let inner = Arc::new(SimpleProfiler::new());
    let active_inner = activate(inner.clone());
    forward(100);
    drop(active_inner);
    forward(10);
    drop(active);
    println!("outer {} inner {}", layers(&profiler), layers(&inner));

    // No profiler of the program is active.
    forward(1_000);

    // This profiler is already combined with that of the run, and then also with ranges.
    let profiler = mlprof_core::resolve(SimpleProfiler::new().into_profiler().unwrap());
    let active = activate(profiler);
    forward(10_000);
    drop(active);
    let ranges = Arc::new(SimpleProfiler::new());
    let active = activate(SimpleProfiler::new().emit_nvtx());
    let nested = activate(ranges.clone());
    forward(100_000);
    drop(nested);
    drop(active);
    println!("ranges {}", layers(&ranges));

    // Two trainings run at once. A third thread belongs to neither.
    let barrier = Arc::new(std::sync::Barrier::new(3));
    let train = |times: u64, barrier: Arc<std::sync::Barrier>| {
        move || {
            let profiler = Arc::new(SimpleProfiler::new());
            let active = activate(profiler.clone());
            barrier.wait();
            forward(times);
            std::thread::spawn(bound(move || forward(times))).join().unwrap();
            barrier.wait();
            drop(active);
            (layers(&profiler), profiler.summary().contains("training of these threads is unknown"))
        }
    };
    let first = std::thread::spawn(train(1_000_000, barrier.clone()));
    let second = std::thread::spawn(train(2_000_000, barrier.clone()));
    barrier.wait();
    forward(7);
    barrier.wait();
    println!("{:?} {:?}", first.join().unwrap(), second.join().unwrap());
}
