//! Reproducible weights from a seed.

use std::collections::HashMap;
use std::sync::{MutexGuard, PoisonError};

use candle_core::{DType, Device, Result, Shape, Tensor, Var};
use candle_nn::init::NormalOrUniform;
use candle_nn::var_builder::SimpleBackend;
use candle_nn::{Init, VarBuilder, VarMap};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use rand_distr::{Distribution, Normal, Uniform};

use crate::named_vars;

/// Seeds candle's random numbers on `device`. candle supports this on CUDA and Metal.
///
/// **candle cannot be seeded on a CPU** (`Device::set_seed` is an error there), so this function
/// has no effect on a CPU. `Tensor::rand`, `Tensor::randn`, `Dropout` and the weights of a plain
/// `VarBuilder::from_varmap` differ from run to run. Use [`seeded_var_builder`] for weights. For
/// other random numbers, use your own generator and `Tensor::from_vec`.
///
/// # Errors
///
/// Returns candle's error.
pub fn seed_device(device: &Device, seed: u64) -> Result<()> {
    if device.is_cpu() { Ok(()) } else { device.set_seed(seed) }
}

/// Returns a `VarBuilder` that initialises new variables with random numbers determined by `seed`,
/// on every device and platform. Otherwise it behaves like `VarBuilder::from_varmap`.
///
/// The numbers of a variable depend only on the seed and the variable's name. They do not depend on
/// the creation order or on the rest of the model. The distributions are those that the layers
/// request ([`Init`]).
///
/// ```
/// use candle_core::{DType, Device};
/// use candle_nn::{VarMap, linear};
/// use mlprof_candle::seeded_var_builder;
///
/// let weights = || {
///     let vars = VarMap::new();
///     let vb = seeded_var_builder(&vars, 42, DType::F32, &Device::Cpu);
///     linear(3, 2, vb.pp("head"))?.weight().to_vec2::<f32>()
/// };
/// assert_eq!(weights()?, weights()?);
/// # Ok::<(), candle_core::Error>(())
/// ```
pub fn seeded_var_builder(
    vars: &VarMap,
    seed: u64,
    dtype: DType,
    device: &Device,
) -> VarBuilder<'static> {
    let backend = SeededVarMap { vars: vars.clone(), seed };
    VarBuilder::from_backend(Box::new(backend), dtype, device.clone())
}

/// Returns the variables of a map sorted by name, which is the same order in every run.
///
/// The order of `VarMap::all_vars` changes from run to run. Sums over all variables, such as the
/// norm for gradient clipping, then differ in the last bits.
pub fn vars_by_name(vars: &VarMap) -> Vec<Var> {
    let vars = lock(vars);
    let mut named: Vec<_> = vars.iter().collect();
    named.sort_unstable_by_key(|(name, _)| *name);
    named_vars::remember(named.iter().map(|(name, var)| (var.id(), (*name).clone())).collect());
    named.into_iter().map(|(_, var)| var.clone()).collect()
}

/// Returns a `VarBuilder` for a second network with the same variables. Use that network for
/// evaluation, so that candle keeps no computation graph.
///
/// candle records all computations from variables for a backward pass, also during validation, and
/// keeps their inputs alive. This builder returns plain tensors that share the memory of `vars`.
/// Later updates of the variables are therefore visible in them. Build the network once, when
/// `vars` contains all variables:
///
/// ```
/// use candle_core::{DType, Device, Module, Tensor};
/// use candle_nn::{VarMap, linear};
/// use mlprof_candle::{detached_var_builder, seeded_var_builder};
///
/// let vars = VarMap::new();
/// let builder = seeded_var_builder(&vars, 42, DType::F32, &Device::Cpu);
/// let learning = linear(3, 2, builder.pp("head"))?;
/// let evaluated = linear(3, 2, detached_var_builder(&vars, DType::F32, &Device::Cpu).pp("head"))?;
///
/// let x = Tensor::ones((1, 3), DType::F32, &Device::Cpu)?;
/// assert_eq!(learning.forward(&x)?.to_vec2::<f32>()?, evaluated.forward(&x)?.to_vec2::<f32>()?);
/// assert!(learning.forward(&x)?.track_op() && !evaluated.forward(&x)?.track_op());
/// # Ok::<(), candle_core::Error>(())
/// ```
///
/// Building a layer fails in these cases, because a copy of the variable would never receive
/// updates:
///
/// - `vars` does not contain the variable yet.
/// - The variable's type or device differs from the builder's.
pub fn detached_var_builder(vars: &VarMap, dtype: DType, device: &Device) -> VarBuilder<'static> {
    let detached = |(name, var): (&String, &Var)| (name.clone(), var.as_detached_tensor());
    let tensors = DetachedTensors(lock(vars).iter().map(detached).collect());
    VarBuilder::from_backend(Box::new(tensors), dtype, device.clone())
}

/// Plain tensors that share the memory of variables.
struct DetachedTensors(HashMap<String, Tensor>);

