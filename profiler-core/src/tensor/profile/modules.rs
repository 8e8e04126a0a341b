//! The modules of a model, by path.

use rustc_hash::FxHashMap;

use crate::Action;

/// The number of a module in its [`ModuleTable`].
pub(super) type ModuleId = std::num::NonZeroU32;

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
}

impl ModuleTable {
    pub(super) fn get(&self, id: ModuleId) -> Option<&Module> {
        self.modules.get(id.get() as usize - 1)
    }

    /// All of them with their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (ModuleId, &Module)> {
        (1..).filter_map(ModuleId::new).zip(&self.modules)
    }

    /// The module that `action` stands for, called inside the module `around`.
    pub(super) fn enter(&mut self, around: Option<ModuleId>, action: Action) -> ModuleId {
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
