//! Walks through the modules of a crate.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use proc_macro2::{Group, Ident, TokenStream, TokenTree};

use super::allocator::{self, Allocators};
use super::context::Context;
use super::edit::Edits;
use super::files::{self, Folder};
use super::foreign::SignalHandlers;
use super::generated::GeneratedItems;
use super::insertion_points::Places;
use super::items::{CrateWalk, DeclaredFile, ItemWalk};
use super::macros;
use super::path::FunctionPath;
use super::result::{SplicedCrate, SplicedFile, Unread};
use super::root;
use super::selection::Selection;
use super::source::Source;

/// Instrumentation of a crate's allocator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllocatorHooks {
    /// The allocator is not instrumented.
    None,
    /// The crate's allocator is wrapped, if it has one.
    Wrapped,
    /// The crate is a program; its large copies are also reported.
    Program {
        /// Adds an allocator if the crate has none. Must be `false` if another crate of the program
        /// has one.
        adds: bool,
    },
}

pub(super) fn splice(
    root: &Path,
    crate_name: &str,
    selection: &Selection,
    hooks: AllocatorHooks,
) -> io::Result<SplicedCrate> {
    if !selection.concerns(crate_name) && hooks == AllocatorHooks::None {
        return Ok(SplicedCrate::default());
    }
    let mut allocators = Allocators::default();
    let crate_path = FunctionPath { segments: vec![crate_name.to_owned()], implemented: None };
    let mut modules = vec![DeclaredFile {
        file: root.to_owned(),
        folder: Folder::of_owner(root),
        context: Context::of(crate_path),
    }];
    let mut known = HashSet::new();
    let mut sources = Vec::new();
    let mut root_place = None;
    let handlers = SignalHandlers::of_crate(root);
    let mut all = CrateWalk {
        selection,
        handlers: &handlers,
        result: SplicedCrate::default(),
        macros: macros::CrateMacros::default(),
        unseen: GeneratedItems::default(),
    };
    loop {
        let Some(module) = modules.pop() else {
            // When all known files are read, macro expansions may declare further ones.
            for expansion in all.macros.expand() {
                let site = &expansion.site;
                let (number, folder) = (site.source, site.folder.clone());
                let context = expansion.context.clone();
                let source = &mut sources[number];
                let mut walk = ItemWalk::new(&mut all, source, number, folder, context);
                walk.expansion(&expansion);
                modules.extend(walk.into_modules());
            }
            if modules.is_empty() && !all.macros.has_expansions() {
                break;
            }
            continue;
        };
        // Several modules may share one file. Its functions then have the path of the first module.
        if !known.insert(module.file.canonicalize().unwrap_or_else(|_| module.file.clone())) {
            continue;
        }
        let is_root = sources.is_empty();
        let text = match std::fs::read_to_string(&module.file) {
            Ok(text) => text,
            Err(error) if is_root => return Err(error),
            Err(error) => {
                all.result.unread.push(Unread { path: module.file, reason: error.to_string() });
                continue;
            }
        };
        let cleaned = root::without_beginning(&text);
        let (tokens, parsed) = match parse(&cleaned) {
            Ok(parsed) => parsed,
            Err(error) => {
                let place = error.span().start();
                let reason = format!("line {}: {error}", place.line);
                all.result.unread.push(Unread { path: module.file, reason });
                if is_root {
                    return Ok(all.result);
                }
                continue;
            }
        };
        all.result.read.push(module.file.clone());
        all.result.folders.extend(files::folders_on_the_way(&module.file));
        let path = files::without_detours(&module.file);
        let beginning = root::beginning(&text);
        let places = Places::new(&cleaned, tokens, &parsed, beginning);
        let mut source = Source { path, text, edits: Edits::default(), places };
        if is_root {
            // The text is placed after all items, where it shifts no code.
            root_place = (!parsed.items.is_empty()).then(|| source.places.end());
        }
        root::allow_unsafe(&parsed, &mut source.edits);
        if hooks != AllocatorHooks::None && allocator::may_have_allocator(&source.text) {
            allocators.add(allocator::wrap(&parsed, &[], &mut source.edits));
        }
        let number = sources.len();
        let mut walk = ItemWalk::new(&mut all, &mut source, number, module.folder, module.context);
        walk.file(&parsed);
        modules.extend(walk.into_modules());
        sources.push(source);
    }
    let CrateWalk { mut result, macros: found, unseen, .. } = all;
    macros::splice(selection, &found, &mut sources, &mut result);
    result.unseen = unseen.into_left_out(&found);
    let mut needed = hooks_text(crate_name, selection, &result);
    needed += &allocator_text(&allocators, hooks);
    finish(needed, root_place, sources, &mut result);
    result.folders.sort();
    result.folders.dedup();
    Ok(result)
}

/// Parses a text into its tokens and its syntax tree.
fn parse(text: &str) -> syn::Result<(TokenStream, syn::File)> {
    let tokens: TokenStream = text.parse()?;
    let file = syn::parse2(tokens.clone()).or_else(|error| {
        // In the 2015 edition, `async`, `await` and `try` are valid names.
        syn::parse2(with_raw_words(tokens.clone())).map_err(|_| error)
    })?;
    Ok((tokens, file))
}

/// Converts keywords of later editions into raw identifiers.
fn with_raw_words(tokens: TokenStream) -> TokenStream {
    let raw = |token| match token {
        TokenTree::Ident(word) if ["async", "await", "try"].iter().any(|one| word == *one) => {
            TokenTree::Ident(Ident::new_raw(&word.to_string(), word.span()))
        }
        TokenTree::Group(group) => {
            let mut raw = Group::new(group.delimiter(), with_raw_words(group.stream()));
            raw.set_span(group.span());
            TokenTree::Group(raw)
        }
        other => other,
    };
    tokens.into_iter().map(raw).collect()
}

/// Returns the text that the hooks of functions need in the root file.
fn hooks_text(crate_name: &str, selection: &Selection, result: &SplicedCrate) -> String {
    if result.spliced.is_empty() {
        return String::new();
    }
    let rules: Vec<_> = selection.rules_of(crate_name).collect();
    let has_lines = result.spliced.iter().any(|function| function.kind.is_of_lines());
    super::template::root_text(&rules, has_lines, |rules| selection.tells_outputs_of(rules))
}

/// Returns the text that tracked allocators need in the root file.
fn allocator_text(allocators: &Allocators, hooks: AllocatorHooks) -> String {
    match hooks {
        AllocatorHooks::None => String::new(),
        AllocatorHooks::Wrapped => allocators.root_text(false),
        AllocatorHooks::Program { adds } => allocators.root_text(adds) + &allocator::copies_text(),
    }
}

/// Creates the new texts, if the root file needs additional text and has a place for it.
fn finish(
    needed: String,
    root_place: Option<usize>,
    mut sources: Vec<Source>,
    result: &mut SplicedCrate,
) {
    let (Some(place), false) = (root_place, needed.is_empty()) else { return };
    if let Some(root) = sources.first_mut() {
        root.edits.close(place, format!(" {needed}"));
    }
    for source in sources.into_iter().filter(|source| !source.edits.is_empty()) {
        let text = source.edits.apply_in_place(&source.text, &source.places);
        result.files.push(SplicedFile { path: source.path, text });
    }
}
