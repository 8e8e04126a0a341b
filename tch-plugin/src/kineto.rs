//! Bindings to torch's own profiler (Kineto), for comparison in tests and measurements.

use std::ffi::{CString, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;

/// Recording options of Kineto.
#[derive(Debug, Clone, Copy, Default)]
pub struct Kineto {
    /// Records the shapes of inputs.
    pub shapes: bool,
    /// Records allocations and frees.
    pub memory: bool,
    /// Records the ops of all threads. Otherwise, only the starting thread and the threads that it
    /// starts are recorded.
    pub all_threads: bool,
}

/// A running Kineto recording.
#[derive(Debug)]
#[must_use = "it must be stopped"]
pub struct Running(());

/// The result of a Kineto recording.
#[derive(Debug)]
pub struct Recorded(NonNull<c_void>);

/// An event that Kineto recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KinetoEvent {
    /// Name of the op, or `[memory]` for an allocation or a free.
    pub name: String,
    /// `at::RecordScope` as a number: 0 is an op, 1 is an autograd node.
    pub scope: u8,
    /// Thread id in libtorch's numbering.
    pub thread: u64,
    /// For an autograd node, the thread id of its forward op.
    pub forward_thread: u64,
    /// Autograd sequence number, or -1 if there is none.
    pub sequence: i64,
    /// Start time in nanoseconds since 1970.
    pub start: u64,
    /// Duration in nanoseconds.
    pub nanoseconds: u64,
    /// Allocated bytes; negative for a free.
    pub bytes: i64,
    /// Shape of each input; empty for inputs that are not tensors.
    pub shapes: Vec<Vec<i64>>,
}

/// Returns `true` if any profiler has registered a libtorch callback for the ops of all threads.
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

// SAFETY: the declarations match kineto.cpp.
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
    /// Starts recording on the calling thread. Returns `None` if torch refuses.
    pub fn start(self) -> Option<Running> {
        mlprof_kineto_start(self.shapes, self.memory, self.all_threads).then_some(Running(()))
    }

    /// Returns `true` if torch refuses to start Kineto on the calling thread. Otherwise, the
    /// recording has started.
    pub fn is_refused() -> bool {
        mlprof_kineto_is_refused()
    }
}

impl Running {
    /// Stops recording on the thread that started it. Returns `None` if torch refuses.
    pub fn stop(self) -> Option<Recorded> {
        NonNull::new(mlprof_kineto_stop()).map(Recorded)
    }
}

impl Recorded {
    /// Returns all events in Kineto's order.
    pub fn events(&self) -> Vec<KinetoEvent> {
        let mut events = Vec::new();
        let target: *mut Vec<KinetoEvent> = &raw mut events;
        // SAFETY: `self` owns the result, so it is alive. `target` points to `events`, which
        // outlives the call, and kineto.cpp passes it only to `visit`.
        unsafe { mlprof_kineto_events(self.0.as_ptr(), target.cast(), visit) };
        events
    }

    /// Writes a trace and returns `true` on success.
    pub fn save(&self, path: &Path) -> bool {
        let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return false };
        // SAFETY: `self` owns the result, so it is alive. The path is a NUL-terminated string that
        // outlives the call.
        unsafe { mlprof_kineto_save(self.0.as_ptr(), path.as_ptr()) }
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        // SAFETY: the pointer comes from `mlprof_kineto_stop`. Only this destructor frees it, so it
        // is freed once.
        unsafe { mlprof_kineto_free(self.0.as_ptr()) };
    }
}

/// # Safety
///
/// `target` points to a `Vec<KinetoEvent>` with no other references to it. `event` and the memory
/// that it refers to are valid during the call.
unsafe extern "C" fn visit(target: *mut c_void, event: *const ForeignEvent) {
    // SAFETY: the caller guarantees that both pointers are valid during the call.
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

/// Splits a flat list into shapes. Each shape is stored as its rank followed by its dimensions.
fn split(mut words: &[i64]) -> Vec<Vec<i64>> {
    let mut shapes = Vec::new();
    while let Some((rank, rest)) = words.split_first() {
        let (shape, rest) = rest.split_at((*rank as usize).min(rest.len()));
        shapes.push(shape.to_vec());
        words = rest;
    }
    shapes
}
