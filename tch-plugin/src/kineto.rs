//! Torch's own profiler, for tests and measurements that compare with it.

use std::ffi::{CString, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;

/// What Kineto shall record.
#[derive(Debug, Clone, Copy, Default)]
pub struct Kineto {
    /// The shapes of inputs.
    pub shapes: bool,
    /// Allocations and frees.
    pub memory: bool,
    /// The ops of all threads, not only of the one that starts it and those that this one starts.
    pub all_threads: bool,
}

/// Kineto at work.
#[derive(Debug)]
#[must_use = "it must be stopped"]
pub struct Running(());

/// What Kineto recorded.
#[derive(Debug)]
pub struct Recorded(NonNull<c_void>);

/// An event as Kineto tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KinetoEvent {
    /// The op; `[memory]` for an allocation or a free.
    pub name: String,
    /// `at::RecordScope` as a number: 0 an op, 1 a node of autograd.
    pub scope: u8,
    /// The thread, as libtorch counts threads.
    pub thread: u64,
    /// Of a node: the thread of its forward op.
    pub forward_thread: u64,
    /// -1: none.
    pub sequence: i64,
    /// Nanoseconds since 1970.
    pub start: u64,
    /// How long it took.
    pub nanoseconds: u64,
    /// Of an allocation; negative for a free.
    pub bytes: i64,
    /// One per input; empty for what is no tensor.
    pub shapes: Vec<Vec<i64>>,
}

/// Whether somebody, a profiler of ours or of others, has a callback that libtorch calls for the
/// ops of all threads.
pub fn has_callbacks() -> bool {
    mlprof_kineto_has_callbacks()
}

#[repr(C)]
struct ForeignEvent {
    name: *const u8,
    name_length: usize,
    scope: u8,
    thread: u64,
    forward_thread: u64,
    sequence: i64,
    start: u64,
    nanoseconds: u64,
    bytes: i64,
    shapes: *const i64,
    shapes_length: usize,
}

// SAFETY: the declarations of kineto.cpp.
unsafe extern "C" {
    safe fn mlprof_kineto_has_callbacks() -> bool;
    safe fn mlprof_kineto_start(shapes: bool, memory: bool, all_threads: bool) -> bool;
    safe fn mlprof_kineto_is_refused() -> bool;
    safe fn mlprof_kineto_stop() -> *mut c_void;
    fn mlprof_kineto_save(result: *mut c_void, path: *const c_char) -> bool;
    fn mlprof_kineto_events(
        result: *const c_void,
        target: *mut c_void,
        visit: unsafe extern "C" fn(*mut c_void, *const ForeignEvent),
    );
    fn mlprof_kineto_free(result: *mut c_void);
}

impl Kineto {
    /// Starts recording on the calling thread; `None` if torch refuses.
    pub fn start(self) -> Option<Running> {
        mlprof_kineto_start(self.shapes, self.memory, self.all_threads).then_some(Running(()))
    }

    /// Whether torch refuses to start it on the calling thread now. If not, it has begun.
    pub fn is_refused() -> bool {
        mlprof_kineto_is_refused()
    }
}

impl Running {
    /// Stops recording, on the thread that started it; `None` if torch refuses.
    pub fn stop(self) -> Option<Recorded> {
        NonNull::new(mlprof_kineto_stop()).map(Recorded)
    }
}

impl Recorded {
    /// All events, in Kineto's order.
    pub fn events(&self) -> Vec<KinetoEvent> {
        let mut events = Vec::new();
        let target: *mut Vec<KinetoEvent> = &raw mut events;
        // SAFETY: the result is alive, and `visit` is called with the pointer to `events` alone.
        unsafe { mlprof_kineto_events(self.0.as_ptr(), target.cast(), visit) };
        events
    }

    /// Writes a trace; false if that fails.
    pub fn save(&self, path: &Path) -> bool {
        let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return false };
        // SAFETY: the result is alive, and the path ends with a 0.
        unsafe { mlprof_kineto_save(self.0.as_ptr(), path.as_ptr()) }
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        // SAFETY: made by `mlprof_kineto_stop`, and not freed before.
        unsafe { mlprof_kineto_free(self.0.as_ptr()) };
    }
}

/// # Safety
///
/// `target` is a `Vec<KinetoEvent>`, and the event is good during the call.
unsafe extern "C" fn visit(target: *mut c_void, event: *const ForeignEvent) {
    // SAFETY: what the caller promises.
    let (events, event, name, shapes) = unsafe {
        let event = &*event;
        let name = std::slice::from_raw_parts(event.name, event.name_length);
        let shapes = match event.shapes_length {
            0 => &[],
            length => std::slice::from_raw_parts(event.shapes, length),
        };
        (&mut *target.cast::<Vec<KinetoEvent>>(), event, name, shapes)
    };
    events.push(KinetoEvent {
        name: String::from_utf8_lossy(name).into_owned(),
        scope: event.scope,
        thread: event.thread,
        forward_thread: event.forward_thread,
        sequence: event.sequence,
        start: event.start,
        nanoseconds: event.nanoseconds,
        bytes: event.bytes,
        shapes: split(shapes),
    });
}

/// Shapes out of ranks, each followed by its dimensions.
fn split(mut words: &[i64]) -> Vec<Vec<i64>> {
    let mut shapes = Vec::new();
    while let Some((rank, rest)) = words.split_first() {
        let (shape, rest) = rest.split_at((*rank as usize).min(rest.len()));
        shapes.push(shape.to_vec());
        words = rest;
    }
    shapes
}
