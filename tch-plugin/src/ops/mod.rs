//! Ops that libtorch runs, forward and backward, on any thread. They are recorded for profilers
//! that request them (`"tensor"`).
//!
//! libtorch calls the registered callback at the beginning and the end of every op. The callback
//! receives the op's name, its inputs, and the sequence number that links an autograd node to its
//! forward op. A program only needs to be linked with this crate. Using any of its items is enough;
//! a program that uses none writes `use mlprof_tch as _;`:
//!
//! ```
//! use mlprof_core::prelude::*;
//! use tch::{Tensor, kind::FLOAT_CPU};
//! use mlprof_tch as _;
//!
//! let profiler = std::sync::Arc::new(TensorProfiler::new().without_schedule());
//! let active = activate(profiler.clone());
//! let ones = Tensor::ones([2, 2], FLOAT_CPU);
//! let _ = ones.matmul(&ones);
//! profiler.teardown(None);
//! drop(active);
//! assert!(profiler.summary().contains("aten::matmul"));
//! ```
//!
//! *Measured time*: the execution time of an op on a CPU, and the time to queue it on an
//! accelerator. An op that calls others (`aten::linear`) is recorded with them inside. Ops that
//! libtorch ends on another thread, as in distributed training, are not recorded.
//!
//! *Cost* per op while ops are recorded:
//!
//! - about 0.15 µs
//! - 0.25 µs with shapes, and more with all input values
//!   ([`TensorProfiler::record_inputs`][inputs])
//! - 0.45 µs with shapes and memory
//!
//! A fourth to a half of this time is libtorch's own cost of passing an op and its inputs. `cargo
//! xtask bench tch` shows that part as the empty callback. Otherwise there is no cost, because
//! libtorch has no callback to call.
//!
//! # Memory
//!
//! While a profiler records memory ([`TensorProfiler::profile_memory`][memory]), libtorch's
//! allocators also report allocations, per thread. The thread that starts the recording reports
//! immediately, and every other thread from its first op on. A thread that only frees tensors
//! reports nothing. These categories of memory are known:
//!
//! - parameters: all variables of stores with a `TchOptimizer`, or of a
//!   [profiled](crate::ProfileOptimizerExt) optimizer from its first step on
//! - their gradients, from the next optimizer step or clipping on
//! - optimizer state: memory that is allocated during a recorded step and stays alive
//! - optimizer state of earlier steps: memory that the step's ops read, except variables and
//!   gradients
//! - batches of a `TensorLoader`, or batches moved with `MoveTo`
//!
//! The state of an optimizer without either wrapper is unknown.
//!
//! Torch's own profiler (Kineto) stores its thread state in the same place. If Kineto is already
//! running, the memory of its threads is not recorded, and the report contains a note. While memory
//! is recorded, Kineto refuses to start on the same threads. Both can record ops concurrently.
//! While memory is recorded, torch may once warn on standard error that a "block of unknown size"
//! was freed. That block was allocated before the recording.
//!
//! # Numerics
//!
//! A profiler that requests op outputs
//! ([`NumericsProfiler::ops`](mlprof_core::NumericsProfiler::ops)) receives each op's output if it
//! has a floating-point type. libtorch passes outputs only then. An op that calls others is
//! reported after them. These outputs are not reported:
//!
//! - ops that only call another op (`aten::linear`, `aten::conv2d`, `aten::to` and others)
//! - views and other inputs that are returned unchanged
//! - tensors that an op leaves uninitialised (`aten::empty_like`)
//! - lists that are changed in place (`aten::_foreach_add_`), because libtorch does not return them
//!
//! A tensor that an op changes in place is copied before the op, if it is at most 64 MiB.
//! Otherwise, its previous value is unknown.
//!
//! # Limits
//!
//! Recording is supported on Linux and macOS, where torch-sys provides the location of libtorch and
//! its headers. On other platforms, profilers that request ops show actions and layers, and their
//! report contains a note.
//!
//! [memory]: mlprof_core::tensor::TensorProfiler::profile_memory
//! [inputs]: mlprof_core::tensor::TensorProfiler::record_inputs

