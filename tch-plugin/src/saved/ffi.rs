//! FFI to state.cpp. All unsafe code for checkpoints is in this file.

use std::ffi::c_void;
use std::ptr::{from_ref, null, null_mut};

use tch::{COptimizer, Tensor};
use torch_sys::C_tensor;

/// Maximum number of state tensors per parameter.
pub(super) const TENSORS: usize = 3;
/// Number of options per group of parameters.
pub(super) const OPTIONS: usize = 6;

// SAFETY: the declarations match state.cpp. The functions do not throw.
unsafe extern "C" {
    fn mlprof_tch_optimizer_kind(optimizer: *const c_void, groups: *mut usize) -> i32;
    fn mlprof_tch_optimizer_options(
        optimizer: *mut c_void,
        group: usize,
        values: *mut f64,
        writes: bool,
    ) -> bool;
    fn mlprof_tch_optimizer_read(
        optimizer: *const c_void,
        parameter: *const C_tensor,
        step: *mut i64,
        tensors: *mut *mut C_tensor,
    ) -> bool;
    fn mlprof_tch_optimizer_write(
        optimizer: *mut c_void,
        parameter: *const C_tensor,
        step: i64,
        tensors: *const *const C_tensor,
    ) -> bool;
    fn mlprof_tch_optimizer_clear(optimizer: *mut c_void);
    fn mlprof_tch_generator_read(cuda: i32) -> *mut C_tensor;
    fn mlprof_tch_generator_write(cuda: i32, state: *const C_tensor) -> bool;
}

/// Number of the CPU's generator. CUDA generators use their device numbers.
pub(super) const CPU: i32 = -1;

/// State of one parameter.
#[derive(Debug)]
pub(super) struct ParameterState {
    /// Number of steps, or 0 for an optimizer that does not count them.
    pub(super) step: i64,
    /// State tensors in the order of state.cpp; `None` if undefined.
    pub(super) tensors: [Option<Tensor>; TENSORS],
}

/// Returns the libtorch optimizer inside tch's optimizer.
fn inner(optimizer: &COptimizer) -> *mut c_void {
    const {
        assert!(size_of::<COptimizer>() == size_of::<*mut c_void>());
        assert!(align_of::<COptimizer>() == align_of::<*mut c_void>());
    }
    // SAFETY: a `COptimizer` of tch 0.22 to 0.26 has a single field: the pointer that torch-sys
    // functions receive. The size check excludes other fields. The pointer is valid while the
    // optimizer is borrowed.
    unsafe { from_ref(optimizer).cast::<*mut c_void>().read() }
}

/// Returns the kind of the optimizer and its number of parameter groups.
pub(super) fn kind(optimizer: &COptimizer) -> (i32, usize) {
    let mut groups = 0;
    // SAFETY: the optimizer is borrowed and therefore alive. `groups` is a local variable that is
    // valid for writes.
    let kind = unsafe { mlprof_tch_optimizer_kind(inner(optimizer), &raw mut groups) };
    (kind, groups)
}

/// Returns the options of a group, or `None` if there is no such group.
pub(super) fn options(optimizer: &COptimizer, group: usize) -> Option<[f64; OPTIONS]> {
    let mut values = [0.0; OPTIONS];
    let pointer = values.as_mut_ptr();
    // SAFETY: the optimizer is borrowed, and with `false` the function does not write to it.
    // `values` has space for six numbers.
    let is_read = unsafe { mlprof_tch_optimizer_options(inner(optimizer), group, pointer, false) };
    is_read.then_some(values)
}

/// Sets the options of a group. Returns `false` if there is no such group.
pub(super) fn set_options(
    optimizer: &mut COptimizer,
    group: usize,
    mut values: [f64; OPTIONS],
) -> bool {
    let pointer = values.as_mut_ptr();
    // SAFETY: the optimizer is exclusively borrowed, so writing is allowed. `values` contains six
    // numbers.
    unsafe { mlprof_tch_optimizer_options(inner(optimizer), group, pointer, true) }
}

/// Returns the state of a parameter, or `None` before its first step.
pub(super) fn read(optimizer: &COptimizer, parameter: &Tensor) -> Option<ParameterState> {
    let (mut step, mut tensors) = (0, [null_mut(); TENSORS]);
    // SAFETY: optimizer and parameter are borrowed and therefore alive. The results are local
    // variables that are valid for writes.
    let is_read = unsafe {
        mlprof_tch_optimizer_read(
            inner(optimizer),
            parameter.as_ptr(),
            &raw mut step,
            tensors.as_mut_ptr(),
        )
    };
    // SAFETY: a non-null pointer refers to a new tensor that state.cpp passes to the caller. Each
    // pointer is converted once, so that it has one owner.
    let owned =
        |pointer: *mut C_tensor| (!pointer.is_null()).then(|| unsafe { Tensor::from_ptr(pointer) });
    let tensors = tensors.map(owned);
    is_read.then_some(ParameterState { step, tensors })
}

/// Sets the state of a parameter. Returns `false` if libtorch refuses.
pub(super) fn write(
    optimizer: &mut COptimizer,
    parameter: &Tensor,
    state: &ParameterState,
) -> bool {
    let pointer = |tensor: &Option<Tensor>| tensor.as_ref().map_or(null(), Tensor::as_ptr);
    let tensors = state.tensors.each_ref().map(pointer);
    // SAFETY: the optimizer is exclusively borrowed, so writing is allowed. Parameter and tensors
    // are borrowed, and libtorch takes its own references to them.
    unsafe {
        mlprof_tch_optimizer_write(
            inner(optimizer),
            parameter.as_ptr(),
            state.step,
            tensors.as_ptr(),
        )
    }
}

/// Clears the state of all parameters.
pub(super) fn clear(optimizer: &mut COptimizer) {
    // SAFETY: the optimizer is exclusively borrowed, so it is alive and writing is allowed.
    unsafe { mlprof_tch_optimizer_clear(inner(optimizer)) }
}

/// Returns the state of a generator, or `None` if there is no such generator.
pub(super) fn read_generator(generator: i32) -> Option<Tensor> {
    // SAFETY: the function accepts any number and takes no pointers.
    let state = unsafe { mlprof_tch_generator_read(generator) };
    // SAFETY: a non-null pointer refers to a new tensor that state.cpp passes to the caller. It is
    // converted once, so that it has one owner.
    (!state.is_null()).then(|| unsafe { Tensor::from_ptr(state) })
}

/// Sets the state of a generator. Returns `false` if libtorch refuses.
pub(super) fn write_generator(generator: i32, state: &Tensor) -> bool {
    // SAFETY: the function accepts any number. It only reads the tensor, which is borrowed and
    // therefore alive.
    unsafe { mlprof_tch_generator_write(generator, state.as_ptr()) }
}
