//! Weights, state of optimizers and random numbers in checkpoints.

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

/// Returns all variables of a store, for a checkpoint: what
/// [`TrainModule::weights`](mlprof_train::TrainModule::weights) returns.
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
/// Those of torch, and if a variable is of a type that safetensors does not have.
pub fn saved_weights(store: &VarStore) -> Result<SavedState> {
    let mut weights = SavedState::new();
    for (name, tensor) in store.variables() {
        weights.set_tensor(&name, tensors::saved(&tensor)?);
    }
    Ok(weights)
}

/// Sets all variables of a store to what [`saved_weights`] returned, for
/// [`TrainModule::load_weights`](mlprof_train::TrainModule::load_weights).
///
/// # Errors
///
/// If the names, types or shapes are not those of the store; then no variable has changed.
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
