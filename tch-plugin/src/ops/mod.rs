//! The ops that libtorch runs, forward and backward, on any thread, for profilers that want them
//! (`"tensor"`).
//!
//! libtorch calls what is registered here at the beginning and the end of every op, with its name,
//! inputs and the number that ties a node of autograd to its forward op. A program has this by being
//! linked with this crate, which it is if it uses anything of it; one that does not writes
//! `use mlprof_tch as _;`:
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
//! *What it measures*: on a CPU the work of an op; on an accelerator the time to queue it. An op
//! that others are part of (`aten::linear`) is recorded with them inside. Ops that libtorch ends on
//! another thread than they began on (those of distributed training) are left out.
//!
//! *Cost*: while ops are recorded, some 0.15 µs per op, 0.25 µs with shapes, more with all that is known of
//! inputs ([`TensorProfiler::record_inputs`][inputs]), and 0.45 µs with shapes and memory,
//! of which libtorch itself takes a fourth to a half to hand over an op and its inputs: `cargo xtask bench
//! tch` shows it as the callback that does nothing. At all other times nothing, since libtorch is then not
//! asked to call.
//!
//! # Memory
//!
//! While a profiler wants memory ([`TensorProfiler::profile_memory`][memory]), libtorch's
//! allocators report too, thread by thread: on the thread that the recording begins on, and on
//! every other from its first op on. A thread that only frees tensors reports nothing. What is
//! known of what memory is for: parameters (all variables of stores that have a `TchOptimizer`; of
//! a [profiled](crate::ProfileOptimizerExt) optimizer once it steps), their gradients (when the
//! optimizer steps or clips), what the optimizer keeps (what is allocated during a recorded step
//! and lives on, and what the step's ops read that is neither a variable nor a gradient: so that of
//! earlier steps, too), and batches of a `TensorLoader` or moved by `MoveTo`. What an optimizer
//! keeps that steps without either wrapper is not known.
//!
//! Torch's own profiler (Kineto) keeps what it knows of a thread in the same place. Where it is at
//! work already, its thread's memory is not recorded, and the report says so; while
//! memory is recorded, Kineto refuses to begin on the same threads. Ops are recorded by both at
//! once without trouble. Where memory is recorded, torch itself may say once on standard error that a
//! "block of unknown size" was freed: one from before the recording.
//!
//! # Numbers
//!
//! A profiler that wants them ([`NumericsProfiler::ops`](mlprof_core::NumericsProfiler::ops)) is
//! told what each op returns, if that has fractions. libtorch is asked to hand outputs over only
//! then. An op that others are part of is told after them. Not told are those that only call
//! another one (`aten::linear`, `aten::conv2d`, `aten::to` and such), views and other inputs that
//! are handed on, and tensors that an op leaves empty (`aten::empty_like`). What an op changes in
//! place is copied before, if it is no larger than 64 MiB: else it is not known what it was. Lists
//! that are changed in place (`aten::_foreach_add_`) are not told, since libtorch returns nothing
//! of them.
//!
//! # Limits
//!
//! Recorded on Linux and macOS, where torch-sys tells where libtorch and its headers are. Elsewhere
//! a profiler that wants ops shows actions and layers, and its report says so.
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

/// Has libtorch's ops recorded whenever a profiler wants them. On Linux and macOS this has happened
/// before `main`; calling it again does nothing.
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

/// Whether this build can record ops.
pub const fn is_supported() -> bool {
    cfg!(records_ops)
}

/// libtorch as a source of ops.
#[derive(Default)]
struct TchOps {
    recorded: Mutex<Recorded>,
}

/// What libtorch is asked to tell.
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
        // Registered before `main`, when libtorch is not to be asked for anything.
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

    /// Nothing is under way; but now it is known what is missing.
    fn flush(&self) {
        if ffi::slot_was_taken() {
            hook::note(NO_MEMORY);
        }
    }
}

const NOT_RECORDED: &str = if is_supported() {
    "ops of tch are not recorded: libtorch refuses the callback"
} else {
    "ops of tch are not recorded: mlprof-tch was built without libtorch's headers"
};

const NO_MEMORY: &str = "torch's own profiler was at work on a thread: its memory is not recorded";
