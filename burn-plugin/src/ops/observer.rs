//! Observer callbacks of burn's fusion and cubecl for ops, blocks and kernels. All callbacks run on
//! the thread that does the work, some of them while cubecl holds a lock.

use std::time::Instant;

use burn::backend::StreamId;
use burn::backend::ir::OperationIr;
use burn::cubecl::logging::{
    Duration, LaunchObserver, ProfileDuration, TimingMethod as CubeTimingMethod, TimingRequest,
};
use burn_fusion::observer::{BlockOperations, FusionObserver};
use mlprof_core::Action;
use mlprof_core::hook::{Context, DeviceActivity, Direction, OpScope, OpStart};

use super::actions::{Launches, launches};
use super::reading::{Reading, method};
use super::session::{Session, next_correlation};
use super::thread::{OpenBlock, OpenLaunch, Place, Thread, with_thread};

impl FusionObserver for Session {
    fn registered(&self, op: &OperationIr) {
        if matches!(op, OperationIr::Drop(_)) {
            return;
        }
        let new = with_thread(self.number, |thread| thread.call(op)).flatten();
        if let Some(stream) = new {
            self.add_stream(stream);
        }
    }

    fn block_starts(&self, block: BlockOperations<'_>) {
        with_thread(self.number, |thread| {
            let block = self.start_block(thread, block);
            self.open_block(block.place);
            thread.blocks.push(block);
        });
    }

    fn block_ran(&self) {
        with_thread(self.number, |thread| {
            let Some(block) = thread.blocks.pop() else { return };
            close_launch(thread);
            self.close_block();
            self.end_tuning(thread.device.unwrap_or(0), block.place.context);
            if let Some(scope) = block.scope {
                scope.close();
            }
        });
    }
}

impl Session {
    /// Opens the event of a block and reports those of its ops that the program called.
    fn start_block(&self, thread: &mut Thread, block: BlockOperations<'_>) -> OpenBlock {
        let mut unseen = None;
        let mut ops: Vec<(&OperationIr, Place)> = Vec::new();
        for op in block.iter().filter(|op| !matches!(op, OperationIr::Drop(_))) {
            let place = thread.place_of(op);
            if place.is_unseen {
                unseen = Some(place);
            } else {
                ops.push((op, place));
            }
        }
        match ops.as_slice() {
            [] => OpenBlock { scope: None, place: unseen.unwrap_or_else(|| thread.place()) },
            [(op, place)] => OpenBlock { scope: self.open_op(thread, op, *place), place: *place },
            // Fusion may cross the end of an action. The block is attributed to the place of its
            // first op.
            [(_, place), ..] => {
                let block: Vec<&OperationIr> = ops.iter().map(|(op, _)| *op).collect();
                let scope = self.open_fused(thread, &block, *place);
                ops.iter().for_each(|(op, place)| self.tell(thread, op, *place));
                OpenBlock { scope, place: *place }
            }
        }
    }

    /// Reports an op that has no time of its own, because it is part of a fused block.
    fn tell(&self, thread: &mut Thread, op: &OperationIr, place: Place) {
        if let Some(scope) = self.open_op(thread, op, place) {
            scope.close();
        }
    }

    fn open_op(&self, thread: &mut Thread, op: &OperationIr, place: Place) -> Option<OpScope> {
        let action = thread.actions.op(op)?;
        let inputs = self.shapes.then(|| thread.inputs.of(op));
        let mut start = OpStart::new(action);
        start.inputs = inputs;
        start.context = place.context;
        start.direction = place.direction;
        // These ops belong to the backward pass even if they are called outside it.
        if action.name().ends_with("_backward") {
            start.direction = Direction::Backward;
        }
        OpScope::open(&start)
    }

    fn open_fused(
        &self,
        thread: &mut Thread,
        ops: &[&OperationIr],
        place: Place,
    ) -> Option<OpScope> {
        let action = thread.actions.fused(ops);
        let mut start = OpStart::new(action);
        start.inputs = self.shapes.then(|| thread.inputs.of_block(ops));
        start.context = place.context;
        start.direction = place.direction;
        OpScope::open(&start)
    }
}

/// Name prefix of the threads on which cubecl runs autotuning trials. Only cubecl launches kernels
/// on these threads.
const DEVICE_THREAD: &str = "DSD-";