impl DetachedTensors {
    fn tensor(&self, name: &str, dtype: DType, device: &Device) -> Result<&Tensor> {
        let Some(tensor) = self.0.get(name) else {
            candle_core::bail!("cannot find variable {name}: the map does not contain it")
        };
        if tensor.dtype() != dtype || !tensor.device().same_device(device) {
            candle_core::bail!(
                "cannot share variable {name}: it has the type {} on {:?}, and a copy with the \
                 type {} on {:?} would not be trained",
                tensor.dtype().as_str(),
                tensor.device().location(),
                dtype.as_str(),
                device.location()
            )
        }
        Ok(tensor)
    }
}

impl SimpleBackend for DetachedTensors {
    fn get(
        &self,
        shape: Shape,
        name: &str,
        _init: Init,
        dtype: DType,
        device: &Device,
    ) -> Result<Tensor> {
        let tensor = self.tensor(name, dtype, device)?;
        if *tensor.shape() != shape {
            let msg = format!("shape mismatch for {name}");
            let got = tensor.shape().clone();
            return Err(candle_core::Error::UnexpectedShape { msg, expected: shape, got }.bt());
        }
        Ok(tensor.clone())
    }

    fn get_unchecked(&self, name: &str, dtype: DType, device: &Device) -> Result<Tensor> {
        self.tensor(name, dtype, device).cloned()
    }

    fn contains_tensor(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }
}

fn lock(vars: &VarMap) -> MutexGuard<'_, HashMap<String, Var>> {
    vars.data().lock().unwrap_or_else(PoisonError::into_inner)
}

struct SeededVarMap {
    vars: VarMap,
    seed: u64,
}

impl SimpleBackend for SeededVarMap {
    fn get(
        &self,
        shape: Shape,
        name: &str,
        init: Init,
        dtype: DType,
        device: &Device,
    ) -> Result<Tensor> {
        let is_new = !self.contains_tensor(name);
        if is_new && let Some(values) = self.values(&shape, name, init)? {
            let tensor = Tensor::from_vec(values, &shape, &Device::Cpu)?.to_dtype(dtype)?;
            let var = Var::from_tensor(&tensor.to_device(device)?)?;
            lock(&self.vars).insert(name.to_owned(), var);
        }
        // The map checks the shape of existing variables, and creates those without random numbers.
        self.vars.get(shape, name, init, dtype, device)
    }

    fn get_unchecked(&self, name: &str, _dtype: DType, _device: &Device) -> Result<Tensor> {
        match lock(&self.vars).get(name) {
            Some(var) => Ok(var.as_tensor().clone()),
            None => {
                candle_core::bail!("cannot create variable {name}: its shape is unknown")
            }
        }
    }

    fn contains_tensor(&self, name: &str) -> bool {
        lock(&self.vars).contains_key(name)
    }
}

impl SeededVarMap {
    /// Returns the random numbers of a variable, or `None` if its initialisation is not random.
    fn values(&self, shape: &Shape, name: &str, init: Init) -> Result<Option<Vec<f64>>> {
        match init {
            Init::Const(_) => Ok(None),
            Init::Randn { mean, stdev } => self.normal(shape, name, mean, stdev),
            Init::Uniform { lo, up } => self.uniform(shape, name, lo, up),
            Init::Kaiming { dist, fan, non_linearity } => {
                let stdev = non_linearity.gain() / (fan.for_shape(shape) as f64).sqrt();
                let bound = 3f64.sqrt() * stdev;
                match dist {
                    NormalOrUniform::Normal => self.normal(shape, name, 0.0, stdev),
                    NormalOrUniform::Uniform => self.uniform(shape, name, -bound, bound),
                }
            }
        }
    }

    fn normal(&self, shape: &Shape, name: &str, mean: f64, stdev: f64) -> Drawn {
        self.draw(shape, name, Normal::new(mean, stdev).map_err(candle_core::Error::wrap)?)
    }

    fn uniform(&self, shape: &Shape, name: &str, low: f64, high: f64) -> Drawn {
        self.draw(shape, name, Uniform::new(low, high).map_err(candle_core::Error::wrap)?)
    }

    fn draw(&self, shape: &Shape, name: &str, from: impl Distribution<f64>) -> Drawn {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        random.set_stream(hash(name));
        Ok(Some(from.sample_iter(random).take(shape.elem_count()).collect()))
    }
}

type Drawn = Result<Option<Vec<f64>>>;

