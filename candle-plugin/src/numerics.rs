//! Tensors whose numbers a profiler may look at: what layers return, losses, gradients and parameters.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use candle_core::backprop::GradStore;
use candle_core::{CpuStorage, Layout, Result, Storage, Tensor, TensorId, Var};
use profiler_core::hook::{
    self, NumberReader, ObservedTensor, TensorNumbers, TensorRole, strided_offsets,
};
use profiler_core::{Action, Interest};

/// The smallest positive `f16` that is not subnormal, 2⁻¹⁴.
const LEAST_NORMAL_F16: f64 = 6.103_515_625e-5;

/// A tensor of candle.
struct Numbers<'tensor>(&'tensor Tensor);

impl TensorNumbers for Numbers<'_> {
    fn element_type(&self) -> &'static str {
        self.0.dtype().as_str()
    }

    fn shape(&self) -> Vec<u64> {
        self.0.dims().iter().map(|side| *side as u64).collect()
    }

    fn read(&self, reader: &mut dyn NumberReader) -> bool {
        let (storage, layout) = self.0.storage_and_layout();
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
}

/// A tensor that is made once a profiler looks at it, which is its own work and none of the program's: no op of it is counted.
struct Made<F> {
    make: F,
    made: OnceCell<Option<Tensor>>,
}

impl<F: Fn() -> Result<Tensor>> Made<F> {
    fn tensor(&self) -> Option<Numbers<'_>> {
        self.made.get_or_init(|| (self.make)().ok()).as_ref().map(Numbers)
    }
}

impl<F: Fn() -> Result<Tensor>> TensorNumbers for Made<F> {
    fn element_type(&self) -> &'static str {
        self.tensor().map_or("none", |tensor| tensor.element_type())
    }

    fn shape(&self) -> Vec<u64> {
        self.tensor().map(|tensor| tensor.shape()).unwrap_or_default()
    }

    fn read(&self, reader: &mut dyn NumberReader) -> bool {
        self.tensor().is_some_and(|tensor| tensor.read(reader))
    }
}

/// The tensor's numbers, if they lie next to each other.
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

fn is_wanted() -> bool {
    hook::interest().contains(Interest::NUMERICS)
}

/// What a layer has returned. *Cost* if nobody wants to know: one relaxed load.
#[inline]
pub(crate) fn tell_output(layer: Action, input: &Tensor, output: &Result<Tensor>) {
    if is_wanted()
        && let Ok(output) = output
    {
        let input: &dyn TensorNumbers = &Numbers(input);
        tell(TensorRole::Output, layer.name(), output, Some(input));
    }
}

/// Tells the profiler of numbers which tensors a step learns from, each by a name of its own, such as `images`: at the beginning of a
/// training step, before the first module. Its record then has their hashes, by which `mlprof compare-numerics` knows whether two runs
/// saw the same batches. Without it what the first module is given stands for the batch, and of labels nothing is known.
///
/// ```
/// # use candle_core::{Device, Tensor};
/// # let (images, classes) = (Tensor::new(&[[0f32, 1.]], &Device::Cpu)?, Tensor::new(&[3u32], &Device::Cpu)?);
/// candle_plugin::tell_batch("images", &images);
/// candle_plugin::tell_batch("classes", &classes);
/// # Ok::<(), candle_core::Error>(())
/// ```
///
/// *Cost* if nobody wants to know: one relaxed load; else as for any other tensor, and a hash in recorded steps.
#[inline]
pub fn tell_batch(name: &str, tensor: &Tensor) {
    if is_wanted() {
        tell(TensorRole::Batch, name, tensor, None);
    }
}

