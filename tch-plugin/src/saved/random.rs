//! Random number generators of libtorch in checkpoints.

use std::collections::BTreeSet;

use mlprof_train::{Result, SavedState};
use tch::{Device, Tensor};

use super::ffi;
use super::tensors::{restored, saved};

/// The state of the generators that a training on these parameters draws from: the CPU's, and that
/// of each CUDA device which has one of the parameters.
pub(crate) fn state(named: &[(String, Tensor)]) -> Result<SavedState> {
    let mut state = SavedState::new();
    for generator in generators(named) {
        let own = ffi::read_generator(generator).ok_or("libtorch does not return its state")?;
        state.set_tensor(&name(generator), saved(&own)?);
    }
    Ok(state)
}

/// Restores the state of the generators, after all of it has been checked.
pub(crate) fn load(named: &[(String, Tensor)], state: &SavedState) -> Result<()> {
    let is_saved = |generator: &i32| state.tensors().any(|(it, _)| it == name(*generator));
    let checked = generators(named).into_iter().filter(is_saved).map(|generator| {
        let own = ffi::read_generator(generator).ok_or("libtorch does not return its state")?;
        Ok((generator, restored(state, &name(generator), &own)?))
    });
    for (generator, state) in checked.collect::<Result<Vec<_>>>()? {
        if !ffi::write_generator(generator, &state) {
            return Err(format!("libtorch refuses the random state of {}", name(generator)).into());
        }
    }
    Ok(())
}

/// Numbers of the CUDA devices, and -1 for the CPU.
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
