//! Tensors whose numbers a profiler may look at: what layers return, losses, gradients and parameters.

use std::collections::HashMap;

use profiler_core::hook::{
    self, DType, HostTensor, NumberReader, ObservedTensor, TensorNumbers, TensorRole,
};
use profiler_core::{Action, Interest};
use tch::nn::Variables;
use tch::{Device, Kind, Tensor};

/// A tensor of tch.
struct Numbers<'tensor>(&'tensor Tensor);

impl Numbers<'_> {
    /// What its numbers are; `None` for a tensor that is none.
    fn dtype(&self) -> Option<DType> {
        let kind = self.0.defined().then(|| self.0.kind())?;
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
        match self.0.defined() {
            true => self.0.size().into_iter().map(i64::cast_unsigned).collect(),
            false => Vec::new(),
        }
    }

    fn read(&self, reader: &mut dyn NumberReader) -> bool {
        let tensor = self.0;
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
        // SAFETY: a dense tensor in the host's memory, which it keeps as long as it is borrowed: it says itself where its
        // numbers are, of what type and how they lie.
        unsafe { HostTensor::new(address, dtype, &sizes, &strides) }.read(reader)
    }
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
        struct Kept(Vec<f64>);
        impl NumberReader for Kept {
            fn read_f32(&mut self, _numbers: &[f32]) {
                panic!("they have 16 bits")
            }
            fn read_f64(&mut self, _numbers: &[f64]) {
                panic!("they have 16 bits")
            }
            fn read_each(&mut self, numbers: &mut dyn Iterator<Item = f64>, _least: f64) {
                self.0.extend(numbers);
            }
        }
        let all: Vec<i16> = (i16::MIN..=i16::MAX).collect();
        let bits = Tensor::from_slice(&all);
        for kind in [Kind::Half, Kind::BFloat16] {
            let numbers = bits.view_dtype(kind);
            let doubles = Vec::<f64>::try_from(numbers.to_kind(Kind::Double)).expect("numbers");
            let mut kept = Kept(Vec::new());
            assert!(Numbers(&numbers).read(&mut kept));
            assert_eq!(kept.0.len(), doubles.len());
            for (bits, (value, expected)) in all.iter().zip(kept.0.into_iter().zip(doubles)) {
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
