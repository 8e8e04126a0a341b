//! What an op returns, as record.cpp tells of it.

use mlprof_core::hook::{
    self, AllNumbers, DType, Direction, HostTensor, NumberReader, ObservedTensor, TensorNumbers,
    TensorRole,
};

use super::names::OpWord;

/// A tensor as it lies in the host's memory: `MlprofTchTensor` of record.h.
#[repr(C)]
struct ForeignTensor {
    /// Null if its numbers cannot be read.
    address: *const u8,
    dtype: i64,
    sizes: *const i64,
    strides: *const i64,
    dimensions: usize,
}

/// What an op has returned that is about to end: `MlprofTchOutput` of record.h.
///
/// *Invariant*: only record.cpp makes one, and what it points to is good for as long.
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

/// The items, of which a vector without any may be nowhere.
///
/// # Safety
///
/// So many are there, or none.
unsafe fn slice<'items, T>(items: *const T, count: usize) -> &'items [T] {
    match count {
        0 => &[],
        // SAFETY: by the contract of this function.
        _ => unsafe { std::slice::from_raw_parts(items, count) },
    }
}

impl ForeignTensor {
    fn dtype(&self) -> DType {
        DType::from_code(self.dtype)
    }

    /// `None` if its numbers cannot be read.
    fn numbers(&self) -> Option<HostTensor<'_>> {
        if self.address.is_null() {
            return None;
        }
        // SAFETY: by the invariant of what it is part of: so many sizes and strides are there.
        let (sizes, strides) =
            unsafe { (slice(self.sizes, self.dimensions), slice(self.strides, self.dimensions)) };
        // SAFETY: record.cpp gives an address of dense tensors in the host's memory alone, and libtorch's sizes and strides
        // of a tensor stay within its memory, which lives during the call. What it is an input of has ended, and its output
        // is not yet anybody's.
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
        // SAFETY: by the invariant.
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
