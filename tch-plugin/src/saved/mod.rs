//! Weights, optimizer state and random number state in checkpoints.

#[cfg(records_ops)]
mod ffi;
#[cfg_attr(not(records_ops), path = "without_libtorch.rs")]
pub(crate) mod optimizer;
#[cfg_attr(not(records_ops), path = "random_without_libtorch.rs")]
pub(crate) mod random;
mod tensors;

use mlprof_train::{Result, SavedState};
use tch::nn::VarStore;
use tch::no_grad;

/// Returns all variables of a store for a checkpoint. Use it in
/// [`TrainModule::weights`](mlprof_train::TrainModule::weights).
///
/// ```
/// use tch::{Device, nn};
/// use mlprof_tch::{load_weights, saved_weights};
///
/// let store = nn::VarStore::new(Device::Cpu);
/// let layer = nn::linear(store.root() / "head", 3, 2, Default::default());
/// let weights = saved_weights(&store)?;
/// load_weights(&store, &weights)?;
/// assert_eq!(weights.tensor("head.weight")?.shape(), [2, 3]);
/// # let _ = layer;
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
///
/// # Errors
///
/// Returns torch's errors, or an error if safetensors does not support a variable's type.
pub fn saved_weights(store: &VarStore) -> Result<SavedState> {
    let mut weights = SavedState::new();
    for (name, tensor) in store.variables() {
        weights.set_tensor(&name, tensors::saved(&tensor)?);
    }
    Ok(weights)
}

/// Sets all variables of a store from the result of [`saved_weights`]. Use it in
/// [`TrainModule::load_weights`](mlprof_train::TrainModule::load_weights).
///
/// # Errors
///
/// Returns an error if names, types or shapes differ from the store. No variable has changed then.
pub fn load_weights(store: &VarStore, weights: &SavedState) -> Result<()> {
    let variables = store.variables();
    if let Some((name, _)) = weights.tensors().find(|(name, _)| !variables.contains_key(*name)) {
        return Err(format!("the model has no variable {name:?}").into());
    }
    let loaded = variables.into_iter().map(|(name, variable)| {
        let tensor = tensors::restored(weights, &name, &variable)?;
        Ok((variable, tensor))
    });
    let loaded = loaded.collect::<Result<Vec<_>>>()?;
    no_grad(|| {
        for (mut variable, tensor) in loaded {
            variable.f_copy_(&tensor)?;
        }
        Ok(())
    })
}
