//! Tests of a profiler that panics inside the allocator.

use std::hint::black_box;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mlprof_core::{Action, Interest, NeverStarted, Observation, Profiler, activate};

use crate::turn;

#[derive(Default)]
struct PanicsInObserve(AtomicUsize);

impl Profiler for PanicsInObserve {
    fn start(&self, _action: Action) {}

    fn stop(&self, _action: Action) -> Result<(), NeverStarted> {
        Ok(())
    }

    fn interest(&self) -> Interest {
        Interest::MEMORY
    }

    fn observe(&self, observation: &Observation<'_>) {
        if matches!(observation, Observation::Memory(_)) {
            self.0.fetch_add(1, Ordering::Relaxed);
            panic!("inside of the allocator");
        }
    }
}

#[test]
fn an_allocator_is_not_unwound_by_a_profiler_that_panics() {
    let _turn = turn();
    let profiler = Arc::new(PanicsInObserve::default());
    let active = activate(profiler.clone());
    let allocated = catch_unwind(|| {
        let block = black_box(vec![7_u8; 50_000]);
        // The second vector makes further allocations and frees after the panic.
        block.iter().map(|byte| usize::from(*byte)).sum::<usize>() + black_box(vec![1; 9_000]).len()
    });
    drop(active);
    assert_eq!(allocated.ok(), Some(7 * 50_000 + 9_000), "the panic reached the program");
    assert_eq!(profiler.0.load(Ordering::Relaxed), 1, "it is not called again");
}
