//! The boundary to state.cpp. All that is unsafe of checkpoints is in this file.

use std::ffi::c_void;
use std::ptr::{from_ref, null, null_mut};

use tch::{COptimizer, Tensor};
use torch_sys::C_tensor;

/// Number of tensors that the state of a parameter has at most.
pub(super) const TENSORS: usize = 3;
/// Number of options of a group of parameters.
pub(super) const OPTIONS: usize = 6;

// SAFETY: the declarations of state.cpp. None of them throws.
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

/// The CPU's generator; others are those of the CUDA devices with these numbers.
pub(super) const CPU: i32 = -1;

/// State of one parameter.
#[derive(Debug)]
pub(super) struct ParameterState {
    /// Number of steps; 0 of an optimizer that counts none.
    pub(super) step: i64,
    /// Tensors in the order of state.cpp; `None` if undefined.
    pub(super) tensors: [Option<Tensor>; TENSORS],
}

/// libtorch's optimizer of tch's.
fn inner(optimizer: &COptimizer) -> *mut c_void {
    const {
        assert!(size_of::<COptimizer>() == size_of::<*mut c_void>());
        assert!(align_of::<COptimizer>() == align_of::<*mut c_void>());
    }
    // SAFETY: a `COptimizer` of tch 0.22 to 0.26 has one field, the pointer that the functions of
    // torch-sys are called with. The size leaves no room for another field, and the pointer is
    // valid as long as the optimizer is borrowed.
    unsafe { from_ref(optimizer).cast::<*mut c_void>().read() }
}

/// Which optimizer it is, and how many groups of parameters it has.
pub(super) fn kind(optimizer: &COptimizer) -> (i32, usize) {
    let mut groups = 0;
    // SAFETY: the optimizer is borrowed, and `groups` is a local variable.
    let kind = unsafe { mlprof_tch_optimizer_kind(inner(optimizer), &raw mut groups) };
    (kind, groups)
}

/// The options of a group; `None` if there is no such group.
pub(super) fn options(optimizer: &COptimizer, group: usize) -> Option<[f64; OPTIONS]> {
    let mut values = [0.0; OPTIONS];
    let pointer = values.as_mut_ptr();
    // SAFETY: the optimizer is borrowed, nothing of it is written, and `values` has room for six.
    let is_read = unsafe { mlprof_tch_optimizer_options(inner(optimizer), group, pointer, false) };
    is_read.then_some(values)
}

/// Sets the options of a group. False if there is no such group.
pub(super) fn set_options(
    optimizer: &mut COptimizer,
    group: usize,
    mut values: [f64; OPTIONS],
) -> bool {
    let pointer = values.as_mut_ptr();
    // SAFETY: the optimizer is borrowed exclusively, and `values` has six numbers.
    unsafe { mlprof_tch_optimizer_options(inner(optimizer), group, pointer, true) }
}

/// The state of a parameter; `None` before its first step.
pub(super) fn read(optimizer: &COptimizer, parameter: &Tensor) -> Option<ParameterState> {
    let (mut step, mut tensors) = (0, [null_mut(); TENSORS]);
    // SAFETY: optimizer and parameter are borrowed, and the results are local variables.
    let is_read = unsafe {
        mlprof_tch_optimizer_read(
            inner(optimizer),
            parameter.as_ptr(),
            &raw mut step,
            tensors.as_mut_ptr(),
        )
    };
    // SAFETY: a pointer that is not null is a new tensor, which belongs to its receiver.
    let owned =
        |pointer: *mut C_tensor| (!pointer.is_null()).then(|| unsafe { Tensor::from_ptr(pointer) });
    let tensors = tensors.map(owned);
    is_read.then_some(ParameterState { step, tensors })
}

/// Sets the state of a parameter. False if libtorch refuses.
pub(super) fn write(
    optimizer: &mut COptimizer,
    parameter: &Tensor,
    state: &ParameterState,
) -> bool {
    let pointer = |tensor: &Option<Tensor>| tensor.as_ref().map_or(null(), Tensor::as_ptr);
    let tensors = state.tensors.each_ref().map(pointer);
    // SAFETY: the optimizer is borrowed exclusively; parameter and tensors are borrowed, and
    // libtorch takes references of its own to them.
    unsafe {
        mlprof_tch_optimizer_write(
            inner(optimizer),
            parameter.as_ptr(),
            state.step,
            tensors.as_ptr(),
        )
    }
}

/// Forgets the state of all parameters.
pub(super) fn clear(optimizer: &mut COptimizer) {
    // SAFETY: the optimizer is borrowed exclusively.
    unsafe { mlprof_tch_optimizer_clear(inner(optimizer)) }
}

/// Returns the state of a generator; `None` if there is no such generator.
pub(super) fn read_generator(generator: i32) -> Option<Tensor> {
    // SAFETY: the function accepts any number.
    let state = unsafe { mlprof_tch_generator_read(generator) };
    // SAFETY: a pointer that is not null is a new tensor, which belongs to its receiver.
    (!state.is_null()).then(|| unsafe { Tensor::from_ptr(state) })
}

/// Sets the state of a generator. False if libtorch refuses.
pub(super) fn write_generator(generator: i32, state: &Tensor) -> bool {
    // SAFETY: the function accepts any number, and only reads the tensor, which is borrowed.
    unsafe { mlprof_tch_generator_write(generator, state.as_ptr()) }
}
