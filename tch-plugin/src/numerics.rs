//! Tensors whose numbers a profiler may look at: what layers return, losses, gradients and parameters.

use std::collections::HashMap;

use profiler_core::hook::{
    self, NumberReader, ObservedTensor, TensorNumbers, TensorRole, strided_offsets,
};
use profiler_core::{Action, Interest};
use tch::nn::Variables;
use tch::{Device, Kind, Tensor};

/// The smallest positive number of 16 bits that is not subnormal, 2⁻¹⁴.
const LEAST_NORMAL_HALF: f64 = 6.103_515_625e-5;

/// A tensor of tch.
struct Numbers<'tensor>(&'tensor Tensor);

impl TensorNumbers for Numbers<'_> {
    fn element_type(&self) -> &'static str {
        if !self.0.defined() {
            return "none";
        }
        match self.0.kind() {
            Kind::Float => "f32",
            Kind::Double => "f64",
            Kind::Half => "f16",
            Kind::BFloat16 => "bf16",
            Kind::Uint8 => "u8",
            Kind::Int8 => "i8",
            Kind::Int16 => "i16",
            Kind::Int => "i32",
            Kind::Int64 => "i64",
            Kind::Bool => "bool",
            _ => "other",
        }
    }

    fn shape(&self) -> Vec<u64> {
        match self.0.defined() {
            true => self.0.size().into_iter().map(i64::cast_unsigned).collect(),
            false => Vec::new(),
        }
    }

    fn read(&self, reader: &mut dyn NumberReader) -> bool {
        let tensor = self.0;
        let is_there = tensor.defined()
            && tensor.device() == Device::Cpu
            && !tensor.is_sparse()
            && !tensor.is_mkldnn();
        if !is_there {
            return false;
        }
        let f32_least = f64::from(f32::MIN_POSITIVE);
        match tensor.kind() {
            Kind::Float => match whole::<f32>(tensor) {
                Some(numbers) => reader.read_f32(numbers),
                None => each::<f32>(tensor, reader, f32_least, f64::from),
            },
            Kind::Double => match whole::<f64>(tensor) {
                Some(numbers) => reader.read_f64(numbers),
                None => each::<f64>(tensor, reader, f64::MIN_POSITIVE, |number| number),
            },
            Kind::Half => each::<u16>(tensor, reader, LEAST_NORMAL_HALF, half),
            Kind::BFloat16 => each::<u16>(tensor, reader, f32_least, brain),
            Kind::Uint8 | Kind::Bool => each::<u8>(tensor, reader, 0.0, f64::from),
            Kind::Int8 => each::<i8>(tensor, reader, 0.0, f64::from),
            Kind::Int16 => each::<i16>(tensor, reader, 0.0, f64::from),
            Kind::Int => each::<i32>(tensor, reader, 0.0, f64::from),
            Kind::Int64 => each::<i64>(tensor, reader, 0.0, |number| number as f64),
            _ => return false,
        }
        true
    }
}

