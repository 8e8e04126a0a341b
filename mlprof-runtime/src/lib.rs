//! C interface of mlprof-core, which crates with hooks from `mlprof run` call.
//!
//! Every program built under `mlprof run` is linked with this library. It forwards calls to the
//! [`Sink`] that was registered last. At load time this is the library's own copy of mlprof-core.
//! If the program contains its own copy, that copy registers before `main`.

// Messages go through `output::say`, because `eprintln!` panics if standard error is full or
// closed.
#![deny(clippy::print_stderr, clippy::print_stdout)]

use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use mlprof_core::lines::abi::{LineFrame, LineSite};
use mlprof_core::output::say;
use mlprof_core::spliced::{SINK_VERSION, Sink, Site, SplicedTensor, sink};

/// Bits that hooks check before any call; see [`mlprof_core::spliced::wanted`].
#[unsafe(no_mangle)]
pub static MLPROF_WANTED: AtomicU32 = AtomicU32::new(0);

/// Active sink. Null until the library is initialised, and then valid for the rest of the process.
static SINK: AtomicPtr<Sink> = AtomicPtr::new(std::ptr::null_mut());

#[inline]
fn current() -> Option<&'static Sink> {
    // SAFETY: the pointer is null, or `mlprof_register` created it from a `'static` reference.
    unsafe { SINK.load(Ordering::Acquire).as_ref() }
}

/// Registers a sink that receives all later calls. A sink of another version is refused, and the
/// previous one stays active.
#[unsafe(no_mangle)]
pub extern "C" fn mlprof_register(sink: &'static Sink) {
    if sink.version != SINK_VERSION {
        say("mlprof: the program's mlprof-core has another version than `mlprof run`, so the \
             program's own profilers do not see instrumented functions");
        return;
    }
    let pointer = std::ptr::from_ref(sink).cast_mut();
    let before = SINK.swap(pointer, Ordering::AcqRel);
    if before == pointer {
        return;
    }
    // SAFETY: the pointer is null, or `mlprof_register` created it from a `'static` reference.
    if let Some(before) = unsafe { before.as_ref() } {
        (before.end)();
    }
    for site in DECLARED.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        // SAFETY: the caller of `mlprof_lines_declare` guaranteed the validity of the stored site.
        unsafe { (sink.lines.declare)(site.0) };
    }
    (sink.begin)(&MLPROF_WANTED);
}

/// Records the start of a function; see [`Sink::open`].
///
/// # Safety
///
/// `site` must point to a site that lives forever. `words` must point to `count` words, or be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlprof_open(site: *const Site, words: *const i64, count: usize) -> u64 {
    match current() {
        // SAFETY: the caller fulfils the contract of this function, which is that of
        // [`Sink::open`].
        Some(sink) => unsafe { (sink.open)(site, words, count) },
        None => 0,
    }
}

/// Records the end of a function; see [`Sink::close`].
///
/// # Safety
///
/// `site` must point to a site that lives forever.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlprof_close(site: *const Site, opened: u64) {
    if let Some(sink) = current() {
        // SAFETY: the caller fulfils the contract of this function, which is that of
        // [`Sink::close`].
        unsafe { (sink.close)(site, opened) };
    }
}

/// Records the return of an open op; see [`Sink::returned`].
///
/// # Safety
///
/// `site` must point to a site that lives forever. `outputs` and `inputs` must point to as many
/// valid [`SplicedTensor`]s as their counts state.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlprof_returned(
    site: *const Site,
    outputs: *const SplicedTensor,
    output_count: usize,
    inputs: *const SplicedTensor,
    input_count: usize,
) {
    if let Some(sink) = current() {
        // SAFETY: the caller fulfils the contract of this function, which is that of
        // [`Sink::returned`].
        unsafe { (sink.returned)(site, outputs, output_count, inputs, input_count) };
    }
}

/// Functions whose lines are profiled, stored for sinks that register later.
static DECLARED: Mutex<Vec<DeclaredSite>> = Mutex::new(Vec::new());

#[derive(Clone, Copy)]
struct DeclaredSite(*const LineSite);

// SAFETY: a site lives forever and may be used by any thread.
unsafe impl Send for DeclaredSite {}

/// Registers a function whose lines are profiled; see [`mlprof_core::lines::abi::declare`].
///
/// # Safety
///
/// The contract of [`mlprof_core::lines::abi::declare`] must be fulfilled.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlprof_lines_declare(site: *const LineSite) {
    DECLARED.lock().unwrap_or_else(PoisonError::into_inner).push(DeclaredSite(site));
    if let Some(sink) = current() {
        // SAFETY: the caller fulfils the contract of this function.
        unsafe { (sink.lines.declare)(site) };
    }
}

