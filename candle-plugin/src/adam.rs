//! An AdamW step with moments that a checkpoint can save. candle's own AdamW does not expose its
//! moments.

use candle_core::backprop::GradStore;
use candle_core::{Result, Tensor, Var};
use candle_nn::{AdamW, ParamsAdamW};
use mlprof_train::{self as train, SavedState};

use crate::named_vars::NamedVars;
use crate::weights::{restored, saved};

/// The moments of all variables.
#[derive(Debug)]
pub(crate) struct Adam {
    moments: Vec<Moments>,
    steps: usize,
}

#[derive(Debug)]
struct Moments {
    var: Var,
    name: Option<String>,
    first: Var,
    second: Var,
}

impl Adam {
    pub(crate) fn new(vars: &NamedVars) -> Result<Self> {
        // candle also trains only floating-point variables.
        let trained = vars.iter().filter(|(var, _)| var.dtype().is_float());
        let moments = trained.map(|(var, name)| {
            let zeros = || Var::zeros(var.shape(), var.dtype(), var.device());
            let name = name.map(str::to_owned);
            Ok(Moments { var: var.clone(), name, first: zeros()?, second: zeros()? })
        });
        Ok(Self { moments: moments.collect::<Result<_>>()?, steps: 0 })
    }

    /// Performs one step with candle's operations in candle's order, so that the results are
    /// bit-identical.
    pub(crate) fn step(&mut self, config: &ParamsAdamW, gradients: &GradStore) -> Result<()> {
        self.steps += 1;
        let correction = |beta: f64| 1f64 / (1f64 - beta.powi(self.steps as i32));
        let (first_scale, second_scale) = (correction(config.beta1), correction(config.beta2));
        let kept = 1f64 - config.lr * config.weight_decay;
        for Moments { var, first, second, .. } in &self.moments {
            let Some(gradient) = gradients.get(var) else { continue };
            let average = |before: &Var, now: &Tensor, beta: f64| -> Result<Tensor> {
                (before.as_tensor() * beta)? + (now * (1.0 - beta))?
            };
            let next_first = average(first, gradient, config.beta1)?;
            let next_second = average(second, &gradient.sqr()?, config.beta2)?;
            let scale = ((&next_second * second_scale)?.sqrt()? + config.eps)?;
            let change = ((&next_first * first_scale)? / scale)?;
            let next = ((var.as_tensor() * kept)? - (change * config.lr)?)?;
            first.set(&next_first)?;
            second.set(&next_second)?;
            var.set(&next)?;
        }
        Ok(())
    }

    /// Returns the state for a checkpoint.
    pub(crate) fn state(&self, config: &ParamsAdamW) -> train::Result<SavedState> {
        let mut state = SavedState::new();
        state.set("type", "AdamW");
        state.set("steps", self.steps);
        state.set("beta1", config.beta1);
        state.set("beta2", config.beta2);
        state.set("eps", config.eps);
        state.set("weight_decay", config.weight_decay);
        for moments in &self.moments {
            let [first, second] = moments.names()?;
            state.set_tensor(&first, saved(&moments.first)?);
            state.set_tensor(&second, saved(&moments.second)?);
        }
        Ok(state)
    }

    /// Restores a state after validating all of it.
    pub(crate) fn load(&mut self, state: &SavedState, optimizer: &mut AdamW) -> train::Result<()> {
        let steps = state.get("steps")?;
        let config = ParamsAdamW {
            lr: optimizer.params().lr,
            beta1: state.get("beta1")?,
            beta2: state.get("beta2")?,
            eps: state.get("eps")?,
            weight_decay: state.get("weight_decay")?,
        };
        let (found, own) = (state.tensors().count(), 2 * self.moments.len());
        if found != own {
            return Err(format!("it has {found} moments instead of the optimizer's {own}").into());
        }
        let mut loaded = Vec::new();
        for moments in &self.moments {
            let [first, second] = moments.names()?;
            loaded.push((restored(state, &first, &moments.var)?, &moments.first));
            loaded.push((restored(state, &second, &moments.var)?, &moments.second));
        }
        for (tensor, moment) in loaded {
            moment.set(&tensor)?;
        }
        self.steps = steps;
        optimizer.set_params(config);
        Ok(())
    }
}

impl Moments {
    /// Returns the checkpoint names of the two moments of a variable.
    fn names(&self) -> train::Result<[String; 2]> {
        let name = self.name.as_ref().ok_or(
            "the optimizer's variables have no names: create it from vars_by_name(&vars), or from \
             the map of a seeded_var_builder",
        )?;
        Ok([format!("first_moment/{name}"), format!("second_moment/{name}")])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::{DType, Device};
    use candle_nn::Optimizer;

    /// Returns two variables of this element type.
    fn vars(dtype: DType) -> Result<Vec<Var>> {
        let numbers = Tensor::arange(0f32, 12., &Device::Cpu)?.affine(0.173, -1.0)?;
        let first = Var::from_tensor(&numbers.reshape((3, 4))?.to_dtype(dtype)?)?;
        let second = Var::from_tensor(&numbers.affine(-1.7, 0.1)?.to_dtype(dtype)?)?;
        Ok(vec![first, second])
    }

    fn numbers(vars: &[Var]) -> Result<Vec<u64>> {
        let bits = |var: &Var| -> Result<Vec<u64>> {
            let numbers = var.flatten_all()?.to_dtype(DType::F64)?.to_vec1::<f64>()?;
            Ok(numbers.into_iter().map(f64::to_bits).collect())
        };
        Ok(vars.iter().map(bits).collect::<Result<Vec<_>>>()?.concat())
    }

    #[test]
    fn it_is_candles_step_to_the_last_bit() -> Result<()> {
        for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
            let (ours, theirs) = (vars(dtype)?, vars(dtype)?);
            let config = ParamsAdamW { lr: 0.05, ..ParamsAdamW::default() };
            let mut adam = Adam::new(&NamedVars::of(ours.clone()))?;
            let mut candle = AdamW::new(theirs.clone(), config.clone())?;
            for step in 0..30 {
                let loss = |vars: &[Var]| -> Result<Tensor> {
                    let first = vars[0].sqr()?.sum_all()?;
                    // The second variable receives a gradient only in some steps.
                    if step % 3 == 0 { Ok(first) } else { first + vars[1].exp()?.sum_all()? }
                };
                adam.step(&config, &loss(&ours)?.backward()?)?;
                candle.step(&loss(&theirs)?.backward()?)?;
                assert_eq!(numbers(&ours)?, numbers(&theirs)?, "{dtype:?} {step}");
            }
        }
        Ok(())
    }
}
