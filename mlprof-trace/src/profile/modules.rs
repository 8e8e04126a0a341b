//! The modules of a model, by path, and how their calls were inside each other.

use rustc_hash::FxHashMap;

use mlprof_events::Action;

/// The number of a module in its [`ModuleTable`].
pub(super) type ModuleId = std::num::NonZeroU32;

/// The number of a way down through modules in its [`ModuleTable`]: all that were being called, the
/// outermost first.
pub(super) type ChainId = std::num::NonZeroU32;

/// Past this many different ways further ones are taken for their ends, so that modules that call
/// each other without end cannot fill the memory.
const MOST_CHAINS: usize = 1 << 16;

/// A module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Module {
    /// The root of the model that it is in, as far as the root is recorded.
    pub(super) root: Option<ModuleId>,
    pub(super) type_name: &'static str,
    /// Empty for a root.
    pub(super) path: &'static str,
}

/// All modules that were seen.
#[derive(Debug, Default)]
pub(super) struct ModuleTable {
    modules: Vec<Module>,
    ids: FxHashMap<(Option<ModuleId>, Action), ModuleId>,
    /// A way down each: the one above it, whose number is lower, and the module that was called there.
    chains: Vec<(Option<ChainId>, ModuleId)>,
    chain_ids: FxHashMap<(Option<ChainId>, ModuleId), ChainId>,
}

impl ModuleTable {
    pub(super) fn get(&self, id: ModuleId) -> Option<&Module> {
        self.modules.get(id.get() as usize - 1)
    }

    /// All of them with their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (ModuleId, &Module)> {
        (1..).filter_map(ModuleId::new).zip(&self.modules)
    }

    /// The way down to the module that `action` stands for, called at the end of the way `around`. A
    /// module that calls itself goes no further down.
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

    /// The module that a way ends in.
    pub(super) fn innermost(&self, chain: ChainId) -> ModuleId {
        self.chains[chain.get() as usize - 1].1
    }

    /// A way, and those that it came by.
    pub(super) fn ways_up(&self, chain: Option<ChainId>) -> impl Iterator<Item = ChainId> + '_ {
        std::iter::successors(chain, |chain| self.chains[chain.get() as usize - 1].0)
    }

    /// The module that `action` stands for, called inside the module `around`.
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
        // There are no more modules than paths.
        let id = ModuleId::new(self.modules.len() as u32).unwrap_or(ModuleId::MAX);
        self.ids.insert((root, action), id);
        id
    }

    fn root_of(&self, id: Option<ModuleId>) -> Option<ModuleId> {
        let module = self.get(id?)?;
        if module.path.is_empty() { id } else { module.root }
    }

    /// What a table calls the module.
    pub(super) fn label(&self, id: ModuleId) -> String {
        match self.get(id) {
            Some(Module { type_name, path: "", .. }) => (*type_name).to_owned(),
            Some(Module { type_name, path, .. }) => format!("{path}: {type_name}"),
            None => String::new(),
        }
    }
}

/// The parts of `[module]Type: path`.
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
