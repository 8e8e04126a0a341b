//! Recording of the input batch of a step.

use std::any::Any;
use std::cell::OnceCell;

use burn::tensor::kind::Basic;
use burn::tensor::{Tensor, TensorData};
use mlprof_core::hook::{self, NumberReader, ObservedTensor, TensorNumbers, TensorRole};

use super::is_wanted;
use super::tensor::{Numbers, element_type, host, read_data};
use crate::ops::unseen;

/// Records a tensor of the current batch under a name such as `images`. Call it at the beginning of
/// a training step, before the first module. The step's record then contains the tensor's hash, by
/// which `mlprof compare-numerics` detects whether two runs saw the same batches. Without this
/// call, the input of the first module represents the batch, and labels are unknown.
///
/// ```
/// use burn::tensor::{Device, Int, Tensor};
///
/// let device = Device::flex();
/// let images = Tensor::<2>::from_floats([[0.0, 1.0]], &device);
/// let classes = Tensor::<1, Int>::from_ints([3], &device);
/// mlprof_burn::record_batch("images", &images);
/// mlprof_burn::record_batch("classes", &classes);
/// ```
///
/// *Cost*: one relaxed load if no profiler records numbers. In recorded steps, an integer batch or
/// a batch on a device is copied to host memory, which waits for that device. In steps that are
/// only watched, a batch on a device is not read.
#[inline]
pub fn record_batch<const D: usize, K: Basic + 'static>(name: &str, tensor: &Tensor<D, K>) {
    if is_wanted() {
        let tensor: &dyn TensorNumbers = &BatchNumbers { tensor, copy: OnceCell::new() };
        hook::tensor(&ObservedTensor { role: TensorRole::Batch, name, tensor, input: None });
    }
}

/// A batch tensor of any element kind.
struct BatchNumbers<'told, const D: usize, K: Basic> {
    tensor: &'told Tensor<D, K>,
    /// Copy in host memory. Contains `None` if the copy failed.
    copy: OnceCell<Option<TensorData>>,
}

impl<const D: usize, K: Basic + 'static> TensorNumbers for BatchNumbers<'_, D, K> {
    fn element_type(&self) -> &'static str {
        element_type(self.tensor.dtype())
    }

    fn shape(&self) -> Vec<u64> {
        self.tensor.dims().iter().map(|side| *side as u64).collect()
    }

    fn read(&self, reader: &mut dyn NumberReader) -> bool {
        self.read_in_place(reader)
            || host(&self.tensor.device()).is_some() && self.read_copy(reader)
    }

    fn read_waiting(&self, reader: &mut dyn NumberReader) -> bool {
        self.read_in_place(reader) || self.read_copy(reader)
    }
}

impl<const D: usize, K: Basic + 'static> BatchNumbers<'_, D, K> {
    /// Reads floating-point numbers in place if they are in host memory. Returns `false` otherwise.
    fn read_in_place(&self, reader: &mut dyn NumberReader) -> bool {
        let floats = (self.tensor as &dyn Any).downcast_ref::<Tensor<D>>();
        floats.is_some_and(|floats| Numbers::of(floats).read(reader))
    }

    fn read_copy(&self, reader: &mut dyn NumberReader) -> bool {
        let copy = || unseen(|| self.tensor.clone().try_into_data().ok());
        self.copy.get_or_init(copy).as_ref().is_some_and(|copy| read_data(copy, reader))
    }
}
