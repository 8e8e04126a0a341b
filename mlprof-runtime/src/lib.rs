//! The C interface of mlprof-core: what crates call that `mlprof run` has put hooks into.
//!
//! Every program built under `mlprof run` is linked with this library. It hands calls on to the
//! [`Sink`] that registered last: its own copy of mlprof-core when it is loaded, and then, still
//! before `main`, the copy that the program itself is built with, if it is.

// Lines go through `output::say`: `eprintln!` panics where standard error is full or closed.
#![deny(clippy::print_stderr, clippy::print_stdout)]

use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use mlprof_core::lines::abi::{LineFrame, LineSite};
use mlprof_core::output::say;
use mlprof_core::spliced::{SINK_VERSION, Sink, Site, SplicedTensor, sink};

/// What hooks look at before they call anything; see [`mlprof_core::spliced::wanted`].
#[unsafe(no_mangle)]
pub static MLPROF_WANTED: AtomicU32 = AtomicU32::new(0);

/// Null before the library is initialised; then a sink for the rest of the process.
static SINK: AtomicPtr<Sink> = AtomicPtr::new(std::ptr::null_mut());

#[inline]
fn current() -> Option<&'static Sink> {
    // SAFETY: null, or a `'static` reference that was registered.
    unsafe { SINK.load(Ordering::Acquire).as_ref() }
}

/// `sink` takes the calls from here on. One of another version is refused: the one before goes on.
#[unsafe(no_mangle)]
pub extern "C" fn mlprof_register(sink: &'static Sink) {
    if sink.version != SINK_VERSION {
        say("mlprof: the program is built with another version of mlprof-core than `mlprof run`: \
             its own profilers see nothing of spliced functions");
        return;
    }
    let pointer = std::ptr::from_ref(sink).cast_mut();
    let before = SINK.swap(pointer, Ordering::AcqRel);
    if before == pointer {
        return;
    }
    // SAFETY: null, or a `'static` reference that was registered.
    if let Some(before) = unsafe { before.as_ref() } {
        (before.end)();
    }
    for site in DECLARED.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        // SAFETY: by the contract of `mlprof_lines_declare`.
        unsafe { (sink.lines.declare)(site.0) };
    }
    (sink.begin)(&MLPROF_WANTED);
}

/// A function begins; see [`Sink::open`].
///
/// # Safety
///
/// `site` points to a site that lives for ever, `words` to `count` words or nowhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlprof_open(site: *const Site, words: *const i64, count: usize) -> u64 {
    match current() {
        // SAFETY: by the contract of this function.
        Some(sink) => unsafe { (sink.open)(site, words, count) },
        None => 0,
    }
}

/// It ends; see [`Sink::close`].
///
/// # Safety
///
/// `site` points to a site that lives for ever.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlprof_close(site: *const Site, opened: u64) {
    if let Some(sink) = current() {
        // SAFETY: by the contract of this function.
        unsafe { (sink.close)(site, opened) };
    }
}

/// An op that is open returns; see [`Sink::returned`].
///
/// # Safety
///
/// `site` points to a site that lives for ever; so many outputs and inputs are there, as [`SplicedTensor`] says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlprof_returned(
    site: *const Site,
    outputs: *const SplicedTensor,
    output_count: usize,
    inputs: *const SplicedTensor,
    input_count: usize,
) {
    if let Some(sink) = current() {
        // SAFETY: by the contract of this function.
        unsafe { (sink.returned)(site, outputs, output_count, inputs, input_count) };
    }
}

/// Functions whose lines are profiled, for sinks that register later.
static DECLARED: Mutex<Vec<DeclaredSite>> = Mutex::new(Vec::new());

#[derive(Clone, Copy)]
struct DeclaredSite(*const LineSite);

// SAFETY: sites may be used by any thread, and live for ever.
unsafe impl Send for DeclaredSite {}

/// See [`mlprof_core::lines::abi::declare`].
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlprof_lines_declare(site: *const LineSite) {
    DECLARED.lock().unwrap_or_else(PoisonError::into_inner).push(DeclaredSite(site));
    if let Some(sink) = current() {
        // SAFETY: by the contract of this function.
        unsafe { (sink.lines.declare)(site) };
    }
}

/// See [`mlprof_core::lines::abi::enter`].
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlprof_lines_enter(
    site: *const LineSite,
    frame: *const LineFrame,
    kind: u32,
) {
    if let Some(sink) = current() {
        // SAFETY: by the contract of this function.
        unsafe { (sink.lines.enter)(site, frame, kind) };
    }
}

/// See [`mlprof_core::lines::abi::at`].
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlprof_lines_at(frame: *const LineFrame, point: u32) {
    if let Some(sink) = current() {
        // SAFETY: by the contract of this function.
        unsafe { (sink.lines.at)(frame, point) };
    }
}

/// See [`mlprof_core::lines::abi::back`].
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlprof_lines_back(frame: *const LineFrame, point: u32) {
    if let Some(sink) = current() {
        // SAFETY: by the contract of this function.
        unsafe { (sink.lines.back)(frame, point) };
    }
}

/// See [`mlprof_core::lines::abi::leave`].
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlprof_lines_leave(frame: *const LineFrame) {
    if let Some(sink) = current() {
        // SAFETY: by the contract of this function.
        unsafe { (sink.lines.leave)(frame) };
    }
}

/// See [`mlprof_core::lines::abi::suspend`].
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlprof_lines_suspend(frame: *const LineFrame) {
    if let Some(sink) = current() {
        // SAFETY: by the contract of this function.
        unsafe { (sink.lines.suspend)(frame) };
    }
}

/// See [`mlprof_core::lines::abi::resume`].
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlprof_lines_resume(frame: *const LineFrame) {
    if let Some(sink) = current() {
        // SAFETY: by the contract of this function.
        unsafe { (sink.lines.resume)(frame) };
    }
}

/// See [`mlprof_core::allocation::allocated`].
#[unsafe(no_mangle)]
pub extern "C" fn mlprof_allocated(address: usize, bytes: usize) {
    if let Some(sink) = current() {
        (sink.allocations.allocated)(address, bytes);
    }
}

/// See [`mlprof_core::allocation::freed`].
#[unsafe(no_mangle)]
pub extern "C" fn mlprof_freed(address: usize, bytes: usize) {
    if let Some(sink) = current() {
        (sink.allocations.freed)(address, bytes);
    }
}

/// See [`mlprof_core::allocation::kept`].
#[unsafe(no_mangle)]
pub extern "C" fn mlprof_kept(address: usize, bytes: usize) {
    if let Some(sink) = current() {
        (sink.allocations.kept)(address, bytes);
    }
}

/// See [`mlprof_core::allocation::copied`].
#[unsafe(no_mangle)]
pub extern "C" fn mlprof_copied(bytes: usize) {
    if let Some(sink) = current() {
        (sink.allocations.copied)(bytes);
    }
}

/// Nobody listens by this library's copy of mlprof-live but where the run asks it to: the program
/// may have one of its own.
#[cfg(target_os = "linux")]
use mlprof_live as _;

/// Before anything else of this library looks at it.
fn at_first() {
    // This library is built as `mlprof` says, whatever the program is.
    mlprof_core::build_settings::are_not_the_programs();
}

fn at_load() {
    mlprof_register(sink());
}

// SAFETY: it only stores a number.
#[cfg(target_os = "linux")]
mlprof_core::before_main!(unsafe first at_first);

// SAFETY: it only stores an address.
#[cfg(target_os = "linux")]
mlprof_core::before_main!(unsafe at_load);
