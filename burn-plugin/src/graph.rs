//! Captured graphs, whose replays burn's observers cannot see.

use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use burn::backend::StreamId;
use burn::backend::ir::OperationIr;
use burn::tensor::{Device, Graph};
use burn_fusion::observer::{BlockOperations, FusionObservation, FusionObserver};
use mlprof_core::{Action, ActiveScope, Interest};

/// A [`Graph`] whose replays are actions of the active profiler.
///
/// burn replays a captured graph as one unit, and its observers see neither ops nor kernels. Each
/// replay is therefore one call of an action that states the hidden ops: `[Graph]replay of 12 ops
/// captured at src/main.rs:57`. The action's row in a report shows the number of replays and their
/// time. It includes device time with
/// [`measure_devices`](mlprof_core::SimpleProfiler::measure_devices).
///
/// On a device that cannot capture, burn runs the closure again. The action is then `[Graph]replay
/// by running the closure of src/main.rs:57 again`, and its ops are recorded like all others.
pub struct ProfiledGraph<T, F> {
    graph: Graph<T, F>,
    replay: Action,
    ops: Option<u64>,
}
mlprof_core::debug_as_name!([T, F] ProfiledGraph<T, F>);

/// Captures `closure` like burn's [`capture`](burn::tensor::capture), measures the capture as an
/// action, and counts the ops of one call. Ops are not counted on devices where burn does not fuse
/// them. Ops of other threads are not counted either.
///
/// ```
/// use burn::tensor::{Device, Tensor};
///
/// let device = Device::flex(); // cannot capture, so it runs the closure again
/// let input = Tensor::<1>::ones([4], &device);
/// let mut graph = mlprof_burn::capture(&device, move || input.clone() + 1.0);
/// // SAFETY: the closure owns the tensor that it reads.
/// let output = unsafe { graph.replay() };
/// assert_eq!(output.dims(), [4]);
/// ```
#[track_caller]
pub fn capture<T, F: FnMut() -> T>(
    device: &Device,
    mut closure: F,
) -> ProfiledGraph<T, impl FnMut() -> T + use<T, F>> {
    let place = Location::caller();
    let place = format!("{}:{}", place.file(), place.line());
    let _scope = scope(Action::from(format!("[Graph]capture at {place}")));
    let calls = Arc::new(AtomicU64::new(0));
    let counted = calls.clone();
    let counter = Arc::new(OpCounter { stream: StreamId::current(), ops: AtomicU64::new(0) });
    // The observer receives an op only when burn's own thread processes it, so pending ops are
    // flushed first.
    let _ = device.flush();
    let observation = FusionObservation::new(counter.clone());
    let graph = burn::tensor::capture(device, move || {
        counted.fetch_add(1, Ordering::Relaxed);
        closure()
    });
    let _ = device.flush();
    drop(observation);
    let calls = calls.load(Ordering::Relaxed).max(1);
    let ops = counter.ops.load(Ordering::Relaxed).div_ceil(calls);
    let ops = (ops > 0).then_some(ops);
    let replay = match (graph.is_hardware(), ops) {
        (true, Some(1)) => format!("[Graph]replay of 1 op captured at {place}"),
        (true, Some(ops)) => format!("[Graph]replay of {ops} ops captured at {place}"),
        (true, None) => format!("[Graph]replay of ops captured at {place}"),
        (false, _) => format!("[Graph]replay by running the closure of {place} again"),
    };
    ProfiledGraph { graph, replay: Action::from(replay), ops }
}

impl<T, F: FnMut() -> T> ProfiledGraph<T, F> {
    /// Replays the graph as [`Graph::replay`] does.
    ///
    /// # Safety
    ///
    /// The caller must uphold the contract of [`Graph::replay`]:
    ///
    /// - The tensors that the closure read and wrote still exist.
    /// - No other stream or thread uses these tensors during the replay.
    /// - The tensors are updated and read on the stream of the capture.
    pub unsafe fn replay(&mut self) -> &T {
        let _scope = scope(self.replay);
        // SAFETY: the caller upholds the contract of `Graph::replay`, which is the contract of this
        // function.
        unsafe { self.graph.replay() }
    }
}

impl<T, F> ProfiledGraph<T, F> {
    /// Returns the number of ops in one replay, or `None` if they were not counted.
    pub fn ops(&self) -> Option<u64> {
        self.ops
    }

    /// Returns burn's graph.
    pub fn graph(&self) -> &Graph<T, F> {
        &self.graph
    }
}

fn scope(action: Action) -> ActiveScope {
    ActiveScope::open(|| action, Interest::ACTIONS)
}

/// Counts the ops that one thread calls.
struct OpCounter {
    stream: StreamId,
    ops: AtomicU64,
}

impl FusionObserver for OpCounter {
    fn registered(&self, op: &OperationIr) {
        // burn registers ops under the stream of the thread that called them. Freeing a tensor does
        // not count as an op.
        if StreamId::current() == self.stream && !matches!(op, OperationIr::Drop(_)) {
            self.ops.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn block_starts(&self, _block: BlockOperations<'_>) {}

    fn block_ran(&self) {}
}
