//! The modules of a crate, with their definitions and the paths that they use.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, UseTree};

use crate::graph::Imports;

type ModulePath = Vec<String>;

/// One file.
#[derive(Default)]
struct Module {
    /// Items that the file defines, except modules in separate files.
    items: BTreeSet<String>,
    children: BTreeSet<String>,
    /// Names that the file imports and their paths; `*` for a glob import.
    uses: Vec<(String, Vec<String>)>,
    /// All paths in the file.
    paths: BTreeSet<Vec<String>>,
}

/// All files of a crate.
pub struct Crate {
    modules: BTreeMap<ModulePath, Module>,
}

/// Maximum length of a chain of re-exports.
const MOST_STEPS: usize = 12;

impl Crate {
    /// Reads a crate from its root, `lib.rs` or `main.rs`. Tests are left out.
    pub fn read(root: &Path) -> Self {
        let mut modules = BTreeMap::new();
        let folder = root.parent().expect("a folder");
        read_file(&mut modules, Vec::new(), root, folder);
        Self { modules }
    }

    /// Returns the imports between files. Imports of the root file are left out.
    pub fn imports(&self) -> Imports {
        let mut imports = Imports::new();
        for (path, module) in self.modules.iter().filter(|(path, _)| !path.is_empty()) {
            for named in &module.paths {
                match self.resolve(path, named, 0) {
                    Some(to) if to != *path && !to.is_empty() => {
                        imports.insert((path.join("/"), to.join("/")));
                    }
                    _ => {}
                }
            }
        }
        imports
    }

    /// Returns the file that defines the item of a path used in another file, or `None` for other
    /// crates.
    fn resolve(&self, from: &ModulePath, named: &[String], steps: usize) -> Option<ModulePath> {
        if steps > MOST_STEPS {
            return None;
        }
        let first = named.first()?;
        let mut at = from.clone();
        let mut rest = named;
        match first.as_str() {
            "crate" => {
                at.clear();
                rest = &named[1..];
            }
            "self" => rest = &named[1..],
            "super" => {
                while rest.first().is_some_and(|word| word == "super") {
                    at.pop();
                    rest = &rest[1..];
                }
            }
            _ => {
                let module = &self.modules[from];
                let is_brought = |(name, path): &(String, Vec<String>)| {
                    name == first && path.first() != Some(first)
                };
                if !module.children.contains(first) && !module.uses.iter().any(is_brought) {
                    return None;
                }
            }
        }
        self.follow(at, rest, steps)
    }

    fn follow(&self, at: ModulePath, rest: &[String], steps: usize) -> Option<ModulePath> {
        let Some(first) = rest.first() else { return Some(at) };
        let module = self.modules.get(&at)?;
        if module.children.contains(first) {
            let child: ModulePath = at.iter().chain([first]).cloned().collect();
            if self.modules.contains_key(&child) {
                return self.follow(child, &rest[1..], steps);
            }
        }
        if module.items.contains(first) {
            return Some(at);
        }
        if let Some((_, path)) = module.uses.iter().find(|(name, _)| name == first) {
            let path: Vec<String> = path.iter().chain(&rest[1..]).cloned().collect();
            return self.resolve(&at, &path, steps + 1);
        }
        let globs = module.uses.iter().filter(|(name, _)| name == "*");
        let mut sources = globs.filter_map(|(_, path)| self.resolve(&at, path, steps + 1));
        let source = sources.find(|source| *source != at && self.has(source, first));
        match source {
            Some(source) => self.follow(source, rest, steps + 1),
            None => Some(at),
        }
    }

    fn has(&self, path: &ModulePath, name: &str) -> bool {
        let module = &self.modules[path];
        module.items.contains(name)
            || module.children.contains(name)
            || module.uses.iter().any(|(used, _)| used == name)
    }
}

