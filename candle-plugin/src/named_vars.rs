//! The variables of an optimizer, and the names that their map has for them.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};

use candle_core::{TensorId, Var};

/// Number of maps whose names are remembered, until an optimizer takes them.
const MAPS: usize = 32;

/// Names of variables, by map. Variables have none of their own, and a list of variables does not
/// say which map it comes from.
static RECENT: Mutex<VecDeque<Vec<(TensorId, String)>>> = Mutex::new(VecDeque::new());

/// Remembers the names of a map's variables for the optimizer that will be made of them. Those of
/// the oldest map are forgotten: a program may make one model after another.
pub(crate) fn remember(names: Vec<(TensorId, String)>) {
    let Some(first) = names.first().map(|(id, _)| *id) else { return };
    let mut recent = RECENT.lock().unwrap_or_else(PoisonError::into_inner);
    // The same map once more.
    recent.retain(|names| names.first().is_none_or(|(id, _)| *id != first));
    recent.push_back(names);
    while recent.len() > MAPS {
        recent.pop_front();
    }
}

/// Variables, each once, with their names where these are known.
#[derive(Debug, Clone, Default)]
pub(crate) struct NamedVars {
    vars: Vec<Var>,
    names: Vec<Option<String>>,
}

impl NamedVars {
    /// A variable that several layers share is kept once.
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

    /// Each variable with its name, `None` if no map is known to have it.
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
        // Tests beside this one make models, too.
        assert_eq!((names(&models[0]), names(&models[99])), (0, 2));
        let recent = RECENT.lock().expect("names");
        assert!(recent.len() <= MAPS);
    }
}
