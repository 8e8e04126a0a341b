//! The state of libtorch's optimizers in checkpoints.

use mlprof_train::{Result, SavedState};
use tch::{COptimizer, Tensor, no_grad};

use super::ffi::{self, OPTIONS, ParameterState, TENSORS};
use super::tensors::{restored, saved};

/// Checkpoint names of an optimizer's options and tensors.
struct Names {
    optimizer: &'static str,
    options: [&'static str; OPTIONS],
    tensors: [&'static str; TENSORS],
}

const ADAM: Names = Names {
    optimizer: "Adam",
    options: ["lr", "beta1", "beta2", "eps", "weight_decay", "amsgrad"],
    tensors: ["exp_avg", "exp_avg_sq", "max_exp_avg_sq"],
};
const ADAM_W: Names = Names { optimizer: "AdamW", ..ADAM };
const RMS_PROP: Names = Names {
    optimizer: "RMSprop",
    options: ["lr", "alpha", "eps", "weight_decay", "momentum", "centered"],
    tensors: ["square_avg", "momentum_buffer", "grad_avg"],
};
const SGD: Names = Names {
    optimizer: "SGD",
    options: ["lr", "momentum", "dampening", "weight_decay", "nesterov", ""],
    tensors: ["momentum_buffer", "", ""],
};

fn names(optimizer: &COptimizer) -> Result<(Names, usize)> {
    let (kind, groups) = ffi::kind(optimizer);
    let names = match kind {
        1 => ADAM,
        2 => ADAM_W,
        3 => RMS_PROP,
        4 => SGD,
        _ => return Err("it is not libtorch's Adam, AdamW, RMSprop or SGD".into()),
    };
    Ok((names, groups))
}

/// Returns the state of the named parameters for a checkpoint.
pub(crate) fn state(optimizer: &COptimizer, named: &[(String, Tensor)]) -> Result<SavedState> {
    let (names, groups) = names(optimizer)?;
    let mut state = SavedState::new();
    state.set("type", names.optimizer);
    state.set("groups", groups);
    for group in 0..groups {
        let options =
            ffi::options(optimizer, group).ok_or("libtorch does not return its options")?;
        for (option, value) in names.options.iter().zip(options).filter(|(it, _)| !it.is_empty()) {
            state.set(&format!("{option}/{group}"), value);
        }
    }
    for (name, parameter) in named {
        let Some(own) = ffi::read(optimizer, parameter) else { continue };
        state.set(&format!("step/{name}"), own.step);
        for (part, tensor) in names.tensors.iter().zip(own.tensors) {
            if let Some(tensor) = tensor {
                state.set_tensor(&format!("{part}/{name}"), saved(&tensor)?);
            }
        }
    }
    Ok(state)
}

/// Restores a state after validating all of it.
pub(crate) fn load(
    optimizer: &mut COptimizer,
    named: &[(String, Tensor)],
    state: &SavedState,
) -> Result<()> {
    let (names, groups) = names(optimizer)?;
    let (found, own): (String, _) = (state.get("type")?, names.optimizer);
    if found != own {
        return Err(format!("its optimizer is {found}, but the module's optimizer is {own}").into());
    }
    let found: usize = state.get("groups")?;
    if found != groups {
        let error = format!("it has {found} parameter groups instead of the optimizer's {groups}");
        return Err(error.into());
    }
    let options = (0..groups).map(|group| {
        let mut values = [0.0; OPTIONS];
        for (value, option) in values.iter_mut().zip(names.options).filter(|(_, it)| !it.is_empty())
        {
            *value = state.get(&format!("{option}/{group}"))?;
        }
        Ok(values)
    });
    let options = options.collect::<Result<Vec<_>>>()?;
    let mut states = Vec::new();
    let mut used = 0;
    for (name, parameter) in named {
        let Some(step) = state.get_option(&format!("step/{name}"))? else { continue };
        let mut own = ParameterState { step, tensors: [const { None }; TENSORS] };
        for (part, tensor) in names.tensors.iter().zip(&mut own.tensors) {
            let full = format!("{part}/{name}");
            if !part.is_empty() && state.tensors().any(|(name, _)| name == full) {
                *tensor = Some(restored(state, &full, parameter)?);
                used += 1;
            }
        }
        states.push((parameter, own));
    }
    if used != state.tensors().count() {
        return Err("it has state of parameters that the optimizer does not have".into());
    }
    no_grad(|| {
        ffi::clear(optimizer);
        let are_set = states.iter().all(|(parameter, own)| ffi::write(optimizer, parameter, own));
        let mut groups = options.into_iter().enumerate();
        let are_set = are_set && groups.all(|(group, it)| ffi::set_options(optimizer, group, it));
        if are_set { Ok(()) } else { Err("libtorch rejects the optimizer's state".into()) }
    })
}
