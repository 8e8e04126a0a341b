//! The output of an op as reported by record.cpp.

use mlprof_core::hook::{
    self, AllNumbers, DType, Direction, HostTensor, NumberReader, ObservedTensor, TensorNumbers,
    TensorRole,
};

use super::names::OpWord;

/// A tensor in host memory: `MlprofTchTensor` of record.h.
#[repr(C)]
struct ForeignTensor {
    /// Address of the first element, or null if the numbers cannot be read.
    address: *const u8,
    dtype: i64,
    sizes: *const i64,
    strides: *const i64,
    dimensions: usize,
}

/// The output of an op that is about to end: `MlprofTchOutput` of record.h.
///
/// *Invariant*: only record.cpp creates this type. Its pointers are valid as long as the value is
/// borrowed.
#[repr(C)]
pub(super) struct OpOutput {
    pub(super) op: OpWord,
    output: *const ForeignTensor,
    inputs: *const ForeignTensor,
    input_count: usize,
    numbers: *const f64,
    number_count: usize,
    knows_inputs: bool,
}

/// Returns the slice. The pointer may be dangling or null if `count` is 0, as for an empty C++
/// vector.
///
/// # Safety
///
/// `items` points to `count` initialised items that are valid and unchanged for `'items`, unless
/// `count` is 0.
unsafe fn slice<'items, T>(items: *const T, count: usize) -> &'items [T] {
    match count {
        0 => &[],
        // SAFETY: `count` is not 0. The caller then guarantees `count` initialised items that are
        // valid for the returned lifetime.
        _ => unsafe { std::slice::from_raw_parts(items, count) },
    }
}

impl ForeignTensor {
    fn dtype(&self) -> DType {
        DType::from_code(self.dtype)
    }

    /// Returns the tensor's numbers, or `None` if they cannot be read.
    fn numbers(&self) -> Option<HostTensor<'_>> {
        if self.address.is_null() {
            return None;
        }
        // SAFETY: by the invariant of the enclosing `OpOutput`, both pointers refer to `dimensions`
        // values that are valid while `self` is borrowed.
        let (sizes, strides) =
            unsafe { (slice(self.sizes, self.dimensions), slice(self.strides, self.dimensions)) };
        // SAFETY: sizes and strides have the same length and come from libtorch, so they address
        // only elements of the tensor. record.cpp sets `address` only for dense tensors in host
        // memory. The memory is alive during the call. It does not change either: the op has
        // finished with its inputs, and no other code has its output yet.
        Some(unsafe { HostTensor::new(self.address, self.dtype(), sizes, strides) })
    }
}

impl TensorNumbers for ForeignTensor {
    fn element_type(&self) -> &'static str {
        self.dtype().name()
    }

    fn shape(&self) -> Vec<u64> {
        self.numbers().map_or_else(Vec::new, |numbers| numbers.shape())
    }

    fn read(&self, reader: &mut dyn NumberReader) -> bool {
        self.numbers().is_some_and(|numbers| numbers.read(reader))
    }
}

impl OpOutput {
    /// Reports the output to the active profiler, under this name.
    pub(super) fn report(&self, name: &str, direction: Direction) {
        // SAFETY: by the type's invariant, `output` is valid, and `inputs` and `numbers` refer to
        // the given numbers of initialised items. All are valid while `self` is borrowed.
        let (output, inputs, numbers) = unsafe {
            let inputs = slice(self.inputs, self.input_count);
            (&*self.output, inputs, slice(self.numbers, self.number_count))
        };
        let tensors: Vec<&dyn TensorNumbers> =
            inputs.iter().map(|input| input as &dyn TensorNumbers).collect();
        let given = AllNumbers { tensors: &tensors, numbers };
        let is_given = self.knows_inputs && !(tensors.is_empty() && numbers.is_empty());
        hook::tensor(&ObservedTensor {
            role: match direction {
                Direction::Forward => TensorRole::OpOutput,
                Direction::Backward => TensorRole::BackwardOpOutput,
            },
            name,
            tensor: output,
            input: is_given.then_some(&given as &dyn TensorNumbers),
        });
    }
}
