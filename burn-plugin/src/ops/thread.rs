//! What one thread knows while it is watched: mostly a device's fusion thread, on which burn runs the
//! ops that other threads called.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::time::Instant;

use burn::backend::ir::{OperationIr, TensorId};
use burn::backend::{DeviceId, DeviceService, DeviceServiceStage, ServerUtilitiesHandle, StreamId};
use mlprof_core::Action;
use mlprof_core::hook::{Context, Direction, OpScope};

use super::actions::Actions;
use super::inputs::Inputs;

/// Where an op was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Place {
    /// What was open there.
    pub(super) context: Option<Context>,
    /// Whether that was inside `backward`.
    pub(super) direction: Direction,
    /// Whether it is the profiler's own, of which nobody is told.
    pub(super) is_unseen: bool,
}

/// Does nothing but receive messages, in the queue that brings the ops to a device's fusion thread:
/// what a thread sends arrives behind the ops that it called before, and before those that it
/// calls later. burn's own fusion never sees them.
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

/// A block of ops that runs.
pub(super) struct OpenBlock {
    pub(super) scope: Option<OpScope>,
    pub(super) place: Place,
}

/// A launch that has begun and whose measurement has not been seen yet.
pub(super) struct OpenLaunch {
    pub(super) scope: Option<OpScope>,
    pub(super) kernel: Action,
    pub(super) correlation: u32,
    pub(super) context: Option<Context>,
    pub(super) at: Instant,
    pub(super) stream: StreamId,
}

/// See the module.
#[derive(Default)]
pub(super) struct Thread {
    /// The session that all below belongs to, but for the handles.
    session: u64,
    /// Which device this is the fusion thread of.
    pub(super) device: Option<u32>,
    /// Where each calling thread is. burn runs its messages and ops under its own stream.
    places: HashMap<StreamId, Place>,
    /// Where the ops that have not run yet were called, by their first output.
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

/// Calls `work` with what the calling thread knows in `session`; not while it does so already, or
/// is being torn down, or when a later session has begun.
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

/// Whether the calling thread is some device's fusion thread.
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

    /// The thread whose message or op this is says where it is.
    pub(super) fn enter(&mut self, device: u32, place: Place) {
        self.device = Some(device);
        self.places.insert(StreamId::current(), place);
    }

    /// Whether what the thread calls from here on, whose message this is, is the profiler's own.
    pub(super) fn set_unseen(&mut self, device: u32, is_unseen: bool) {
        self.device = Some(device);
        self.places.entry(StreamId::current()).or_default().is_unseen = is_unseen;
    }

    /// Where the thread is whose work runs now.
    pub(super) fn place(&self) -> Place {
        self.places.get(&StreamId::current()).copied().unwrap_or_default()
    }

    /// An op was called. The stream if it is a new one.
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

    /// An op runs: where it was called, and no more of it is kept.
    pub(super) fn place_of(&mut self, op: &OperationIr) -> Place {
        let known = op.outputs().next().and_then(|output| self.called.remove(&output.id));
        known.unwrap_or_else(|| self.place())
    }
}