/// Computes an FNV-1a hash. The standard library's hash may change between compiler versions.
fn hash(name: &str) -> u64 {
    name.bytes().fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_nn::init::{DEFAULT_KAIMING_NORMAL, DEFAULT_KAIMING_UNIFORM};

    const SHAPE: (usize, usize) = (100, 50);

    fn values(seed: u64, name: &str, init: Init) -> Vec<f32> {
        let vb = seeded_var_builder(&VarMap::new(), seed, DType::F32, &Device::Cpu);
        let tensor = vb.get_with_hints(SHAPE, name, init).expect("made");
        tensor.flatten_all().and_then(|tensor| tensor.to_vec1()).expect("read")
    }

    fn mean_and_stdev(values: &[f32]) -> (f32, f32) {
        let count = values.len() as f32;
        let mean = values.iter().sum::<f32>() / count;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f32>() / count;
        (mean, variance.sqrt())
    }

    #[test]
    fn numbers_depend_on_the_seed_and_the_name_alone() {
        let init = DEFAULT_KAIMING_UNIFORM;
        assert_eq!(values(1, "a.weight", init), values(1, "a.weight", init));
        assert_ne!(values(1, "a.weight", init), values(2, "a.weight", init));
        assert_ne!(values(1, "a.weight", init), values(1, "b.weight", init));
    }

    #[test]
    fn distributions_are_those_that_were_asked_for() {
        let near = |init, (mean, stdev): (f32, f32)| {
            let found = mean_and_stdev(&values(3, "weight", init));
            assert!((found.0 - mean).abs() < 0.05 * stdev, "{init:?}: {found:?}");
            assert!((found.1 / stdev - 1.0).abs() < 0.05, "{init:?}: {found:?}");
        };
        near(Init::Randn { mean: 2.0, stdev: 3.0 }, (2.0, 3.0));
        near(Init::Uniform { lo: 0.0, up: 6.0 }, (3.0, 6.0 / 12f32.sqrt()));
        near(DEFAULT_KAIMING_NORMAL, (0.0, (2f32 / 50.0).sqrt()));
        near(DEFAULT_KAIMING_UNIFORM, (0.0, (2f32 / 50.0).sqrt()));
        let bound = (6f32 / 50.0).sqrt();
        let uniform = values(3, "weight", DEFAULT_KAIMING_UNIFORM);
        assert!(uniform.iter().all(|value| value.abs() <= bound));
        assert!(values(3, "bias", Init::Const(0.5)).iter().all(|&value| value == 0.5));
    }

    #[test]
    fn nonsense_is_an_error() {
        let vb = seeded_var_builder(&VarMap::new(), 1, DType::F32, &Device::Cpu);
        assert!(vb.get_with_hints(2, "x", Init::Uniform { lo: 1.0, up: 0.0 }).is_err());
        vb.get_with_hints(2, "y", Init::Const(0.0)).expect("made");
        let error = vb.get_with_hints(3, "y", Init::Const(0.0)).expect_err("another shape");
        assert!(error.to_string().contains("shape mismatch"), "{error}");
        assert!(!vb.contains_tensor("z"));
        assert!(vb.get_unchecked("z").is_err());
    }

    #[test]
    fn new_variables_are_in_the_map_and_trainable() {
        let vars = VarMap::new();
        let vb = seeded_var_builder(&vars, 1, DType::F64, &Device::Cpu);
        candle_nn::linear(4, 3, vb.pp("b")).expect("made");
        candle_nn::linear(4, 2, vb.pp("a")).expect("made");
        let shapes: Vec<_> = vars_by_name(&vars).iter().map(|var| var.dims().to_vec()).collect();
        // The order is a.bias, a.weight, b.bias, b.weight.
        assert_eq!(shapes, [vec![2], vec![2, 4], vec![3], vec![3, 4]]);
        assert!(vars_by_name(&vars).iter().all(|var| var.dtype() == DType::F64));
    }

    #[test]
    fn a_detached_network_has_what_is_learned_and_keeps_nothing() {
        let vars = VarMap::new();
        let build = |vb: VarBuilder<'static>| candle_nn::linear(2, 1, vb.pp("head"));
        build(seeded_var_builder(&vars, 1, DType::F32, &Device::Cpu)).expect("made");
        let evaluated = build(detached_var_builder(&vars, DType::F32, &Device::Cpu));
        let evaluated = evaluated.expect("all variables are there");
        let weight = Tensor::new(&[[3f32, 4.]], &Device::Cpu).expect("made");
        let head = lock(&vars)["head.weight"].clone();
        head.set(&weight).expect("learned");
        assert_eq!(evaluated.weight().to_vec2::<f32>().expect("read"), [[3., 4.]]);
        assert!(!evaluated.weight().track_op() && head.track_op());
        let vb = detached_var_builder(&vars, DType::F32, &Device::Cpu);
        assert!(candle_nn::linear(2, 1, vb.pp("tail")).is_err(), "there are no such variables");
        assert!(candle_nn::linear(3, 1, vb.pp("head")).is_err(), "another shape");
    }

    #[test]
    fn a_detached_network_of_another_type_is_refused_for_it_would_never_learn() {
        let vars = VarMap::new();
        let build = |vb: VarBuilder<'static>| candle_nn::linear(2, 1, vb.pp("head"));
        build(seeded_var_builder(&vars, 1, DType::F32, &Device::Cpu)).expect("made");
        let detached = || detached_var_builder(&vars, DType::F64, &Device::Cpu);
        let error = build(detached()).expect_err("64 bits").to_string();
        let expected = "cannot share variable head.weight: it has the type f32 on Cpu, and a copy with the \
                        type f64 on Cpu would not be trained";
        assert!(error.contains(expected), "{error}");
        assert!(detached().get_unchecked("head.weight").is_err());
        let shared = detached().get_unchecked_dtype("head.weight", DType::F32);
        assert!(shared.is_ok() && detached().contains_tensor("head.weight"));
    }
}
