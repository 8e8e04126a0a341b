//! Macros and included files that define functions outside the crate's own files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use syn::{Attribute, Macro};

use super::attributes::{nested, path_text};
use super::function::is_placeless;
use super::macros;
use super::result::LeftOut;

/// Derive macros of the compiler.
const OWN: [&str; 9] =
    ["Clone", "Copy", "Debug", "Default", "Eq", "Hash", "Ord", "PartialEq", "PartialOrd"];
/// Macros of the standard library in item position that define no functions of interest.
const PLAIN: [&str; 3] = ["compile_error", "global_asm", "thread_local"];

/// Calls found so far, by their text.
#[derive(Debug, Default)]
pub(super) struct GeneratedItems {
    places: BTreeMap<String, Places>,
}

#[derive(Debug)]
struct Places {
    /// Name of a macro that may be defined in the crate.
    macro_name: Option<String>,
    count: usize,
    first: (PathBuf, u32),
}

impl GeneratedItems {
    /// Adds the derive macros in an item's attribute.
    pub fn attribute(&mut self, attribute: &Attribute, file: &Path) {
        // For generated code, only the macro call itself is in the file.
        if !attribute.path().is_ident("derive") || is_placeless(attribute.pound_token.span) {
            return;
        }
        for derived in nested(&attribute.meta) {
            let path = path_text(derived.path());
            let name = path.rsplit("::").next().unwrap_or_default();
            if !OWN.contains(&name) {
                let line = attribute.pound_token.span.start().line as u32;
                self.add(format!("derive({name})"), None, file, line);
            }
        }
    }

    /// Adds a macro call in item position.
    pub fn items(&mut self, call: &Macro, file: &Path, line: u32) {
        let Some(last) = call.path.segments.last() else { return };
        let name = last.ident.to_string();
        if name == "include" {
            let what = call.tokens.to_string().replace(' ', "");
            self.add(format!("include!({what})"), None, file, line);
        } else if !PLAIN.contains(&name.as_str()) {
            self.add(format!("{name}!"), Some(name), file, line);
        }
    }

    /// Adds a call of the crate's own macro that cannot be expanded, and that may define items from
    /// its tokens.
    pub fn not_expanded(&mut self, name: &str, file: &Path, line: u32) {
        self.add(format!("{name}!{{}}"), None, file, line);
    }

    fn add(&mut self, what: String, macro_name: Option<String>, file: &Path, line: u32) {
        let new = || Places { macro_name, count: 0, first: (file.to_owned(), line) };
        self.places.entry(what).or_insert_with(new).count += 1;
    }

    /// Returns all calls except those of the crate's own macros.
    pub fn into_left_out(self, known: &macros::CrateMacros) -> Vec<LeftOut> {
        let is_of_others =
            |places: &Places| places.macro_name.as_ref().is_none_or(|name| !known.defines(name));
        let all = self.places.into_iter().filter(|(_, places)| is_of_others(places));
        all.map(|(what, Places { count, first: (file, line), .. })| {
            let times = if count == 1 { String::new() } else { format!(" ({count} times)") };
            let reason = if what.starts_with("include!") {
                "a file that is included has no hooks if its path is computed or not relative"
            } else if what.ends_with("{}") {
                "modules and functions in this call have no hooks: the macro cannot be expanded"
            } else {
                "what a macro of another crate makes has no hooks"
            };
            let path = what.trim_end_matches("{}").to_owned();
            LeftOut { path, file, line, reason: format!("{reason}{times}") }
        })
        .collect()
    }
}
