//! What spliced ops return, and what they were given.

use std::ffi::c_void;

use mlprof_events::{
    AllNumbers, DType, HostTensor, NumberReader, ObservedTensor, TensorNumbers, TensorRole,
};

use crate::hook::{self, Direction};

/// A tensor as it lies in memory: the same text is in spliced crates.
#[repr(C)]
struct SplicedNumbers {
    /// Where all numbers are that it may share with others.
    storage: *const u8,
    address: *const u8,
    dtype: i64,
    sizes: *const i64,
    strides: *const i64,
    dimensions: usize,
}

type Take = unsafe extern "C-unwind" fn(data: *mut c_void, numbers: *const SplicedNumbers);

/// A tensor that spliced code tells of: it says where its numbers are if it is asked, and they stay there until the one who asks
/// has returned.
///
/// *Invariant*: only spliced code makes one; `read` may be called with its `object` as long as the call of
/// [`Sink::returned`](super::Sink::returned) lasts that it was told by.
#[repr(C)]
#[derive(Debug)]
pub struct SplicedTensor {
    object: *const c_void,
    read: unsafe extern "C-unwind" fn(object: *const c_void, take: Take, data: *mut c_void),
}

impl SplicedTensor {
    /// What `look` makes of it; `None` if its numbers are not in the host's memory.
    fn look<R>(&self, look: impl FnOnce(&SplicedNumbers) -> R) -> Option<R> {
        struct Looking<F, R> {
            look: Option<F>,
            seen: Option<R>,
        }
        unsafe extern "C-unwind" fn take<F: FnOnce(&SplicedNumbers) -> R, R>(
            data: *mut c_void,
            numbers: *const SplicedNumbers,
        ) {
            // SAFETY: the data are what is given below, which nobody else has; the numbers are there during the call.
            let (looking, numbers) = unsafe { (&mut *data.cast::<Looking<F, R>>(), &*numbers) };
            looking.seen = looking.look.take().map(|look| look(numbers));
        }
        fn take_of<F: FnOnce(&SplicedNumbers) -> R, R>(_: &Looking<F, R>) -> Take {
            take::<F, R>
        }
        let mut looking = Looking { look: Some(look), seen: None };
        let take = take_of(&looking);
        // SAFETY: by the invariant; the data live during the call.
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
            // SAFETY: so many are there, as long as this is.
            count => unsafe { std::slice::from_raw_parts(items, count) },
        };
        let dtype = DType::from_code(self.dtype);
        // SAFETY: spliced code gives the slice that the framework keeps the tensor in, which is locked meanwhile, and how the
        // framework itself says that it lies there.
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

/// Tells what an op of this name has returned. Not what it was given as it is, or a view of that; nor what it has made of no
/// tensor, which is what the program says.
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