/// The value of a number of 16 bits, by IEEE 754: a bit of sign, five of exponent, ten of fraction.
fn half(bits: u16) -> f64 {
    let sign = if bits >> 15 == 0 { 1.0 } else { -1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
    sign * match exponent {
        0 => fraction * 2f64.powi(-24),
        0x1f if fraction == 0.0 => f64::INFINITY,
        0x1f => f64::NAN,
        exponent => (1.0 + fraction / 1024.0) * 2f64.powi(exponent - 15),
    }
}

/// The value of a `bf16`: the upper half of an `f32`.
fn brain(bits: u16) -> f64 {
    f32::from_bits(u32::from(bits) << 16).into()
}

/// All numbers of a tensor in the host's memory whose elements are of this type, if they lie next to each other.
fn whole<T>(tensor: &Tensor) -> Option<&[T]> {
    let (address, count) = (tensor.data_ptr(), tensor.numel());
    if count == 0 {
        return Some(&[]);
    }
    let is_whole = tensor.is_contiguous() && !address.is_null();
    // SAFETY: the callers have looked at device and type; elements lie in the tensor's memory one behind the other, as it
    // says, which keeps it as long as it is borrowed; all bits make a `T`, which is a plain number.
    is_whole.then(|| unsafe { std::slice::from_raw_parts(address.cast::<T>(), count) })
}

/// The same of any tensor in the host's memory, in the order of its places.
fn each<T: Copy>(
    tensor: &Tensor,
    reader: &mut dyn NumberReader,
    least_normal: f64,
    wide: impl Fn(T) -> f64,
) {
    if let Some(numbers) = whole::<T>(tensor) {
        return reader.read_each(&mut numbers.iter().map(|number| wide(*number)), least_normal);
    }
    let address = tensor.data_ptr().cast::<T>();
    if address.is_null() {
        return;
    }
    let shape: Vec<usize> = tensor.size().iter().map(|side| *side as usize).collect();
    let strides: Vec<isize> = tensor.stride().iter().map(|stride| *stride as isize).collect();
    let mut all = strided_offsets(&shape, &strides).map(|offset| {
        // SAFETY: as in `whole`; the offsets are those of the tensor's own places.
        wide(unsafe { address.offset(offset).read() })
    });
    reader.read_each(&mut all, least_normal);
}

pub(crate) fn is_wanted() -> bool {
    hook::interest().contains(Interest::NUMERICS)
}

/// What a layer has returned. *Cost* if nobody wants to know: one relaxed load.
#[inline]
pub(crate) fn tell_output(layer: Action, input: &Tensor, output: &Tensor) {
    if is_wanted() {
        let input: &dyn TensorNumbers = &Numbers(input);
        tell(TensorRole::Output, layer.name(), output, Some(input));
    }
}

/// Tells the profiler of numbers which tensors a step learns from, each by a name of its own, such as `images`: at the beginning of a
/// training step, before the first module. Its record then has their hashes, by which `mlprof compare-numerics` knows whether two runs
/// saw the same batches. Without it what the first module is given stands for the batch, and of labels nothing is known.
///
/// ```
/// let (images, classes) = (tch::Tensor::from_slice(&[0f32, 1.]), tch::Tensor::from_slice(&[3i64]));
/// tch_plugin::tell_batch("images", &images);
/// tch_plugin::tell_batch("classes", &classes);
/// ```
///
/// *Cost* if nobody wants to know: one relaxed load; else as for any other tensor, and a hash in recorded steps.
#[inline]
pub fn tell_batch(name: &str, tensor: &Tensor) {
    if is_wanted() {
        tell(TensorRole::Batch, name, tensor, None);
    }
}

/// The loss that `backward` begins with.
#[inline]
pub(crate) fn tell_loss(loss: &Tensor) {
    if is_wanted() {
        tell(TensorRole::Loss, "loss", loss, None);
    }
}

fn tell(role: TensorRole, name: &str, tensor: &Tensor, input: Option<&dyn TensorNumbers>) {
    hook::tensor(&ObservedTensor { role, name, tensor: &Numbers(tensor), input });
}

/// A step of an optimizer, of which the numbers are wanted.
pub(crate) struct StepTold {
    parameters: Vec<(String, Tensor)>,
}

impl StepTold {
    /// Tells of gradients and parameters before the step; `parameters` are asked for only then.
    pub(crate) fn begin(parameters: impl FnOnce() -> Vec<(String, Tensor)>) -> Self {
        let parameters = if is_wanted() { parameters() } else { Vec::new() };
        for (name, parameter) in &parameters {
            if let Ok(gradient) = parameter.f_grad()
                && gradient.defined()
            {
                tell(TensorRole::Gradient, name, &gradient, None);
            }
            tell(TensorRole::Parameter, name, parameter, None);
        }
        Self { parameters }
    }

    /// Tells of the parameters after it.
    pub(crate) fn end(self) {
        for (name, parameter) in &self.parameters {
            tell(TensorRole::Update, name, parameter, None);
        }
    }
}

/// The parameters of a store, with the names that it has for them.
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

/// A parameter whose name is not known.
pub(crate) fn numbered(place: usize) -> String {
    format!("parameter {place}")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use profiler_core::report::numerics::{StatisticsReader, TensorStatistics};
    use profiler_core::{NumericsProfiler, Profiler, activate};
    use profiler_train::TrainOptimizer;
    use tch::nn::{self, Module};

    use super::*;
    use crate::prelude::*;

    fn statistics(tensor: &Tensor) -> TensorStatistics {
        let numbers = Numbers(tensor);
        let mut reader = StatisticsReader::of_shape(&numbers.shape());
        assert!(numbers.read(&mut reader));
        reader.statistics()
    }

    #[test]
    fn all_numbers_of_a_view_are_read_and_no_others() {
        let tensor = Tensor::arange(12, (Kind::Float, Device::Cpu)).reshape([3, 4]);
        assert_eq!(
            (statistics(&tensor.get(1)).minimum, statistics(&tensor.get(1)).maximum),
            (Some(4.), Some(7.))
        );
        let column = statistics(&tensor.tr().get(1));
        assert_eq!((column.count, column.minimum, column.maximum), (3, Some(1.), Some(9.)));
        let turned = tensor.tr();
        let mut reader = StatisticsReader::new(12);
        assert!(Numbers(&turned).read(&mut reader));
        let order: Vec<_> = reader.sample().into_iter().flatten().collect();
        assert_eq!(order, [0., 4., 8., 1., 5., 9., 2., 6., 10., 3., 7., 11.]);
        for kind in [
            Kind::Double,
            Kind::Half,
            Kind::BFloat16,
            Kind::Uint8,
            Kind::Int8,
            Kind::Int16,
            Kind::Int,
            Kind::Int64,
        ] {
            let read = statistics(&tensor.to_kind(kind));
            assert_eq!((read.mean, read.zeros, read.subnormals), (Some(5.5), 1, 0), "{kind:?}");
        }
        assert!(!Numbers(&Tensor::new()).read(&mut StatisticsReader::new(0)), "none is there");
    }

    #[test]
    fn numbers_of_16_bits_are_what_torch_takes_them_for() {
        let all: Vec<i16> = (i16::MIN..=i16::MAX).collect();
        let bits = Tensor::from_slice(&all);
        for (kind, value) in [(Kind::Half, half as fn(u16) -> f64), (Kind::BFloat16, brain)] {
            let doubles = bits.view_dtype(kind).to_kind(Kind::Double);
            let doubles = Vec::<f64>::try_from(doubles).expect("numbers");
            for (bits, expected) in all.iter().zip(doubles) {
                let value = value(bits.cast_unsigned());
                assert!(
                    value == expected || value.is_nan() && expected.is_nan(),
                    "{bits:x}: {value}"
                );
            }
        }
    }

    #[test]
    fn a_step_tells_of_outputs_the_loss_gradients_parameters_and_updates() {
        let profiler = Arc::new(NumericsProfiler::new().every(1));
        let store = nn::VarStore::new(Device::Cpu);
        let path = store.root() / "head";
        let head = nn::linear(&path, 3, 2, Default::default()).profiled(&path);
        let mut optimizer =
            TchOptimizer::new(nn::Sgd::default(), &store, 0.5).expect("an optimizer");
        let active = activate(profiler.clone());
        let loss = head
            .forward(&Tensor::ones([4, 3], (Kind::Float, Device::Cpu)))
            .square()
            .mean(Kind::Float);
        optimizer.backward(&loss, 1.0).expect("gradients");
        let gradient: f64 = optimizer.variables()[0].grad().norm().try_into().expect("a number");
        optimizer.step().expect("a step");
        profiler.step();
        drop(active);
        let report = profiler.snapshot();
        let mut rows: Vec<_> =
            report.tensors.iter().map(|row| (row.role.name(), &*row.name)).collect();
        let head = "[module]Linear: head";
        assert_eq!(rows[..3], [("batch", head), ("output", head), ("loss", "loss")]);
        rows.sort();
        let both = |role| [(role, "head.bias"), (role, "head.weight")];
        let expected = ["batch", "gradient", "loss", "output", "parameter", "update"]
            .into_iter()
            .flat_map(|role| match role {
                "loss" => vec![("loss", "loss")],
                "batch" | "output" => vec![(role, head)],
                role => both(role).to_vec(),
            });
        assert_eq!(rows, expected.collect::<Vec<_>>());
        let first = optimizer.variables()[0].size().len();
        let is_it = |row: &&profiler_core::report::numerics::TensorRow| {
            row.role == TensorRole::Update && row.shape.len() == first
        };
        // Plain descent: the gradient, times the learning rate.
        let update = report.tensors.iter().find(is_it).expect("an update").last.l2_norm;
        assert!((update - 0.5 * gradient).abs() < 1e-6, "{update}, {gradient}");
    }

    #[test]
    fn the_layer_that_makes_the_first_nan_is_named() {
        let profiler = Arc::new(NumericsProfiler::new().every(0));
        let logarithm = nn::func(|x| x.log()).profiled("logarithm");
        let active = activate(profiler.clone());
        for step in 0..3 {
            let _ = logarithm.forward(&Tensor::from_slice(&[2f32, 1.0 - step as f32]));
            profiler.step();
        }
        drop(active);
        let first = profiler.snapshot().first_not_finite.expect("a NaN");
        assert_eq!(first.name, "[module]Func: logarithm");
        assert_eq!((first.step, first.statistics.infinities), (1, 1));
        assert_eq!(first.input.expect("is known").minimum, Some(0.0));
    }
}
