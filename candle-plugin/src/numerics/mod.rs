//! Tensors whose numbers a profiler reads: outputs of layers, losses, gradients and parameters.

mod reduction;

use std::cell::OnceCell;

use candle_core::backprop::GradStore;
use candle_core::{CpuStorage, Device, Layout, Result, Storage, Tensor};
use mlprof_core::Action;
use mlprof_core::hook::{
    self, Change, LEAST_NORMAL_F16, NumberReader, ObservedStep, ObservedTensor, ReducedNumbers,
    Reduction, TensorFramework, TensorNumbers, TensorRole, strided_offsets,
};

use crate::named_vars::NamedVars;

/// candle, as a framework whose tensors profilers of numbers read.
pub(crate) struct Candle;

impl TensorFramework for Candle {
    type Tensor = Tensor;
    type Numbers<'tensor> = Numbers<'tensor>;

    fn numbers<'tensor>(
        tensor: &'tensor Tensor,
        change: Change<'tensor, Tensor>,
    ) -> Numbers<'tensor> {
        Numbers { tensor, change }
    }
}

/// A reference to a candle tensor.
pub(crate) struct Numbers<'tensor> {
    tensor: &'tensor Tensor,
    change: Change<'tensor, Tensor>,
}

impl<'tensor> Numbers<'tensor> {
    fn of(tensor: &'tensor Tensor) -> Self {
        Self { tensor, change: Change::None }
    }

    /// Returns the flat tensor that its device reduces. A difference of 16-bit numbers has 32 bits.
    fn flat(&self) -> Result<Tensor> {
        let flat = self.tensor.detach().flatten_all()?;
        self.change
            .of(flat, Tensor::copy, |now, before| reduction::wide(now)? - reduction::wide(before)?)
    }
}

impl TensorNumbers for Numbers<'_> {
    fn element_type(&self) -> &'static str {
        self.tensor.dtype().as_str()
    }

    fn shape(&self) -> Vec<u64> {
        self.tensor.dims().iter().map(|side| *side as u64).collect()
    }

    fn read(&self, reader: &mut dyn NumberReader) -> bool {
        let (storage, layout) = self.tensor.storage_and_layout();
        let Storage::Cpu(storage) = &*storage else { return false };
        match storage {
            CpuStorage::F32(numbers) => match piece(numbers, layout) {
                Some(piece) => reader.read_f32(piece),
                None => each(reader, numbers, layout, f32::MIN_POSITIVE.into(), f64::from),
            },
            CpuStorage::F64(numbers) => match piece(numbers, layout) {
                Some(piece) => reader.read_f64(piece),
                None => each(reader, numbers, layout, f64::MIN_POSITIVE, |number| number),
            },
            CpuStorage::F16(numbers) => each(reader, numbers, layout, LEAST_NORMAL_F16, f64::from),
            CpuStorage::BF16(numbers) => {
                each(reader, numbers, layout, f32::MIN_POSITIVE.into(), f64::from);
            }
            CpuStorage::U8(numbers) => each(reader, numbers, layout, 0.0, f64::from),
            CpuStorage::U32(numbers) => each(reader, numbers, layout, 0.0, f64::from),
            CpuStorage::I64(numbers) => each(reader, numbers, layout, 0.0, |number| number as f64),
            _ => return false,
        }
        true
    }

    fn read_waiting(&self, reader: &mut dyn NumberReader) -> bool {
        let on_host = hook::unseen(|| self.tensor.to_device(&Device::Cpu));
        on_host.is_ok_and(|on_host| Numbers::of(&on_host).read(reader))
    }

    fn reduce(&self, reduction: Reduction) -> Option<Box<dyn ReducedNumbers>> {
        reduction::begin(reduction, || self.flat())
    }
}

/// A tensor that is made when a profiler reads it. The profiler does not count the ops of that.
struct LazyTensor<F> {
    make: F,
    tensor: OnceCell<Option<Tensor>>,
}

impl<F: Fn() -> Result<Tensor>> LazyTensor<F> {
    fn tensor(&self) -> Option<Numbers<'_>> {
        self.tensor.get_or_init(|| (self.make)().ok()).as_ref().map(Numbers::of)
    }
}

