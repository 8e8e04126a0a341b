//! mlprof as called by code that `mlprof run` has instrumented.

use std::hint::black_box;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mlprof_core::hook::InputsBuilder;
use mlprof_core::spliced::{Sink, sink};
use mlprof_core::{Activated, Profiler, RunContext, Stage, TensorProfiler, activate};

use super::inputs_of_linear;
use crate::harness::{Subject, time, work};

/// A call site, in the layout of instrumented crates.
#[repr(C)]
struct Site {
    action: AtomicU32,
    kind: u32,
    line: u32,
    name: &'static [u8; 9],
    name_length: usize,
    file: &'static [u8; 9],
    file_length: usize,
}

/// The call site kind of an op.
const OP: u32 = 1;

/// Eight ops of the Tensor profiler in turn, with the shapes of three inputs. They go through the
/// active profiler and the functions that the runtime library calls. A real program also calls the
/// runtime library, which adds one call between libraries.
pub struct Spliced {
    profiler: Arc<TensorProfiler>,
    sink: &'static Sink,
    sites: &'static [Site; 8],
    inputs: [InputsBuilder; 8],
    activated: Mutex<Option<Activated>>,
}

impl Spliced {
    /// Creates the subject with a separate profiler.
    pub fn new() -> Self {
        const NAMES: [&[u8; 9]; 8] = [
            b"aten::op0",
            b"aten::op1",
            b"aten::op2",
            b"aten::op3",
            b"aten::op4",
            b"aten::op5",
            b"aten::op6",
            b"aten::op7",
        ];
        let site = |index: usize| Site {
            action: AtomicU32::new(0),
            kind: OP,
            line: 1,
            name: NAMES[index],
            name_length: 9,
            file: b"src/op.rs",
            file_length: 9,
        };
        Self {
            profiler: Arc::new(TensorProfiler::new().without_schedule()),
            // The compiler must not know the target functions.
            sink: black_box(sink()),
            sites: Box::leak(Box::new(std::array::from_fn(site))),
            inputs: std::array::from_fn(inputs_of_linear),
            activated: Mutex::default(),
        }
    }

    fn activated(&self) -> std::sync::MutexGuard<'_, Option<Activated>> {
        self.activated.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Subject for Spliced {
    fn name(&self) -> &'static str {
        "spliced_op_shapes"
    }

    fn begin(&self) {
        self.profiler.setup(Stage::Fit, &RunContext::default());
        *self.activated() = Some(activate(self.profiler.clone()));
    }

    fn end(&self) {
        drop(self.activated().take());
        self.profiler.teardown(Some(Stage::Fit));
    }

    fn slice(&self, scopes: usize) -> Duration {
        time(scopes, |call| {
            let site = std::ptr::from_ref(&self.sites[call % 8]).cast();
            let words = self.inputs[call % 8].words();
            // SAFETY: the site is a leaked static with the `repr(C)` layout that `open` expects.
            // `words` is a slice that outlives the call.
            let opened = unsafe { (self.sink.open)(site, words.as_ptr(), words.len()) };
            work(call);
            // SAFETY: the site is the same valid static, and `opened` is the result of `open` for
            // this site.
            unsafe { (self.sink.close)(site, opened) };
        })
    }
}