/// Returns `true` if the calling thread belongs to cubecl, which means that its launches are
/// autotuning trials. burn launches from fusion threads, and other programs from their own threads.
fn is_device_thread() -> bool {
    thread_local!(static IS: bool =
        std::thread::current().name().is_some_and(|name| name.starts_with(DEVICE_THREAD)));
    IS.try_with(|is| *is).unwrap_or(false)
}

impl LaunchObserver for Session {
    fn launched(&self, kernel: &'static str) {
        if self.is_over() {
            return;
        }
        let is_first = self.is_first_launch();
        if is_device_thread() {
            let place = self.waiting_place();
            if !place.is_unseen {
                self.tune();
                with_thread(self.number, |thread| self.trial(thread, kernel, place.context));
            }
            return;
        }
        with_thread(self.number, |thread| {
            close_launch(thread);
            let place = match thread.blocks.last() {
                Some(block) => block.place,
                None => thread.place(),
            };
            self.end_tuning(thread.device.unwrap_or(0), place.context);
            if place.is_unseen {
                return;
            }
            let Launches { first, warm, .. } = *launches();
            let action = if is_first { first } else { warm };
            thread.launch = Some(open_launch(thread, kernel, action, place));
            if !self.times {
                close_launch(thread);
            }
        });
    }

    /// Autotuning trials are not timed here. cubecl times them itself, and its measurement would
    /// include ours.
    fn timing(&self) -> TimingRequest {
        let times = self.times && !self.is_over() && !is_device_thread();
        if times { TimingRequest::Deferred } else { TimingRequest::None }
    }

    fn profiled(&self, _kernel: &'static str, profile: ProfileDuration) {
        with_thread(self.number, |thread| {
            let Some(mut launch) = thread.launch.take() else { return };
            if let Some(scope) = launch.scope.take() {
                scope.close();
            }
            let reading = launch.reading(thread, DeviceActivity::Kernel);
            self.keep(reading, profile);
        });
    }

    /// Called only while cubecl's own profiling log is enabled, which reads all measurements
    /// itself.
    fn timed(&self, _kernel: &'static str, duration: Duration, timing: CubeTimingMethod) {
        with_thread(self.number, |thread| {
            let Some(mut launch) = thread.launch.take() else { return };
            if let Some(scope) = launch.scope.take() {
                scope.close();
            }
            let now = Instant::now();
            let start = now.checked_sub(duration).unwrap_or(now);
            let reading = launch.reading(thread, DeviceActivity::Kernel);
            reading.deliver(start, now, method(timing));
        });
    }
}

impl Session {
    /// Records an autotuning trial on the calling thread, on behalf of a block that waits on
    /// another thread.
    fn trial(&self, thread: &mut Thread, kernel: &'static str, context: Option<Context>) {
        let place = Place { context, ..Place::default() };
        let mut launch = open_launch(thread, kernel, launches().tuning, place);
        if let Some(scope) = launch.scope.take() {
            scope.close();
        }
        launch.reading(thread, DeviceActivity::Tuning).deliver_untimed();
    }
}

fn open_launch(
    thread: &mut Thread,
    kernel: &'static str,
    action: Action,
    place: Place,
) -> OpenLaunch {
    let correlation = next_correlation();
    let kernel = thread.actions.kernel(kernel);
    let mut start = OpStart::launch(action, correlation);
    start.context = place.context;
    start.direction = place.direction;
    let scope = OpScope::open(&start);
    OpenLaunch {
        scope,
        at: Instant::now(),
        kernel,
        correlation,
        context: place.context,
        stream: StreamId::current(),
    }
}

impl OpenLaunch {
    fn reading(&self, thread: &Thread, activity: DeviceActivity) -> Reading {
        Reading {
            kernel: self.kernel,
            activity,
            device: thread.device.unwrap_or(0),
            stream: self.stream.value as u32,
            correlation: self.correlation,
            context: self.context,
            at: self.at,
        }
    }
}

/// Ends a launch for which no measurement was received.
fn close_launch(thread: &mut Thread) {
    let Some(mut launch) = thread.launch.take() else { return };
    if let Some(scope) = launch.scope.take() {
        scope.close();
    }
    launch.reading(thread, DeviceActivity::Kernel).deliver_untimed();
}
