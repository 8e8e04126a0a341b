//! Tensors that a profiler can read: layer outputs, losses, gradients and parameters.

mod reduction;

use std::collections::HashMap;

use mlprof_core::hook::{
    self, Change, DType, HostTensor, NumberReader, ObservedTensor, ParametersTold, ReducedNumbers,
    Reduction, TensorNumbers, TensorRole,
};
use mlprof_core::{Action, Interest};
use tch::nn::Variables;
use tch::{Device, Kind, TchError, Tensor};

/// A reference to a tch tensor.
struct Numbers<'tensor> {
    tensor: &'tensor Tensor,
    change: Change<'tensor, Tensor>,
}

impl<'tensor> Numbers<'tensor> {
    fn of(tensor: &'tensor Tensor) -> Self {
        Self { tensor, change: Change::None }
    }

    /// Returns the flat tensor that the device reduces. The difference of 16-bit values is computed
    /// in 32 bits.
    fn flat(&self) -> Result<Tensor, TchError> {
        let flat = self.tensor.f_detach()?.f_reshape([-1])?;
        self.change.of(flat, Tensor::f_detach_copy, |now, before| {
            reduction::wide(now)?.f_sub(&reduction::wide(before)?)
        })
    }

    /// Returns the element type, or `None` for an undefined tensor.
    fn dtype(&self) -> Option<DType> {
        let kind = self.tensor.defined().then(|| self.tensor.kind())?;
        Some(match kind {
            Kind::Float => DType::Float32,
            Kind::Double => DType::Float64,
            Kind::Half => DType::Float16,
            Kind::BFloat16 => DType::BFloat16,
            Kind::Uint8 => DType::UInt8,
            Kind::Int8 => DType::Int8,
            Kind::Int16 => DType::Int16,
            Kind::Int => DType::Int32,
            Kind::Int64 => DType::Int64,
            Kind::Bool => DType::Bool,
            _ => DType::Other,
        })
    }
}

impl TensorNumbers for Numbers<'_> {
    fn element_type(&self) -> &'static str {
        self.dtype().map_or("none", DType::name)
    }

    fn shape(&self) -> Vec<u64> {
        match self.tensor.defined() {
            true => self.tensor.size().into_iter().map(i64::cast_unsigned).collect(),
            false => Vec::new(),
        }
    }

    fn read(&self, reader: &mut dyn NumberReader) -> bool {
        let tensor = self.tensor;
        let Some(dtype) = self.dtype() else { return false };
        let is_there = tensor.device() == Device::Cpu && !tensor.is_sparse() && !tensor.is_mkldnn();
        if !is_there {
            return false;
        }
        let (sizes, strides) = (tensor.size(), tensor.stride());
        let address = tensor.data_ptr().cast::<u8>();
        if address.is_null() && tensor.numel() > 0 {
            return false;
        }
        // SAFETY: `sizes` and `strides` come from this tensor, so they have the same length and no
        // negative sizes. The tensor is dense, in host memory, and has elements of `dtype`. Its
        // sizes and strides therefore address only its own elements. The borrow keeps the memory
        // alive. No op writes to the tensor during the call.
        unsafe { HostTensor::new(address, dtype, &sizes, &strides) }.read(reader)
    }

    fn read_waiting(&self, reader: &mut dyn NumberReader) -> bool {
        if self.tensor.defined() && self.tensor.device() != Device::Cpu {
            let on_host = hook::unseen(|| self.tensor.f_detach()?.f_to_device(Device::Cpu));
            return on_host.is_ok_and(|on_host| Numbers::of(&on_host).read(reader));
        }
        self.read(reader)
    }

    fn reduce(&self, reduction: Reduction) -> Option<Box<dyn ReducedNumbers>> {
        let is_dense =
            self.tensor.defined() && !self.tensor.is_sparse() && !self.tensor.is_mkldnn();
        let is_real = self.dtype().is_some_and(|dtype| dtype != DType::Other);
        (is_dense && is_real).then(|| reduction::begin(reduction, || self.flat())).flatten()
    }
}

pub(crate) fn is_wanted() -> bool {
    hook::interest().contains(Interest::NUMERICS)
}

/// Reports a layer's output. *Cost* if no profiler observes numbers: one relaxed load.
#[inline]
pub(crate) fn tell_output(layer: Action, input: &Tensor, output: &Tensor) {
    if is_wanted() {
        let input: &dyn TensorNumbers = &Numbers::of(input);
        tell(TensorRole::Output, layer.name(), output, Some(input));
    }
}

/// Records a tensor of the current batch under a name such as `images`. Call it at the beginning of
/// a training step, before the first module. The step's record then contains the tensor's hash, by
/// which `mlprof compare-numerics` detects whether two runs saw the same batches. Without this
/// call, the input of the first module represents the batch, and labels are unknown.
///
/// ```
/// let images = tch::Tensor::from_slice(&[0f32, 1.]);
/// let classes = tch::Tensor::from_slice(&[3i64]);
/// mlprof_tch::record_batch("images", &images);
/// mlprof_tch::record_batch("classes", &classes);
/// ```
///
/// *Cost*: one relaxed load if no profiler observes numbers. Otherwise the cost of any other
/// observed tensor, and of a hash in recorded steps.
#[inline]
pub fn record_batch(name: &str, tensor: &Tensor) {
    if is_wanted() {
        tell(TensorRole::Batch, name, tensor, None);
    }
}

/// Reports the loss on which `backward` is called.
#[inline]
pub(crate) fn tell_loss(loss: &Tensor) {
    if is_wanted() {
        tell(TensorRole::Loss, "loss", loss, None);
    }
}

fn tell(role: TensorRole, name: &str, tensor: &Tensor, input: Option<&dyn TensorNumbers>) {
    hook::tensor(&ObservedTensor { role, name, tensor: &Numbers::of(tensor), input });
}

/// Reports a parameter before or after an optimizer step, or its gradient.
fn tell_changing(role: TensorRole, name: &str, tensor: &Tensor, change: Change<'_, Tensor>) {
    hook::tensor(&ObservedTensor { role, name, tensor: &Numbers { tensor, change }, input: None });
}

/// Reports gradients and parameters before an optimizer step. Returns `None` if no profiler
/// observes numbers. `parameters` is called only if a profiler does.
pub(crate) fn begin_step(
    parameters: impl FnOnce() -> Vec<(String, Tensor)>,
) -> Option<ParametersTold<Tensor>> {
    let gradient = |parameter: &Tensor| parameter.f_grad().ok().filter(Tensor::defined);
    is_wanted().then(|| ParametersTold::begin(parameters(), gradient, tell_changing))
}

/// Returns the parameters of a store with their names.
pub(crate) fn named(variables: &Variables) -> Vec<(String, Tensor)> {
    let address = |tensor: &Tensor| tensor.data_ptr().addr();
    let names = variables.named_variables.iter();
    let names: HashMap<usize, &str> =
        names.map(|(name, tensor)| (address(tensor), name.as_str())).collect();
    let trained = variables.trainable_variables.iter().enumerate();
    let name = |place: usize, tensor: &Tensor| match names.get(&address(tensor)) {
        Some(name) => (*name).to_owned(),
        None => numbered(place),
    };
    trained.map(|(place, one)| (name(place, &one.tensor), one.tensor.shallow_clone())).collect()
}

/// Returns a name for a parameter whose name is unknown.
pub(crate) fn numbered(place: usize) -> String {
    format!("parameter {place}")
}

#[cfg(test)]
mod tests;