impl<F: Fn() -> Result<Tensor>> TensorNumbers for LazyTensor<F> {
    fn element_type(&self) -> &'static str {
        self.tensor().map_or("none", |tensor| tensor.element_type())
    }

    fn shape(&self) -> Vec<u64> {
        self.tensor().map(|tensor| tensor.shape()).unwrap_or_default()
    }

    fn read(&self, reader: &mut dyn NumberReader) -> bool {
        self.tensor().is_some_and(|tensor| tensor.read(reader))
    }

    fn reduce(&self, reduction: Reduction) -> Option<Box<dyn ReducedNumbers>> {
        self.tensor()?.reduce(reduction)
    }
}

/// Returns the tensor's numbers as a slice if they are contiguous.
fn piece<'numbers, T>(numbers: &'numbers [T], layout: &Layout) -> Option<&'numbers [T]> {
    let (start, end) = layout.contiguous_offsets()?;
    numbers.get(start..end)
}

fn each<T: Copy>(
    reader: &mut dyn NumberReader,
    numbers: &[T],
    layout: &Layout,
    least_normal: f64,
    wide: impl Fn(T) -> f64,
) {
    match piece(numbers, layout) {
        Some(piece) => {
            reader.read_each(&mut piece.iter().map(|number| wide(*number)), least_normal)
        }
        None => {
            let strides: Vec<isize> = layout.stride().iter().map(|it| it.cast_signed()).collect();
            let offsets = strided_offsets(layout.dims(), &strides);
            let start = layout.start_offset();
            let mut all = offsets.map(|offset| wide(numbers[start.wrapping_add_signed(offset)]));
            reader.read_each(&mut all, least_normal);
        }
    }
}

/// Reports a tensor that a training step learns from, under a name such as `images`. Call it at the
/// beginning of a training step, before the first module. The record of the profiler of numbers
/// then has the tensor's hash, by which `mlprof compare-numerics` finds out whether two runs had
/// the same batches. Without it the input of the first module stands for the batch, and labels are
/// unknown.
///
/// ```
/// # use candle_core::{Device, Tensor};
/// # let images = Tensor::new(&[[0f32, 1.]], &Device::Cpu)?;
/// # let classes = Tensor::new(&[3u32], &Device::Cpu)?;
/// mlprof_candle::record_batch("images", &images);
/// mlprof_candle::record_batch("classes", &classes);
/// # Ok::<(), candle_core::Error>(())
/// ```
///
/// *Cost* if no profiler wants it: one relaxed load; otherwise that of any other tensor, and a hash
/// in recorded steps.
#[inline]
pub fn record_batch(name: &str, tensor: &Tensor) {
    hook::observe_batch::<Candle>(name, tensor);
}

/// Reports the output of a layer that is not a tensor; `make` makes a tensor of it if a profiler
/// reads it. *Cost* if no profiler wants it: one relaxed load.
#[inline]
pub(crate) fn observe_lazy_output(
    layer: Action,
    input: &Tensor,
    make: impl Fn() -> Result<Tensor>,
) {
    if hook::wants_numerics() {
        let tensor = &LazyTensor { make, tensor: OnceCell::new() };
        let (role, name, input) =
            (TensorRole::Output, layer.name(), Some(&Numbers::of(input) as &_));
        hook::tensor(&ObservedTensor { role, name, tensor, input });
    }
}

/// Reports gradients and parameters before a step of an optimizer; `None` if no profiler wants
/// them.
pub(crate) fn begin_step(vars: &NamedVars, gradients: &GradStore) -> Option<ObservedStep<Candle>> {
    ObservedStep::begin(|| named(vars), |var| gradients.get(var).cloned())
}

/// Returns the variables with their names from the map.
fn named(vars: &NamedVars) -> Vec<(String, Tensor)> {
    let named = vars.iter().enumerate().map(|(place, (var, name))| {
        let name = name.map_or_else(|| format!("parameter {place}"), str::to_owned);
        (name, var.as_tensor().clone())
    });
    named.collect()
}

#[cfg(test)]
mod tests;
