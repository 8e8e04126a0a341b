//! Weights in checkpoints.

use std::sync::PoisonError;

use candle_core::{Tensor, Var};
use candle_nn::VarMap;
use mlprof_train::{self as train, SavedState, SavedTensor};

/// Returns all variables of a map for a checkpoint. Use it in
/// [`TrainModule::weights`](train::TrainModule::weights).
///
/// ```
/// use candle_core::{DType, Device};
/// use candle_nn::{VarMap, linear};
/// use mlprof_candle::{load_weights, saved_weights, seeded_var_builder};
///
/// let vars = VarMap::new();
/// let layer = linear(3, 2, seeded_var_builder(&vars, 42, DType::F32, &Device::Cpu).pp("head"))?;
/// let weights = saved_weights(&vars)?;
/// load_weights(&vars, &weights)?;
/// assert_eq!(weights.tensor("head.weight")?.shape(), layer.weight().dims());
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
///
/// # Errors
///
/// Returns candle's errors.
pub fn saved_weights(vars: &VarMap) -> train::Result<SavedState> {
    let vars = vars.data().lock().unwrap_or_else(PoisonError::into_inner);
    let mut weights = SavedState::new();
    for (name, var) in vars.iter() {
        weights.set_tensor(name, saved(var)?);
    }
    Ok(weights)
}

/// Sets all variables of a map from the result of [`saved_weights`]. Use it in
/// [`TrainModule::load_weights`](train::TrainModule::load_weights).
///
/// # Errors
///
/// Returns an error if names, types or shapes differ from the map. No variable has changed then.
pub fn load_weights(vars: &VarMap, weights: &SavedState) -> train::Result<()> {
    let vars = vars.data().lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((name, _)) = weights.tensors().find(|(name, _)| !vars.contains_key(*name)) {
        return Err(format!("the model has no variable {name:?}").into());
    }
    let loaded = vars.iter().map(|(name, var)| Ok((var, restored(weights, name, var)?)));
    for (var, tensor) in loaded.collect::<train::Result<Vec<_>>>()? {
        var.set(&tensor)?;
    }
    Ok(())
}

/// Returns the numbers of a variable.
pub(crate) fn saved(var: &Var) -> train::Result<SavedTensor> {
    let mut bytes = Vec::new();
    var.as_tensor().write_bytes(&mut bytes)?;
    SavedTensor::new(var.dtype().into(), var.dims().to_vec(), bytes)
}

/// Returns the tensor `name` on the device of `var`, after checking its type and shape.
pub(crate) fn restored(state: &SavedState, name: &str, var: &Var) -> train::Result<Tensor> {
    let saved = state.tensor_like(name, var.dtype().into(), var.dims())?;
    Ok(Tensor::from_raw_buffer(saved.bytes(), var.dtype(), var.dims(), var.device())?)
}
