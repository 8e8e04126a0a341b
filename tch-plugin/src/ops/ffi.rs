//! The boundary to record.cpp. All that is unsafe here is in this file, in `op_call.rs` and in `op_output.rs`.

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

// SAFETY: the declarations of record.h, in whose terms the types above are laid out. None of them
// throws; those that take no pointer may be called at any time.
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
        // SAFETY: copied during the call.
        unsafe { mlprof_tch_receivers(&raw const receivers) };
    });
}

/// Has libtorch tell this from here on; false if it fails.
pub(super) fn record(recorded: Recorded) -> bool {
    connect();
    let Recorded { ops, shapes, inputs, memory, outputs } = recorded;
    mlprof_tch_record(ops, shapes, inputs, memory, outputs)
}

/// Has [`labels::see_read`] told which memory the ops of the calling thread read, until this is called
/// again.
pub(super) fn follow_reads(follows: bool) {
    connect();
    mlprof_tch_follow_reads(follows);
}

/// Whether memory of some thread was not recorded since this was last asked.
pub(super) fn slot_was_taken() -> bool {
    mlprof_tch_slot_was_taken()
}

/// The version of libtorch that this crate was built for.
pub(super) fn version() -> Option<String> {
    // SAFETY: a literal of record.cpp.
    let version = unsafe { CStr::from_ptr(mlprof_tch_version()) };
    Some(version.to_string_lossy().into_owned())
}

/// The memory of a tensor, or of its gradient.
pub(super) fn storage(tensor: &Tensor, of_gradient: bool) -> Option<Storage> {
    let mut found = ForeignStorage::default();
    // SAFETY: a tensor of tch is a pointer to an `at::Tensor` that lives as long.
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

/// A profiler of somebody's own may panic, and libtorch cannot be unwound through.
#[inline(always)]
fn keeping_panics(work: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(work));
}

/// # Safety
///
/// So many letters are there, and `found` is record.cpp's.
unsafe extern "C" fn name(text: *const c_char, length: usize, found: *mut FoundName) -> bool {
    // SAFETY: what the caller promises.
    let letters = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), length) };
    let mut name = None;
    keeping_panics(|| name = thread::name(letters, || mlprof_tch_forget_names()));
    let Some(name) = name else { return false };
    let known = name.action.name();
    // What is not UTF-8 is not what it is known by: so it is looked up each time.
    let it = FoundName { text: known.as_ptr().cast(), length: known.len(), op: name.word() };
    // SAFETY: what the caller promises.
    unsafe { found.write(it) };
    true
}

/// # Safety
///
/// `op` and what it points to are good during the call.
unsafe extern "C" fn op_starts(op: *const OpCall) {
    // SAFETY: what the caller promises.
    let op = unsafe { &*op };
    keeping_panics(|| thread::op_starts(op));
}

extern "C" fn op_ends(key: *const c_void) {
    keeping_panics(|| thread::op_ends(key as usize));
}

/// # Safety
///
/// `output` and what it points to are good during the call.
unsafe extern "C" fn op_returns(output: *const OpOutput) {
    // SAFETY: what the caller promises.
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
/// `storage` is good during the call.
unsafe extern "C" fn read(storage: *const ForeignStorage) {
    // SAFETY: what the caller promises.
    let storage = Storage::from(unsafe { &*storage });
    keeping_panics(|| step_memory::see_read(storage));
}
