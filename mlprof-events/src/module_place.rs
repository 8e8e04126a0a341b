//! Source locations at which modules were created, by module name.

use std::collections::HashMap;
use std::panic::Location;
use std::sync::PoisonError;

use crate::forking::Mutex;
use crate::{Action, SourceLocation};

/// First declared location of each name.
static PLACES: Mutex<Option<HashMap<&'static str, SourceLocation>>> = Mutex::new(None);

/// Declares the source location at which the module of this action was created. Hooks call it. The
/// location does not distinguish actions: if several have the same name, the first location counts.
/// *Cost*: a lock and a table look-up when a module is created.
pub fn declare_module_place(module: Action, place: &'static Location<'static>) {
    let mut places = PLACES.lock().unwrap_or_else(PoisonError::into_inner);
    let place = SourceLocation { file: place.file(), line: place.line() };
    places.get_or_insert_default().entry(module.name()).or_insert(place);
}

/// Returns the source location at which the module with this name was created, if a hook declared
/// it.
pub fn module_place(name: &str) -> Option<SourceLocation> {
    let places = PLACES.lock().unwrap_or_else(PoisonError::into_inner);
    places.as_ref()?.get(name).copied()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_first_place_of_a_name_is_known() {
        let module = Action::module("Linear", "of this test");
        assert_eq!(module_place(module.name()), None);
        let first = Location::caller();
        declare_module_place(module, first);
        declare_module_place(module, Location::caller());
        let known = module_place("[module]Linear: of this test").expect("a place");
        assert_eq!((known.file, known.line), (file!(), first.line()));
    }
}
