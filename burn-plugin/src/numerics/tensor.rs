//! A burn tensor whose numbers are read in host memory or reduced on its device.

use std::convert::Infallible;

use burn::backend::{Device as BackendDevice, DispatchDeviceId};
use burn::tensor::{DType, Device, Tensor, TensorData};
use mlprof_core::hook::{
    Change, LEAST_NORMAL_F16, NumberReader, ReducedNumbers, Reduction, TensorNumbers,
};

use super::{LEAST_NORMAL_F32, reduction};
use crate::ops::unseen;
use crate::version;

/// A reference to a burn tensor.
pub(super) struct Numbers<'told, const D: usize> {
    tensor: &'told Tensor<D>,
    change: Change<'told, Tensor<1>>,
}

impl<'told, const D: usize> Numbers<'told, D> {
    pub(super) fn of(tensor: &'told Tensor<D>) -> Self {
        Self::changing(tensor, Change::None)
    }

    pub(super) fn changing(tensor: &'told Tensor<D>, change: Change<'told, Tensor<1>>) -> Self {
        Self { tensor, change }
    }
}

impl<const D: usize> TensorNumbers for Numbers<'_, D> {
    fn element_type(&self) -> &'static str {
        element_type(self.tensor.dtype())
    }

    fn shape(&self) -> Vec<u64> {
        self.tensor.dims().iter().map(|side| *side as u64).collect()
    }

    fn read(&self, reader: &mut dyn NumberReader) -> bool {
        let tensor = without_gradients(self.tensor);
        match host(&tensor.device()) {
            #[cfg(any(feature = "flex", feature = "train"))]
            Some(Host::Flex) => super::flex::read(tensor, reader),
            Some(_) => tensor.try_into_data().is_ok_and(|numbers| read_data(&numbers, reader)),
            None => false,
        }
    }

    fn read_waiting(&self, reader: &mut dyn NumberReader) -> bool {
        if self.read(reader) {
            return true;
        }
        let copy = unseen(|| without_gradients(self.tensor).try_into_data());
        copy.is_ok_and(|copy| read_data(&copy, reader))
    }

    fn reduce(&self, reduction: Reduction) -> Option<Box<dyn ReducedNumbers>> {
        if !self.tensor.dtype().is_float() {
            return None;
        }
        reduction::begin(reduction, || {
            let tensor = without_gradients(self.tensor);
            let count = tensor.shape().num_elements();
            // A clone is enough, because a burn tensor is immutable.
            let copy = |flat: &Tensor<1>| Ok(flat.clone());
            // The difference of 16-bit values is computed in 32 bits.
            let difference = |now: &Tensor<1>, before: &Tensor<1>| {
                Ok(reduction::wide(now.clone()) - reduction::wide(before.clone()))
            };
            let Ok(flat) = self.change.of::<Infallible>(tensor.reshape([count]), copy, difference);
            flat
        })
    }
}

/// Returns the tensor without its autodiff graph, so that ops on it are not recorded.
fn without_gradients<const D: usize>(tensor: &Tensor<D>) -> Tensor<D> {
    let tensor = tensor.clone();
    if tensor.device().is_autodiff() { tensor.inner() } else { tensor }
}

/// Backends whose tensors are in host memory.
pub(super) enum Host {
    Flex,
    NdArray,
}

/// Returns the backend of `device` if its tensors are in host memory. The upper byte of a device's
/// type id identifies its backend.
pub(super) fn host(device: &Device) -> Option<Host> {
    let family = device.as_dispatch().to_id().type_id >> 8;
    if family == u16::from(DispatchDeviceId::Flex) {
        Some(Host::Flex)
    } else if version::is_ndarray(family) {
        Some(Host::NdArray)
    } else {
        None
    }
}

/// Reads the numbers and returns `true`, or returns `false` for quantized numbers.
pub(super) fn read_data(numbers: &TensorData, reader: &mut dyn NumberReader) -> bool {
    if let Ok(numbers) = numbers.as_slice::<f32>() {
        reader.read_f32(numbers);
        return true;
    }
    if let Ok(numbers) = numbers.as_slice::<f64>() {
        reader.read_f64(numbers);
        return true;
    }
    let least_normal = match numbers.dtype() {
        DType::QFloat(_) => return false,
        DType::F16 => LEAST_NORMAL_F16,
        DType::BF16 => LEAST_NORMAL_F32,
        _ => 0.0,
    };
    reader.read_each(&mut numbers.iter::<f64>(), least_normal);
    true
}

/// Returns the name of the element type that other frameworks also use.
pub(super) fn element_type(dtype: DType) -> &'static str {
    match dtype {
        DType::F64 => "f64",
        DType::F32 | DType::Flex32 => "f32",
        DType::F16 => "f16",
        DType::BF16 => "bf16",
        DType::I64 => "i64",
        DType::I32 => "i32",
        DType::I16 => "i16",
        DType::I8 => "i8",
        DType::U64 => "u64",
        DType::U32 => "u32",
        DType::U16 => "u16",
        DType::U8 => "u8",
        DType::Bool(_) => "bool",
        DType::QFloat(_) => "quantized",
    }
}
