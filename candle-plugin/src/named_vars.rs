//! The variables of an optimizer with their names from a `VarMap`.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};

use candle_core::{TensorId, Var};

/// Maximum number of maps whose names are remembered until an optimizer uses them.
const MAPS: usize = 32;

/// Names of variables, by map. candle's variables have no names, and a list of variables does not
/// reveal its map.
static RECENT: Mutex<VecDeque<Vec<(TensorId, String)>>> = Mutex::new(VecDeque::new());

/// Stores the names of a map's variables for an optimizer that will be created from them. The
/// oldest map is dropped when the limit is reached, because a program may build many models in
/// sequence.
pub(crate) fn remember(names: Vec<(TensorId, String)>) {
    let Some(first) = names.first().map(|(id, _)| *id) else { return };
    let mut recent = RECENT.lock().unwrap_or_else(PoisonError::into_inner);
    // An earlier entry of the same map is replaced.
    recent.retain(|names| names.first().is_none_or(|(id, _)| *id != first));
    recent.push_back(names);
    while recent.len() > MAPS {
        recent.pop_front();
    }
}

/// Variables without duplicates, with their names if known.
#[derive(Debug, Clone, Default)]
pub(crate) struct NamedVars {
    vars: Vec<Var>,
    names: Vec<Option<String>>,
}

impl NamedVars {
    /// Creates the list. A variable that several layers share is kept once.
    pub(crate) fn of(mut vars: Vec<Var>) -> Self {
        let mut known = HashSet::new();
        vars.retain(|var| known.insert(var.id()));
        let recent = RECENT.lock().unwrap_or_else(PoisonError::into_inner);
        let of_maps = recent.iter().flatten().map(|(id, name)| (*id, name));
        let of_maps: HashMap<TensorId, &String> = of_maps.collect();
        let names = vars.iter().map(|var| of_maps.get(&var.id()).map(|name| (*name).clone()));
        Self { names: names.collect(), vars }
    }

    pub(crate) fn vars(&self) -> &[Var] {
        &self.vars
    }

    /// Iterates over the variables and their names. A name is `None` if no known map contains the
    /// variable.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Var, Option<&str>)> {
        self.vars.iter().zip(self.names.iter().map(Option::as_deref))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::{DType, Device};
    use candle_nn::{VarMap, linear};

    use crate::{seeded_var_builder, vars_by_name};

    fn model() -> VarMap {
        let vars = VarMap::new();
        let vb = seeded_var_builder(&vars, 1, DType::F32, &Device::Cpu);
        linear(1, 1, vb.pp("layer")).expect("made");
        vars
    }

    #[test]
    fn names_go_to_the_optimizer_and_are_not_kept_for_ever() {
        let kept = NamedVars::of(vars_by_name(&model()));
        let models: Vec<VarMap> = (0..100).map(|_| model()).collect();
        for vars in &models {
            vars_by_name(vars);
            vars_by_name(vars);
        }
        let names = kept.iter().map(|(_, name)| name);
        assert_eq!(names.collect::<Vec<_>>(), [Some("layer.bias"), Some("layer.weight")]);
        let names = |vars: &VarMap| {
            NamedVars::of(vars.all_vars()).iter().filter(|(_, name)| name.is_some()).count()
        };
        // Other tests also create models concurrently.
        assert_eq!((names(&models[0]), names(&models[99])), (0, 2));
        let recent = RECENT.lock().expect("names");
        assert!(recent.len() <= MAPS);
    }
}
