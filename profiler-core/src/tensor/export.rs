//! What is done with a finished cycle.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{Cycle, TensorProfiler};

impl TensorProfiler {
    /// Gives a finished cycle to whoever wants it.
    pub(super) fn hand_over(&self, cycle: &Cycle) {
        let Some(handler) = &self.settings.on_trace_ready else { return };
        if catch_unwind(AssertUnwindSafe(|| handler(cycle))).is_err() {
            let note =
                format!("on_trace_ready panicked in cycle {}: its trace is lost", cycle.number);
            eprintln!("mlprof: {note}; the run goes on");
            self.control().top().notes.push(note);
        }
    }
}