/// What a layer has returned that is no tensor; `make` makes one of it, if somebody looks at it. *Cost* if nobody wants to know: one
/// relaxed load.
#[inline]
pub(crate) fn tell_made_output(layer: Action, input: &Tensor, make: impl Fn() -> Result<Tensor>) {
    if is_wanted() {
        let tensor = &Made { make, made: OnceCell::new() };
        let (role, name, input) = (TensorRole::Output, layer.name(), Some(&Numbers(input) as &_));
        hook::tensor(&ObservedTensor { role, name, tensor, input });
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

/// The names of parameters, as their map has them.
static NAMES: Mutex<Option<HashMap<TensorId, String>>> = Mutex::new(None);

/// Remembers a parameter's name: variables have none of their own.
pub(crate) fn name_parameter(var: &Var, name: &str) {
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    names.get_or_insert_default().insert(var.id(), name.to_owned());
}

/// A step of an optimizer, of which the numbers are wanted.
pub(crate) struct StepTold {
    parameters: Vec<(String, Var)>,
}

impl StepTold {
    /// Tells of gradients and parameters before the step.
    pub(crate) fn begin(vars: &[Var], gradients: &GradStore) -> Self {
        if !is_wanted() {
            return Self { parameters: Vec::new() };
        }
        let parameters: Vec<(String, Var)> = {
            let names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
            let name = |(place, var): (usize, &Var)| {
                let known = names.as_ref().and_then(|names| names.get(&var.id()));
                known.cloned().unwrap_or_else(|| format!("parameter {place}"))
            };
            vars.iter().enumerate().map(|one| (name(one), one.1.clone())).collect()
        };
        for (name, var) in &parameters {
            if let Some(gradient) = gradients.get(var) {
                tell(TensorRole::Gradient, name, gradient, None);
            }
            tell(TensorRole::Parameter, name, var.as_tensor(), None);
        }
        Self { parameters }
    }

    /// Tells of the parameters after it.
    pub(crate) fn end(self) {
        for (name, var) in &self.parameters {
            tell(TensorRole::Update, name, var.as_tensor(), None);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use candle_core::{DType, Device};
    use candle_nn::{Linear, Module, RNN, SGD, VarMap};
    use profiler_core::{NumericsProfiler, Profiler, activate};
    use profiler_train::TrainOptimizer;

    use super::*;
    use crate::prelude::*;

    fn statistics(tensor: &Tensor) -> profiler_core::report::numerics::TensorStatistics {
        let numbers = Numbers(tensor);
        let mut reader =
            profiler_core::report::numerics::StatisticsReader::of_shape(&numbers.shape());
        assert!(numbers.read(&mut reader));
        reader.statistics()
    }

    #[test]
    fn all_numbers_of_a_view_are_read_and_no_others() {
        let tensor = Tensor::arange(0f32, 12., &Device::Cpu).and_then(|it| it.reshape((3, 4)));
        let tensor = tensor.expect("a tensor");
        let row = tensor.get(1).expect("a row");
        let column = tensor.t().and_then(|turned| turned.get(1)).expect("a column");
        assert_eq!((statistics(&row).minimum, statistics(&row).maximum), (Some(4.), Some(7.)));
        let column = statistics(&column);
        assert_eq!((column.count, column.minimum, column.maximum), (3, Some(1.), Some(9.)));
        assert_eq!(statistics(&tensor.t().expect("turned")).l1_norm, 66.0);
        for dtype in [DType::F64, DType::F16, DType::BF16, DType::U8, DType::U32, DType::I64] {
            let other = tensor.to_dtype(dtype).expect("converted");
            let read = statistics(&other);
            assert_eq!((read.mean, read.zeros, read.subnormals), (Some(5.5), 1, 0), "{dtype:?}");
        }
    }

    #[test]
    fn a_step_tells_of_outputs_the_loss_gradients_parameters_and_updates() {
        let profiler = Arc::new(NumericsProfiler::new().every(1));
        let vars = VarMap::new();
        let vb = seeded_var_builder(&vars, 1, DType::F32, &Device::Cpu);
        let head: Profiled<Linear> =
            vb.pp("head").profiled(|vb| candle_nn::linear(3, 2, vb)).expect("a layer");
        let mut optimizer =
            CandleOptimizer::<SGD>::new(vars_by_name(&vars), 0.5).expect("an optimizer");
        let before = optimizer.vars()[1].to_vec2::<f32>().expect("numbers");
        let active = activate(profiler.clone());
        let input = Tensor::ones((4, 3), DType::F32, &Device::Cpu).expect("a tensor");
        let loss = head.forward(&input).and_then(|it| it.sqr()?.mean_all()).expect("a loss");
        optimizer.backward(&loss, 1.0).expect("gradients");
        optimizer.step().expect("a step");
        profiler.step();
        drop(active);
        let report = profiler.snapshot();
        let rows: Vec<_> = report.tensors.iter().map(|row| (row.role.name(), &*row.name)).collect();
        let of_parameter = |name| [("gradient", name), ("parameter", name)];
        let head = "[module]Linear: head";
        let mut expected = vec![("batch", head), ("output", head), ("loss", "loss")];
        expected.extend(of_parameter("head.bias"));
        expected.extend(of_parameter("head.weight"));
        expected.extend([("update", "head.bias"), ("update", "head.weight")]);
        assert_eq!(rows, expected);
        let after = optimizer.vars()[1].to_vec2::<f32>().expect("numbers");
        let numbers = |rows: &[Vec<f32>]| rows.concat();
        let pairs = numbers(&before).into_iter().zip(numbers(&after));
        let changed: f64 =
            pairs.map(|(before, after)| (f64::from(after) - f64::from(before)).powi(2)).sum();
        let update = report.tensors.last().expect("rows").last.l2_norm;
        assert!((update - changed.sqrt()).abs() < 1e-9 && update > 0.0, "{update}, {changed}");
        assert_eq!(report.first_not_finite, None);
    }

    /// Whatever is told of a batch stands for it, and else what its first layer was given.
    #[test]
    fn a_batch_is_told_of_or_what_the_first_layer_is_given() {
        let hashes = |tells: bool, kind: DType| {
            let folder = tempfile::tempdir().expect("a folder");
            let profiler = Arc::new(NumericsProfiler::new().every(1).dirpath(folder.path()));
            let layer = (|x: &Tensor| x.relu()).profiled("layer");
            let active = activate(profiler.clone());
            let input =
                Tensor::new(&[1f32, 2., 0.5], &Device::Cpu).and_then(|it| it.to_dtype(kind));
            let input = input.expect("a tensor");
            if tells {
                tell_batch("labels", &Tensor::new(&[7u32], &Device::Cpu).expect("a tensor"));
                tell_batch("inputs", &input);
            }
            layer.forward(&input).and_then(|it| layer.forward(&it)).expect("a tensor");
            profiler.step();
            drop(active);
            let text = std::fs::read_to_string(&profiler.snapshot().files[0]).expect("a record");
            let rows = text.lines().skip(1).map(|line| {
                profiler_core::report::numerics::RecordedTensor::from_line(line).expect("a tensor")
            });
            let batch = rows.filter(|row| row.hash.is_some()).map(|row| {
                assert_eq!(row.role, TensorRole::Batch);
                (row.name, row.hash.unwrap_or_default())
            });
            batch.collect::<Vec<_>>()
        };
        let told = hashes(true, DType::F32);
        let names: Vec<_> = told.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["labels", "inputs"]);
        let seen = hashes(false, DType::F64);
        let [(name, hash)] = &seen[..] else { panic!("{seen:?}") };
        assert_eq!((name.as_str(), hash), ("[module]closure: layer", &told[1].1));
    }

    /// What a recurrent layer returns are states, one per step: all hidden ones are its output.
    #[test]
    fn recurrent_layers_tell_of_their_outputs() {
        let profiler = Arc::new(NumericsProfiler::new().every(1));
        let vars = VarMap::new();
        let vb = seeded_var_builder(&vars, 1, DType::F32, &Device::Cpu);
        let lstm = candle_nn::lstm(3, 2, Default::default(), vb.pp("lstm")).expect("a layer");
        let gru = candle_nn::gru(3, 2, Default::default(), vb.pp("gru")).expect("a layer");
        let (lstm, gru) = (lstm.profiled("lstm"), gru.profiled("gru"));
        let input = Tensor::ones((4, 5, 3), DType::F32, &Device::Cpu).expect("a tensor");
        let active = activate(profiler.clone());
        let states = lstm.seq(&input).expect("states");
        gru.seq_init(&input, &gru.zero_state(4).expect("a state")).expect("states");
        gru.step(
            &input.narrow(1, 0, 1).and_then(|it| it.squeeze(1)).expect("a step"),
            &gru.zero_state(4).expect("a state"),
        )
        .expect("a state");
        drop(active);
        let report = profiler.snapshot();
        let outputs: Vec<_> =
            report.tensors.iter().filter(|row| row.role == TensorRole::Output).collect();
        let rows: Vec<_> =
            outputs.iter().map(|row| (&*row.name, row.tensors, &*row.shape)).collect();
        let expected: [(&str, u64, &[u64]); 2] =
            [("[module]LSTM: lstm", 1, &[4, 5, 2]), ("[module]GRU: gru", 2, &[4, 2])];
        assert_eq!(rows, expected);
        let output = lstm.states_to_tensor(&states).expect("a tensor");
        assert_eq!(outputs[0].last, statistics(&output));
        assert!(output.abs().and_then(|it| it.sum_all()?.to_scalar::<f32>()).expect("a sum") > 0.0);
    }

    #[test]
    fn the_layer_that_makes_the_first_nan_is_named() {
        let profiler = Arc::new(NumericsProfiler::new().every(0));
        let logarithm = (|x: &Tensor| x.log()).profiled("logarithm");
        let double = (|x: &Tensor| x * 2.0).profiled("double");
        let active = activate(profiler.clone());
        for step in 0..3 {
            let input = Tensor::new(&[2f32, 1.0 - step as f32], &Device::Cpu).expect("a tensor");
            let output = double.forward(&input).and_then(|it| logarithm.forward(&it));
            double.forward(&output.expect("a tensor")).expect("a tensor");
            profiler.step();
        }
        drop(active);
        let report = profiler.snapshot();
        let first = report.first_not_finite.as_ref().expect("a NaN");
        assert_eq!(first.name, "[module]closure: logarithm");
        assert_eq!((first.step, first.statistics.infinities), (1, 1));
        assert_eq!(first.input.expect("is known").minimum, Some(0.0));
        // The logarithm and what is made of it, in two steps.
        assert_eq!(report.not_finite, 4);
        assert_eq!(report.recorded_steps, 1, "the step after it");
    }
}