/// Reads a file and its submodules, which are in `folder`.
fn read_file(
    modules: &mut BTreeMap<ModulePath, Module>,
    path: ModulePath,
    file: &Path,
    folder: &Path,
) {
    let text = std::fs::read_to_string(file).expect("a file of the crate");
    let parsed = syn::parse_file(&text).expect("Rust");
    let mut module = Module::default();
    let mut children: Vec<(String, Option<String>)> = Vec::new();
    for item in &parsed.items {
        match item {
            Item::Mod(inner) if inner.content.is_none() => {
                if !is_test(&inner.attrs) {
                    children.push((inner.ident.to_string(), path_attribute(&inner.attrs)));
                }
            }
            item => Reader(&mut module).visit_item(item),
        }
    }
    module.children = children.iter().map(|(name, _)| name.clone()).collect();
    modules.insert(path.clone(), module);
    for (name, elsewhere) in children {
        let child: ModulePath = path.iter().chain([&name]).cloned().collect();
        let in_folder = folder.join(&name);
        let file = match elsewhere {
            Some(elsewhere) => file.parent().expect("a folder").join(elsewhere),
            None => file_of(&in_folder),
        };
        // A module may have two conditional files. The first one is used, because both are
        // equivalent here.
        if !modules.contains_key(&child) {
            read_file(modules, child, &file, &in_folder);
        }
    }
}

fn file_of(module: &Path) -> PathBuf {
    let file = module.with_extension("rs");
    if file.exists() { file } else { module.join("mod.rs") }
}

fn path_attribute(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| match &attribute.meta {
        syn::Meta::NameValue(named) if named.path.is_ident("path") => match &named.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    })
}

/// Returns `true` if an item exists only for tests, including loom tests.
fn is_test(attributes: &[Attribute]) -> bool {
    let of_tests = |attribute: &Attribute| match &attribute.meta {
        syn::Meta::List(list) if list.path.is_ident("cfg") => {
            let condition = list.tokens.to_string();
            condition == "test" || condition == "loom" || condition.starts_with("all (test")
        }
        _ => false,
    };
    attributes.iter().any(of_tests)
}

fn attributes_of(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn name_of(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Mod(item) => &item.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

/// Collects the definitions and paths of a file.
struct Reader<'file>(&'file mut Module);

impl Reader<'_> {
    fn bring(&mut self, name: String, path: Vec<String>) {
        self.0.paths.insert(path.clone());
        self.0.uses.push((name, path));
    }

    fn tree(&mut self, tree: &UseTree, before: &[String]) {
        let with = |word: &syn::Ident| {
            let word = word.to_string();
            let is_self = word == "self" && !before.is_empty();
            before.iter().cloned().chain((!is_self).then_some(word)).collect::<Vec<_>>()
        };
        match tree {
            UseTree::Path(path) => self.tree(&path.tree, &with(&path.ident)),
            UseTree::Name(name) => {
                let path = with(&name.ident);
                self.bring(path.last().cloned().unwrap_or_default(), path);
            }
            UseTree::Rename(rename) => {
                self.bring(rename.rename.to_string(), with(&rename.ident));
            }
            UseTree::Glob(_) => self.bring("*".to_owned(), before.to_vec()),
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.tree(tree, before));
            }
        }
    }

    /// Collects paths in macro arguments and macro definitions.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(word) => {
                    if colons != 2 {
                        self.end(&mut path);
                    }
                    path.push(word.to_string());
                    colons = 0;
                }
                TokenTree::Punct(sign) if sign.as_char() == ':' => colons += 1,
                other => {
                    self.end(&mut path);
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.tokens(group.stream());
                    }
                }
            }
        }
        self.end(&mut path);
    }

    fn end(&mut self, path: &mut Vec<String>) {
        if path.len() > 1 {
            self.0.paths.insert(path.clone());
        }
        path.clear();
    }
}

impl<'file> Visit<'file> for Reader<'_> {
    fn visit_item(&mut self, item: &'file Item) {
        if is_test(attributes_of(item)) {
            return;
        }
        self.0.items.extend(name_of(item));
        match item {
            // The contents of an inline module belong to its file.
            Item::Mod(inner) => {
                let content = inner.content.iter().flat_map(|(_, items)| items);
                content.for_each(|item| self.visit_item(item));
            }
            item => visit::visit_item(self, item),
        }
    }

    fn visit_item_use(&mut self, item: &'file syn::ItemUse) {
        self.tree(&item.tree, &[]);
    }

    fn visit_path(&mut self, path: &'file syn::Path) {
        let words: Vec<_> = path.segments.iter().map(|word| word.ident.to_string()).collect();
        if words.len() > 1 {
            self.0.paths.insert(words);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, called: &'file syn::Macro) {
        self.visit_path(&called.path);
        self.tokens(called.tokens.clone());
    }

    fn visit_attribute(&mut self, _attribute: &'file Attribute) {}

    fn visit_visibility(&mut self, _visibility: &'file syn::Visibility) {}
}
