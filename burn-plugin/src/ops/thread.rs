//! Per-thread recording state, mainly of a device's fusion thread, on which burn runs the ops of
//! other threads.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::time::Instant;

use burn::backend::ir::{OperationIr, TensorId};
use burn::backend::{DeviceId, DeviceService, DeviceServiceStage, ServerUtilitiesHandle, StreamId};
use mlprof_core::Action;
use mlprof_core::hook::{Context, Direction, OpScope};

use super::actions::Actions;
use super::inputs::Inputs;

/// The place where an op was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Place {
    /// The actions and functions that were open at the call.
    pub(super) context: Option<Context>,
    /// Backward if the call was inside `backward`, otherwise forward.
    pub(super) direction: Direction,
    /// `true` if the op belongs to the profiler and is not reported.
    pub(super) is_unseen: bool,
}

/// A device service that only receives messages, through the queue that carries ops to the device's
/// fusion thread. A message arrives after the ops that its thread called before, and before those
/// that it calls later. burn's own fusion does not see the messages.
pub(super) struct Messages;

impl DeviceService for Messages {
    fn init(_device: DeviceId) -> Self {
        Self
    }

    fn utilities(&self) -> ServerUtilitiesHandle {
        std::sync::Arc::new(())
    }

    fn stage() -> DeviceServiceStage {
        DeviceServiceStage::Upstream
    }
}

/// A running block of ops.
pub(super) struct OpenBlock {
    pub(super) scope: Option<OpScope>,
    pub(super) place: Place,
}

/// A launch that has begun and has not received its measurement yet.
pub(super) struct OpenLaunch {
    pub(super) scope: Option<OpScope>,
    pub(super) kernel: Action,
    pub(super) correlation: u32,
    pub(super) context: Option<Context>,
    pub(super) at: Instant,
    pub(super) stream: StreamId,
}

/// Recording state of one thread; see the module documentation.
#[derive(Default)]
pub(super) struct Thread {
    /// Session to which the other fields belong. Interned handles are kept across sessions.
    session: u64,
    /// Device index if this is a fusion thread.
    pub(super) device: Option<u32>,
    /// Place of each calling thread. burn runs a thread's messages and ops under the thread's
    /// stream.
    places: HashMap<StreamId, Place>,
    /// Call places of ops that have not run yet, by their first output.
    called: HashMap<TensorId, Place>,
    streams: HashSet<StreamId>,
    pub(super) blocks: Vec<OpenBlock>,
    pub(super) launch: Option<OpenLaunch>,
    pub(super) actions: Actions,
    pub(super) inputs: Inputs,
}

thread_local! {
    static THREAD: RefCell<Thread> = RefCell::default();
}

/// Calls `work` with the calling thread's state for `session`. Returns `None` in these cases:
///
/// - The state is already borrowed.
/// - The thread is being torn down.
/// - A later session has begun.
pub(super) fn with_thread<T>(session: u64, work: impl FnOnce(&mut Thread) -> T) -> Option<T> {
    THREAD
        .try_with(|thread| {
            let mut thread = thread.try_borrow_mut().ok()?;
            if thread.session > session {
                return None;
            }
            if thread.session < session {
                thread.begin(session);
            }
            Some(work(&mut thread))
        })
        .ok()
        .flatten()
}

/// Returns `true` if the calling thread is a device's fusion thread.
pub(super) fn is_fusion_thread() -> bool {
    let is = THREAD.try_with(|thread| thread.try_borrow().map_or(true, |it| it.device.is_some()));
    is.unwrap_or(true)
}

impl Thread {
    fn begin(&mut self, session: u64) {
        let before = std::mem::take(self);
        *self = Self {
            session,
            device: before.device,
            actions: before.actions,
            inputs: before.inputs,
            ..Self::default()
        };
    }

    /// Sets the place of the thread whose message is being processed.
    pub(super) fn enter(&mut self, device: u32, place: Place) {
        self.device = Some(device);
        self.places.insert(StreamId::current(), place);
    }

    /// Marks the next ops of the thread whose message is being processed as the profiler's own, or
    /// clears the mark.
    pub(super) fn set_unseen(&mut self, device: u32, is_unseen: bool) {
        self.device = Some(device);
        self.places.entry(StreamId::current()).or_default().is_unseen = is_unseen;
    }

    /// Returns the place of the thread whose op or message is being processed.
    pub(super) fn place(&self) -> Place {
        self.places.get(&StreamId::current()).copied().unwrap_or_default()
    }

    /// Records the call of an op. Returns its stream if it is new.
    pub(super) fn call(&mut self, op: &OperationIr) -> Option<StreamId> {
        let place = self.place();
        if place != Place::default()
            && let Some(output) = op.outputs().next()
        {
            self.called.insert(output.id, place);
        }
        let stream = StreamId::current();
        self.streams.insert(stream).then_some(stream)
    }

    /// Returns the call place of an op that runs now, and removes the entry.
    pub(super) fn place_of(&mut self, op: &OperationIr) -> Place {
        let known = op.outputs().next().and_then(|output| self.called.remove(&output.id));
        known.unwrap_or_else(|| self.place())
    }
}