#[cfg(records_ops)]
mod ffi;
#[cfg(not(records_ops))]
#[path = "without_libtorch.rs"]
mod ffi;
mod framework;
mod labels;
#[cfg(records_ops)]
mod names;
#[cfg(records_ops)]
mod op_call;
#[cfg(records_ops)]
mod op_output;
#[cfg(any(target_os = "linux", target_os = "macos"))]
mod registration;
mod step_memory;
#[cfg(records_ops)]
mod thread;

use std::sync::{Arc, Mutex, Once, PoisonError};

use mlprof_core::Interest;
use mlprof_core::hook::{self, Instrumentation};

pub(crate) use framework::trains_on;
pub(crate) use labels::{TrackedStep, follow, label_input, label_variables};

/// Enables the recording of libtorch's ops for profilers that request them. On Linux and macOS this
/// happens before `main`; another call has no effect.
///
/// ```
/// use std::sync::Arc;
/// use mlprof_core::tensor::TensorProfiler;
/// use tch::{Device, Kind, Tensor};
/// use mlprof_tch::prelude::*;
///
/// # use std::sync::atomic::{AtomicUsize, Ordering};
/// # let seen = Arc::new(AtomicUsize::new(0));
/// # let count = seen.clone();
/// mlprof_tch::ops::install();
/// let profiler = TensorProfiler::new().without_schedule().on_trace_ready(move |cycle| {
///     let events = cycle.tracks().iter().flat_map(|track| track.events());
///     println!("{} × aten::mul", events.filter(|event| event.action.name() == "aten::mul").count());
/// #   count.fetch_add(cycle.event_count(), Ordering::Relaxed);
/// });
/// let profiler = Arc::new(profiler);
/// let active = activate(profiler.clone());
/// let ones = Tensor::ones([2, 2], (Kind::Float, Device::Cpu));
/// let _ = &ones * &ones;
/// profiler.describe();
/// # drop(active);
/// # assert!(seen.load(Ordering::Relaxed) > 1);
/// ```
pub fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| hook::register(Arc::new(TchOps::default())).forever());
}

/// Returns `true` if this build can record ops.
pub const fn is_supported() -> bool {
    cfg!(records_ops)
}

/// libtorch as a source of ops.
#[derive(Default)]
struct TchOps {
    recorded: Mutex<Recorded>,
}

/// The events requested from libtorch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Recorded {
    ops: bool,
    shapes: bool,
    inputs: bool,
    memory: bool,
    outputs: bool,
}

impl From<Interest> for Recorded {
    fn from(interest: Interest) -> Self {
        let ops = interest.contains(Interest::OPS);
        let shapes = ops && interest.contains(Interest::SHAPES);
        Self {
            ops,
            shapes,
            inputs: shapes && interest.contains(Interest::INPUTS),
            memory: interest.contains(Interest::MEMORY),
            outputs: ops && interest.contains(Interest::OP_OUTPUTS),
        }
    }
}

impl Instrumentation for TchOps {
    fn interest_changed(&self, interest: Interest) {
        // The source is registered before `main`, when libtorch must not be called yet.
        if interest != Interest::NONE {
            framework::declare();
        }
        let wanted = Recorded::from(interest);
        let mut recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        if *recorded == wanted {
            return;
        }
        let had_memory = std::mem::replace(&mut *recorded, wanted).memory;
        drop(recorded);
        if !ffi::record(wanted) {
            hook::note(NOT_RECORDED);
        }
        if wanted.memory && !had_memory {
            labels::label_registered();
        }
    }

    fn ops_of(&self) -> Option<&'static str> {
        Some("libtorch")
    }

    /// Reports memory that could not be recorded. No events are pending, because libtorch reports
    /// them synchronously.
    fn flush(&self) {
        if ffi::slot_was_taken() {
            hook::note(NO_MEMORY);
        }
    }
}

const NOT_RECORDED: &str = if is_supported() {
    "tch ops are not recorded: libtorch rejects the callback"
} else {
    "tch ops are not recorded: mlprof-tch was built without libtorch's headers"
};

const NO_MEMORY: &str = "the memory of some threads is not recorded, because torch's own profiler \
                         was active on them";
