//! FFI to record.cpp. All unsafe code for ops is in this file, in `op_call.rs` and in
//! `op_output.rs`.

use std::ffi::{CStr, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use mlprof_core::hook::{self, MemoryChange, MemoryDevice};
use tch::Tensor;

use super::Recorded;
use super::names::OpWord;
use super::op_call::OpCall;
use super::op_output::OpOutput;
use super::step_memory::{self, Storage};
use super::thread;

/// `MlprofTchReceivers` of record.h.
#[repr(C)]
struct Receivers {
    name: unsafe extern "C" fn(*const c_char, usize, *mut FoundName) -> bool,
    op_starts: unsafe extern "C" fn(*const OpCall),
    op_ends: extern "C" fn(*const c_void),
    op_returns: unsafe extern "C" fn(*const OpOutput),
    memory: extern "C" fn(u64, i64, u64, u64, i32),
    read: unsafe extern "C" fn(*const ForeignStorage),
}

/// `MlprofTchName` of record.h.
#[repr(C)]
struct FoundName {
    text: *const c_char,
    length: usize,
    op: OpWord,
}

/// `MlprofTchStorage` of record.h.
#[repr(C)]
#[derive(Default)]
struct ForeignStorage {
    address: u64,
    bytes: u64,
    device: i32,
}

// SAFETY: the declarations and the `repr(C)` types match record.h. The functions do not throw.
// Functions without pointer parameters have no preconditions, so they are safe to call.
unsafe extern "C" {
    fn mlprof_tch_receivers(calls: *const Receivers);
    safe fn mlprof_tch_record(
        ops: bool,
        shapes: bool,
        inputs: bool,
        memory: bool,
        outputs: bool,
    ) -> bool;
    safe fn mlprof_tch_forget_names();
    safe fn mlprof_tch_slot_was_taken() -> bool;
    safe fn mlprof_tch_version() -> *const c_char;
    safe fn mlprof_tch_follow_reads(follows: bool) -> bool;
    fn mlprof_tch_storage(
        tensor: *const c_void,
        of_gradient: bool,
        storage: *mut ForeignStorage,
    ) -> bool;
}

fn connect() {
    static CONNECTED: Once = Once::new();
    CONNECTED.call_once(|| {
        let receivers = Receivers { name, op_starts, op_ends, op_returns, memory, read };
        // SAFETY: `receivers` is an initialised local value, which the function copies during the
        // call.
        unsafe { mlprof_tch_receivers(&raw const receivers) };
    });
}

/// Enables the selected events in libtorch and disables all others. Returns `false` if this fails.
pub(super) fn record(recorded: Recorded) -> bool {
    connect();
    let Recorded { ops, shapes, inputs, memory, outputs } = recorded;
    mlprof_tch_record(ops, shapes, inputs, memory, outputs)
}

/// Starts or stops reporting the memory that the calling thread's ops read to [`labels::see_read`].
pub(super) fn follow_reads(follows: bool) {
    connect();
    mlprof_tch_follow_reads(follows);
}

/// Returns `true` if the memory of some thread was not recorded since the last call.
pub(super) fn slot_was_taken() -> bool {
    mlprof_tch_slot_was_taken()
}

/// Returns the libtorch version that this crate was built for.
pub(super) fn version() -> Option<String> {
    // SAFETY: the function returns a string literal of record.cpp, which is NUL-terminated and
    // static.
    let version = unsafe { CStr::from_ptr(mlprof_tch_version()) };
    Some(version.to_string_lossy().into_owned())
}

/// Returns the memory of a tensor, or of its gradient.
pub(super) fn storage(tensor: &Tensor, of_gradient: bool) -> Option<Storage> {
    let mut found = ForeignStorage::default();
    // SAFETY: `as_ptr` returns a pointer to the `at::Tensor` that `tensor` owns, which is alive
    // during the borrow. `found` is an initialised local value that is valid for writes.
    let is_there =
        unsafe { mlprof_tch_storage(tensor.as_ptr().cast(), of_gradient, &raw mut found) };
    is_there.then(|| Storage::from(&found))
}

impl From<&ForeignStorage> for Storage {
    fn from(found: &ForeignStorage) -> Self {
        Self { address: found.address, bytes: found.bytes, device: device(found.device) }
    }
}

fn device(number: i32) -> MemoryDevice {
    u16::try_from(number).map_or(MemoryDevice::Cpu, MemoryDevice::Accelerator)
}

/// Runs `work` and discards a panic, for example of a custom profiler. Unwinding through libtorch's
/// C++ frames is not allowed.
#[inline(always)]
fn keeping_panics(work: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(work));
}

/// # Safety
///
/// `text` points to `length` initialised bytes that stay unchanged during the call. `found` is
/// valid for writes.
unsafe extern "C" fn name(text: *const c_char, length: usize, found: *mut FoundName) -> bool {
    // SAFETY: the caller guarantees that `text` points to `length` initialised bytes during the
    // call.
    let letters = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), length) };
    let mut name = None;
    keeping_panics(|| name = thread::name(letters, || mlprof_tch_forget_names()));
    let Some(name) = name else { return false };
    let known = name.action.name();
    // A name that is not valid UTF-8 differs from the text returned here, so record.cpp looks it up
    // again each time.
    let it = FoundName { text: known.as_ptr().cast(), length: known.len(), op: name.word() };
    // SAFETY: the caller guarantees that `found` is valid for writes.
    unsafe { found.write(it) };
    true
}

/// # Safety
///
/// `op` and the memory that it refers to are valid during the call.
unsafe extern "C" fn op_starts(op: *const OpCall) {
    // SAFETY: the caller guarantees that `op` is valid during the call.
    let op = unsafe { &*op };
    keeping_panics(|| thread::op_starts(op));
}

extern "C" fn op_ends(key: *const c_void) {
    keeping_panics(|| thread::op_ends(key as usize));
}

/// # Safety
///
/// `output` and the memory that it refers to are valid during the call.
unsafe extern "C" fn op_returns(output: *const OpOutput) {
    // SAFETY: the caller guarantees that `output` is valid during the call.
    let output = unsafe { &*output };
    keeping_panics(|| thread::op_returns(output));
}

extern "C" fn memory(address: u64, bytes: i64, allocated: u64, reserved: u64, number: i32) {
    keeping_panics(|| {
        let change = MemoryChange {
            address,
            bytes,
            total_allocated: allocated,
            total_reserved: reserved,
            device: device(number),
        };
        step_memory::see(&change);
        hook::memory(&change);
    });
}

/// # Safety
///
/// `storage` is valid during the call.
unsafe extern "C" fn read(storage: *const ForeignStorage) {
    // SAFETY: the caller guarantees that `storage` is valid during the call.
    let storage = Storage::from(unsafe { &*storage });
    keeping_panics(|| step_memory::see_read(storage));
}
