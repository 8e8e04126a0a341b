//! The modules of a model by path, and the nesting of their calls.

use rustc_hash::FxHashMap;

use mlprof_events::Action;

/// Number of a module in its [`ModuleTable`].
pub(super) type ModuleId = std::num::NonZeroU32;

/// Number of a chain of nested module calls in its [`ModuleTable`], outermost first.
pub(super) type ChainId = std::num::NonZeroU32;

/// Maximum number of chains. Further ones are reduced to their innermost module, so that modules
/// that call each other endlessly cannot fill the memory.
const MOST_CHAINS: usize = 1 << 16;

/// A module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Module {
    /// Root of the model that contains the module, if the root is recorded.
    pub(super) root: Option<ModuleId>,
    pub(super) type_name: &'static str,
    /// Path in the model; empty for a root.
    pub(super) path: &'static str,
}

/// All recorded modules.
#[derive(Debug, Default)]
pub(super) struct ModuleTable {
    modules: Vec<Module>,
    ids: FxHashMap<(Option<ModuleId>, Action), ModuleId>,
    /// Chains of module calls. Each is stored as the chain around it, which has a lower number, and
    /// the called module.
    chains: Vec<(Option<ChainId>, ModuleId)>,
    chain_ids: FxHashMap<(Option<ChainId>, ModuleId), ChainId>,
}

impl ModuleTable {
    pub(super) fn get(&self, id: ModuleId) -> Option<&Module> {
        self.modules.get(id.get() as usize - 1)
    }

    /// Returns all modules with their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (ModuleId, &Module)> {
        (1..).filter_map(ModuleId::new).zip(&self.modules)
    }

    /// Returns the chain for a call of the module `action` inside the chain `around`. A recursive
    /// call does not extend the chain.
    pub(super) fn call(&mut self, around: Option<ChainId>, action: Action) -> ChainId {
        let module = self.enter(around.map(|chain| self.innermost(chain)), action);
        if let Some(again) = around.filter(|chain| self.innermost(*chain) == module) {
            return again;
        }
        let around = around.filter(|_| self.chains.len() < MOST_CHAINS);
        if let Some(known) = self.chain_ids.get(&(around, module)) {
            return *known;
        }
        self.chains.push((around, module));
        let id = ChainId::new(self.chains.len() as u32).unwrap_or(ChainId::MAX);
        self.chain_ids.insert((around, module), id);
        id
    }

    /// Returns the innermost module of a chain.
    pub(super) fn innermost(&self, chain: ChainId) -> ModuleId {
        self.chains[chain.get() as usize - 1].1
    }

    /// Returns a chain and the chains around it.
    pub(super) fn ways_up(&self, chain: Option<ChainId>) -> impl Iterator<Item = ChainId> + '_ {
        std::iter::successors(chain, |chain| self.chains[chain.get() as usize - 1].0)
    }

    /// Returns the module of `action` when it is called inside the module `around`.
    fn enter(&mut self, around: Option<ModuleId>, action: Action) -> ModuleId {
        let (type_name, path) = type_and_path(action.name());
        let root = match path {
            "" => None,
            _ => self.root_of(around),
        };
        if let Some(id) = self.ids.get(&(root, action)) {
            return *id;
        }
        self.modules.push(Module { root, type_name, path });
        // The number cannot overflow, because each module has its own path.
        let id = ModuleId::new(self.modules.len() as u32).unwrap_or(ModuleId::MAX);
        self.ids.insert((root, action), id);
        id
    }

    fn root_of(&self, id: Option<ModuleId>) -> Option<ModuleId> {
        let module = self.get(id?)?;
        if module.path.is_empty() { id } else { module.root }
    }

    /// Returns the name of the module in tables.
    pub(super) fn label(&self, id: ModuleId) -> String {
        match self.get(id) {
            Some(Module { type_name, path: "", .. }) => (*type_name).to_owned(),
            Some(Module { type_name, path, .. }) => format!("{path}: {type_name}"),
            None => String::new(),
        }
    }
}

/// Splits `[module]Type: path` into its type and path.
fn type_and_path(name: &'static str) -> (&'static str, &'static str) {
    let name = name.strip_prefix("[module]").unwrap_or(name);
    name.split_once(": ").unwrap_or((name, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_down_are_told_apart_and_end() {
        let mut table = ModuleTable::default();
        let [outer, inner] = ["outer", "inner"].map(|path| Action::module("Block", path));
        let top = table.call(None, outer);
        let below = table.call(Some(top), inner);
        let elsewhere = table.call(None, inner);
        assert_ne!(elsewhere, below);
        assert_eq!(table.innermost(elsewhere), table.innermost(below));
        assert_eq!(table.call(Some(below), inner), below, "the same inside itself");
        let ways: Vec<_> = table.ways_up(Some(below)).collect();
        assert_eq!(ways, [below, top]);
        let mut endless = below;
        for _ in 0..MOST_CHAINS {
            endless = table.call(Some(endless), outer);
            endless = table.call(Some(endless), inner);
        }
        assert!(table.chains.len() <= MOST_CHAINS + 2, "{}", table.chains.len());
    }

    #[test]
    fn a_path_belongs_to_the_root_that_it_was_called_in() {
        let mut table = ModuleTable::default();
        let teacher = table.enter(None, Action::module("Teacher", ""));
        let student = table.enter(None, Action::module("Student", ""));
        let layer = Action::module("Linear", "head");
        let (first, second) =
            (table.enter(Some(teacher), layer), table.enter(Some(student), layer));
        assert_ne!(first, second);
        assert_eq!(table.enter(Some(first), layer), first, "the same inside itself");
        assert_eq!(table.label(first), "head: Linear");
        assert_eq!(table.label(student), "Student");
        let module = table.get(second).expect("was entered");
        assert_eq!((module.root, module.path, module.type_name), (Some(student), "head", "Linear"));
    }
}
