//! libtorch's random number generators in checkpoints.

use std::collections::BTreeSet;

use mlprof_train::{Result, SavedState};
use tch::{Device, Tensor};

use super::ffi;
use super::tensors::{restored, saved};

/// Returns the state of the generators that a training of these parameters uses. They are the CPU's
/// generator and the generators of all CUDA devices that hold a parameter.
pub(crate) fn state(named: &[(String, Tensor)]) -> Result<SavedState> {
    let mut state = SavedState::new();
    for generator in generators(named) {
        let own = ffi::read_generator(generator).ok_or("libtorch does not return its state")?;
        state.set_tensor(&name(generator), saved(&own)?);
    }
    Ok(state)
}

/// Restores the state of the generators after validating all of it.
pub(crate) fn load(named: &[(String, Tensor)], state: &SavedState) -> Result<()> {
    let is_saved = |generator: &i32| state.tensors().any(|(it, _)| it == name(*generator));
    let checked = generators(named).into_iter().filter(is_saved).map(|generator| {
        let own = ffi::read_generator(generator).ok_or("libtorch does not return its state")?;
        Ok((generator, restored(state, &name(generator), &own)?))
    });
    for (generator, state) in checked.collect::<Result<Vec<_>>>()? {
        if !ffi::write_generator(generator, &state) {
            return Err(format!("libtorch rejects the random state of {}", name(generator)).into());
        }
    }
    Ok(())
}

/// Returns the numbers of the generators: CUDA device numbers, and -1 for the CPU.
fn generators(named: &[(String, Tensor)]) -> BTreeSet<i32> {
    let devices = named.iter().filter_map(|(_, tensor)| match tensor.device() {
        Device::Cuda(number) => i32::try_from(number).ok(),
        _ => None,
    });
    devices.chain([ffi::CPU]).collect()
}

fn name(generator: i32) -> String {
    match generator {
        ffi::CPU => "cpu".to_owned(),
        number => format!("cuda:{number}"),
    }
}