/// Forwards to [`mlprof_core::lines::abi::enter`].
///
/// # Safety
///
/// The contract of [`mlprof_core::lines::abi::enter`] must be fulfilled.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlprof_lines_enter(
    site: *const LineSite,
    frame: *const LineFrame,
    kind: u32,
) {
    if let Some(sink) = current() {
        // SAFETY: the caller fulfils the contract of this function.
        unsafe { (sink.lines.enter)(site, frame, kind) };
    }
}

/// Forwards to [`mlprof_core::lines::abi::at`].
///
/// # Safety
///
/// The contract of [`mlprof_core::lines::abi::at`] must be fulfilled.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlprof_lines_at(frame: *const LineFrame, point: u32) {
    if let Some(sink) = current() {
        // SAFETY: the caller fulfils the contract of this function.
        unsafe { (sink.lines.at)(frame, point) };
    }
}

/// Forwards to [`mlprof_core::lines::abi::back`].
///
/// # Safety
///
/// The contract of [`mlprof_core::lines::abi::back`] must be fulfilled.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlprof_lines_back(frame: *const LineFrame, point: u32) {
    if let Some(sink) = current() {
        // SAFETY: the caller fulfils the contract of this function.
        unsafe { (sink.lines.back)(frame, point) };
    }
}

/// Forwards to [`mlprof_core::lines::abi::leave`].
///
/// # Safety
///
/// The contract of [`mlprof_core::lines::abi::leave`] must be fulfilled.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlprof_lines_leave(frame: *const LineFrame) {
    if let Some(sink) = current() {
        // SAFETY: the caller fulfils the contract of this function.
        unsafe { (sink.lines.leave)(frame) };
    }
}

/// Forwards to [`mlprof_core::lines::abi::suspend`].
///
/// # Safety
///
/// The contract of [`mlprof_core::lines::abi::suspend`] must be fulfilled.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlprof_lines_suspend(frame: *const LineFrame) {
    if let Some(sink) = current() {
        // SAFETY: the caller fulfils the contract of this function.
        unsafe { (sink.lines.suspend)(frame) };
    }
}

/// Forwards to [`mlprof_core::lines::abi::resume`].
///
/// # Safety
///
/// The contract of [`mlprof_core::lines::abi::resume`] must be fulfilled.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlprof_lines_resume(frame: *const LineFrame) {
    if let Some(sink) = current() {
        // SAFETY: the caller fulfils the contract of this function.
        unsafe { (sink.lines.resume)(frame) };
    }
}

/// Forwards to [`mlprof_core::allocation::allocated`].
#[unsafe(no_mangle)]
pub extern "C" fn mlprof_allocated(address: usize, bytes: usize) {
    if let Some(sink) = current() {
        (sink.allocations.allocated)(address, bytes);
    }
}

/// Forwards to [`mlprof_core::allocation::freed`].
#[unsafe(no_mangle)]
pub extern "C" fn mlprof_freed(address: usize, bytes: usize) {
    if let Some(sink) = current() {
        (sink.allocations.freed)(address, bytes);
    }
}

/// Forwards to [`mlprof_core::allocation::kept`].
#[unsafe(no_mangle)]
pub extern "C" fn mlprof_kept(address: usize, bytes: usize) {
    if let Some(sink) = current() {
        (sink.allocations.kept)(address, bytes);
    }
}

/// Forwards to [`mlprof_core::allocation::copied`].
#[unsafe(no_mangle)]
pub extern "C" fn mlprof_copied(bytes: usize) {
    if let Some(sink) = current() {
        (sink.allocations.copied)(bytes);
    }
}

/// Links mlprof-live into this library. Its copy listens only if the run requests it, because the
/// program may contain another copy.
#[cfg(target_os = "linux")]
use mlprof_live as _;

/// Marks this library's build settings as its own, before other code of the library reads them.
fn at_first() {
    // `mlprof` determines how this library is built, independently of the program.
    mlprof_core::build_settings::are_not_the_programs();
}

fn at_load() {
    mlprof_register(sink());
}

// SAFETY: the function only stores a number, so it needs no state that `main` initialises.
#[cfg(target_os = "linux")]
mlprof_core::before_main!(unsafe first at_first);

// SAFETY: the function only registers a static sink, which uses atomics and a lock. The standard
// library supports this before `main`.
#[cfg(target_os = "linux")]
mlprof_core::before_main!(unsafe at_load);
