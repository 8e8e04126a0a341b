//! Tests with many threads at once.

use std::collections::HashSet;
use std::sync::Barrier;

use mlprof_core::hook::{MemoryChange, MemoryDevice};
use mlprof_core::{Observation, Profiler};

use crate::parsed::Trace;
use crate::recorded::{action, op, trace};

#[test]
fn sixty_four_threads_have_a_track_each() {
    const THREADS: usize = 64;
    let barrier = Barrier::new(THREADS);
    let text = trace(|profiler| {
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let barrier = &barrier;
                let work = move || {
                    // All threads are alive at once, so that thread numbers are not reused.
                    barrier.wait();
                    for _ in 0..50 {
                        action(profiler, "step", || {
                            op(profiler, "outer", || op(profiler, "inner", || {}));
                        });
                    }
                    let change = MemoryChange {
                        address: 1,
                        bytes: -7,
                        total_allocated: u64::MAX,
                        total_reserved: 0,
                        device: MemoryDevice::Accelerator(2),
                    };
                    profiler.observe(&Observation::Memory(&change));
                    barrier.wait();
                };
                let name = format!("worker {thread}");
                std::thread::Builder::new().name(name).spawn_scoped(scope, work).expect("a thread");
            }
        });
    });
    let trace = Trace::of(&text);
    let slices = trace.slices();
    assert_eq!(slices.len(), THREADS * 150);
    let tracks: HashSet<_> = slices.iter().map(|slice| slice.track).collect();
    assert_eq!(tracks.len(), THREADS);
    let names = trace.track_names();
    let names: HashSet<&str> = tracks.iter().map(|track| names[track].as_str()).collect();
    assert_eq!(names.len(), THREADS);
    let numbers: HashSet<_> = slices.iter().map(|slice| slice.args["Ev Idx"].as_u64()).collect();
    assert_eq!(numbers.len(), slices.len());
    let memory: Vec<_> = trace.of_phase("i").collect();
    assert_eq!(memory.len(), THREADS);
    for event in memory {
        assert_eq!(
            (&event["name"], &event["cat"]),
            (&"[memory]".into(), &"cpu_instant_event".into())
        );
        let expected = serde_json::json!({
            "Addr": 1, "Bytes": -7, "Total Allocated": u64::MAX, "Total Reserved": 0,
            "Device Type": 1, "Device Id": 2,
        });
        assert_eq!(event["args"], expected);
    }
    assert_eq!(trace.all["profile_memory"], 1);
}
