//! Goes through the modules of a crate.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use super::edit::Edits;
use super::files::Folder;
use super::macros;
use super::path::FunctionPath;
use super::result::{SplicedCrate, SplicedFile, Unread};
use super::root;
use super::selection::Selection;
use super::walk::{Context, Walk};

/// A file that is a module.
struct Module {
    file: PathBuf,
    folder: Folder,
    context: Context,
}

/// A file that was read, and what is to be put into it.
pub(super) struct Source {
    pub path: PathBuf,
    pub text: String,
    pub edits: Edits,
}

pub(super) fn splice(
    root: &Path,
    crate_name: &str,
    selection: &Selection,
) -> io::Result<SplicedCrate> {
    let mut result = SplicedCrate::default();
    if !selection.concerns(crate_name) {
        return Ok(result);
    }
    let crate_path = FunctionPath { segments: vec![crate_name.to_owned()], implemented: None };
    let mut modules = vec![Module {
        file: root.to_owned(),
        folder: Folder::of_owner(root),
        context: Context::of(crate_path),
    }];
    let mut known = HashSet::new();
    let (mut sources, mut found) = (Vec::new(), macros::Found::default());
    let mut root_place = None;
    while let Some(module) = modules.pop() {
        // Several modules may be one file; its functions then have the first one's path.
        if !known.insert(module.file.canonicalize().unwrap_or_else(|_| module.file.clone())) {
            continue;
        }
        let is_root = sources.is_empty();
        let text = match std::fs::read_to_string(&module.file) {
            Ok(text) => text,
            Err(error) if is_root => return Err(error),
            Err(error) => {
                result.unread.push(Unread { path: module.file, reason: error.to_string() });
                continue;
            }
        };
        let parsed = match syn::parse_str::<syn::File>(&root::without_beginning(&text)) {
            Ok(parsed) => parsed,
            Err(error) => {
                let place = error.span().start();
                let reason = format!("line {}: {error}", place.line);
                result.unread.push(Unread { path: module.file, reason });
                if is_root {
                    return Ok(result);
                }
                continue;
            }
        };
        let mut source = Source { path: module.file, text, edits: Edits::default() };
        if is_root {
            root_place = root::place(&source.text, &parsed);
            root::allow_unsafe(&parsed, &mut source.edits);
        }
        let number = sources.len();
        let mut walk = Walk::new(
            selection,
            &mut source,
            number,
            module.folder,
            module.context,
            &mut result,
            &mut found,
        );
        walk.file(&parsed);
        // The last one is taken first: so they come in the order in which they are written.
        for (file, folder, context) in walk.into_modules().into_iter().rev() {
            modules.push(Module { file, folder, context });
        }
        sources.push(source);
    }
    macros::splice(selection, &found, &mut sources, &mut result);
    finish(crate_name, selection, root_place, sources, &mut result);
    Ok(result)
}

/// Makes the new texts, if there is a hook and a place for what hooks need.
fn finish(
    crate_name: &str,
    selection: &Selection,
    root_place: Option<usize>,
    mut sources: Vec<Source>,
    result: &mut SplicedCrate,
) {
    let (Some(place), false) = (root_place, result.spliced.is_empty()) else { return };
    let rules: Vec<_> = selection.rules_of(crate_name).collect();
    let has_lines = result.spliced.iter().any(|function| function.kind.is_of_lines());
    if let Some(root) = sources.first_mut() {
        root.edits.insert(place, super::template::root_text(&rules, has_lines));
    }
    for source in sources.into_iter().filter(|source| !source.edits.is_empty()) {
        let text = source.edits.apply(&source.text);
        result.files.push(SplicedFile { path: source.path, text });
    }
}
