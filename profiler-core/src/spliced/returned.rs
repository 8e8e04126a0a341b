//! Tensors that instrumented ops return, and their inputs.

use std::ffi::c_void;

use mlprof_events::{
    AllNumbers, DType, HostTensor, NumberReader, ObservedTensor, TensorNumbers, TensorRole,
};

use crate::hook::{self, Direction};

/// Layout of a tensor in memory. Instrumented crates contain the same definition.
#[repr(C)]
struct SplicedNumbers {
    /// Address of the whole storage, which the tensor may share with others.
    storage: *const u8,
    address: *const u8,
    dtype: i64,
    sizes: *const i64,
    strides: *const i64,
    dimensions: usize,
}

type Take = unsafe extern "C-unwind" fn(data: *mut c_void, numbers: *const SplicedNumbers);

/// Tensor passed by instrumented code. It gives access to its numbers on request, and they stay in
/// place until the callback has returned.
///
/// *Invariant*: only instrumented code creates such tensors. `read` may be called with its `object`
/// during the call of [`Sink::returned`](super::Sink::returned) that passed the tensor.
#[repr(C)]
#[derive(Debug)]
pub struct SplicedTensor {
    object: *const c_void,
    read: unsafe extern "C-unwind" fn(object: *const c_void, take: Take, data: *mut c_void),
}

impl SplicedTensor {
    /// Returns the result of `look` for the tensor's numbers, or `None` if they are not in the
    /// host's memory.
    fn look<R>(&self, look: impl FnOnce(&SplicedNumbers) -> R) -> Option<R> {
        struct Looking<F, R> {
            look: Option<F>,
            seen: Option<R>,
        }
        unsafe extern "C-unwind" fn take<F: FnOnce(&SplicedNumbers) -> R, R>(
            data: *mut c_void,
            numbers: *const SplicedNumbers,
        ) {
            // SAFETY: `data` is the pointer passed below to a `Looking<F, R>`, which only this call
            // accesses. `numbers` is valid during the call.
            let (looking, numbers) = unsafe { (&mut *data.cast::<Looking<F, R>>(), &*numbers) };
            looking.seen = looking.look.take().map(|look| look(numbers));
        }
        fn take_of<F: FnOnce(&SplicedNumbers) -> R, R>(_: &Looking<F, R>) -> Take {
            take::<F, R>
        }
        let mut looking = Looking { look: Some(look), seen: None };
        let take = take_of(&looking);
        // SAFETY: by the invariant, `read` may be called with `object` now. `looking` lives during
        // the call and matches the type that `take` expects.
        unsafe { (self.read)(self.object, take, (&raw mut looking).cast()) };
        looking.seen
    }

    fn dtype(&self) -> DType {
        self.look(|numbers| DType::from_code(numbers.dtype)).unwrap_or(DType::Other)
    }

    fn storage(&self) -> Option<*const u8> {
        self.look(|numbers| numbers.storage)
    }
}

impl SplicedNumbers {
    fn tensor(&self) -> HostTensor<'_> {
        let slice = |items: *const i64| match self.dimensions {
            0 => &[][..],
            // SAFETY: instrumented code guarantees `dimensions` initialised items, which live as
            // long as `self`.
            count => unsafe { std::slice::from_raw_parts(items, count) },
        };
        let dtype = DType::from_code(self.dtype);
        // SAFETY: instrumented code passes the framework's storage of the tensor, which stays
        // locked during the call. Data type, sizes and strides come from the framework.
        unsafe { HostTensor::new(self.address, dtype, slice(self.sizes), slice(self.strides)) }
    }
}

impl TensorNumbers for SplicedTensor {
    fn element_type(&self) -> &'static str {
        self.dtype().name()
    }

    fn shape(&self) -> Vec<u64> {
        self.look(|numbers| numbers.tensor().shape()).unwrap_or_default()
    }

    fn read(&self, reader: &mut dyn NumberReader) -> bool {
        self.look(|numbers| numbers.tensor().read(reader)).unwrap_or(false)
    }
}

const fn has_fractions(dtype: DType) -> bool {
    matches!(dtype, DType::Float64 | DType::Float32 | DType::Float16 | DType::BFloat16)
}

/// Reports the tensors returned by an op of this name. It skips inputs returned unchanged or as a
/// view. It also skips ops without input tensors, because their values come from the program.
pub(super) fn tell(
    name: &str,
    direction: Direction,
    outputs: &[SplicedTensor],
    inputs: &[SplicedTensor],
) {
    let fractions: Vec<&dyn TensorNumbers> = inputs
        .iter()
        .filter(|input| has_fractions(input.dtype()))
        .map(|input| input as &dyn TensorNumbers)
        .collect();
    if inputs.is_empty() {
        return;
    }
    let given: Vec<_> = inputs.iter().filter_map(SplicedTensor::storage).collect();
    let all = AllNumbers { tensors: &fractions, numbers: &[] };
    for output in outputs {
        let storage = output.storage();
        let is_handed_on = storage.is_some_and(|storage| given.contains(&storage));
        if is_handed_on || (storage.is_some() && !has_fractions(output.dtype())) {
            continue;
        }
        hook::tensor(&ObservedTensor {
            role: match direction {
                Direction::Forward => TensorRole::OpOutput,
                Direction::Backward => TensorRole::BackwardOpOutput,
            },
            name,
            tensor: output,
            input: (!fractions.is_empty()).then_some(&all as &dyn TensorNumbers),
        });
    }
}
