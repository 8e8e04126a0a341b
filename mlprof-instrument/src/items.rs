//! Walks through the items of a file and inserts hooks.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{
    Attribute, Block, Expr, ExprClosure, File, ImplItemFn, ImplItemMacro, Item, ItemConst, ItemFn,
    ItemImpl, ItemMacro, ItemMod, ItemStatic, ItemTrait, Local, Macro, Pat, StmtMacro, TraitItemFn,
    TraitItemMacro, Visibility,
};

use super::attributes;
use super::conditional::conditional_items;
use super::context::Context;
use super::files::Folder;
use super::foreign::SignalHandlers;
use super::function::{Body, Function, FunctionProperties};
use super::generated::GeneratedItems;
use super::insert;
use super::item_tokens::{included_path, items_of, type_name};
use super::macros::{self, CallSite, Expansion, ItemKind};
use super::result::{FunctionKind, LeftOut, SplicedCrate, SplicedFunction};
use super::selection::Selection;
use super::source::Source;
use super::text::{owned, plain};

/// File of a declared module or of an `include!`.
pub(super) struct DeclaredFile {
    pub file: PathBuf,
    /// Folder of its submodules.
    pub folder: Folder,
    pub context: Context,
}

/// State shared by the walks through all files of a crate.
pub(super) struct CrateWalk<'all> {
    pub selection: &'all Selection,
    pub handlers: &'all SignalHandlers,
    pub result: SplicedCrate,
    pub macros: macros::CrateMacros,
    pub unseen: GeneratedItems,
}

/// Walk through one file, or through the expansion of a macro call in it.
pub(super) struct ItemWalk<'w, 'all> {
    all: &'w mut CrateWalk<'all>,
    source: &'w mut Source,
    number: usize,
    folder: Folder,
    context: Context,
    modules: Vec<DeclaredFile>,
    /// Macro call, during the walk through its expansion; `None` in the file itself.
    expanded: Option<ExpandedCall>,
}

/// Macro call during the walk through its expansion.
struct ExpandedCall {
    line: u32,
    depth: usize,
    /// Number of occurrences of each of the file's braces in the expansion.
    braces: HashMap<usize, usize>,
}

impl<'w, 'all> ItemWalk<'w, 'all> {
    pub fn new(
        all: &'w mut CrateWalk<'all>,
        source: &'w mut Source,
        number: usize,
        folder: Folder,
        context: Context,
    ) -> Self {
        Self { all, source, number, folder, context, modules: Vec::new(), expanded: None }
    }

    pub fn file(&mut self, file: &File) {
        self.visit_file(file);
    }

    /// Walks through the items that a macro call generates. It finds declared modules, calls of
    /// further macros, and functions that are written in the call.
    pub fn expansion(&mut self, expansion: &Expansion) {
        let CallSite { kind, line, depth, .. } = expansion.site;
        let tokens = expansion.tokens.as_ref();
        let items = tokens.and_then(|tokens| items_of(tokens, kind));
        let Some(items) = items else {
            // In statement position, the call may be an expression.
            if !self.context.is_inner {
                self.all.unseen.not_expanded(&expansion.name, &self.source.path, line);
            }
            return;
        };
        self.source.places.add_expansion(&items);
        let braces = tokens.map(macros::written_braces).unwrap_or_default();
        self.expanded = Some(ExpandedCall { line, depth, braces });
        for item in &items {
            match (kind, item) {
                (ItemKind::Implementation, Item::Impl(of)) => {
                    of.items.iter().for_each(|item| self.visit_impl_item(item));
                }
                (ItemKind::Trait, Item::Trait(of)) => {
                    of.items.iter().for_each(|item| self.visit_trait_item(item));
                }
                _ => self.visit_item(item),
            }
        }
    }

    /// Returns the files of the modules declared in this file, in reverse order. The caller takes
    /// them from the end, and so visits them in source order.
    pub fn into_modules(self) -> impl Iterator<Item = DeclaredFile> {
        self.modules.into_iter().rev()
    }

    /// Continues in another context.
    fn within(&mut self, context: Context, go: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.context, context);
        go(self);
        self.context = before;
    }

    /// Returns the context of the items inside an item with this name.
    fn below(&self, name: &str, attributes: &[Attribute]) -> Context {
        let mut context = self.context.clone();
        context.path = context.path.join(name);
        if context.obstacle.is_none() {
            context.obstacle = attributes::owner_of_body(attributes).map(|owner| owned(&owner));
        }
        context
    }

    fn function(&mut self, function: &Function<'_>) {
        let name = plain(&function.name.to_string());
        let inner = self.below(&name, function.attributes);
        let place = function.place();
        // A function in a macro's body gets its hook in the macro definition.
        if place.is_some() {
            self.hook(function, &inner);
        }
        let inner = Context { is_inner: true, is_of_trait: false, ..inner };
        self.within(inner, |walk| match function.body {
            Body::Block(block) => walk.visit_block(block),
            Body::Expression(expression) => walk.visit_expr(expression),
        });
    }

    /// Inserts hooks into a function if it is selected.
    fn hook(&mut self, function: &Function<'_>, inner: &Context) {
        let path = &inner.path;
        self.all.result.seen.push(path.full());
        let found = FunctionProperties {
            path,
            kind: function.kind,
            is_public: function.is_public,
            returns: function.returns_text(),
        };
        let hooks = self.all.selection.hooks(&found);
        if hooks.is_empty() {
            return;
        }
        let is_naked = attributes::has(function.attributes, "naked");
        let obstacle = if is_naked {
            Some(NAKED)
        } else if self.is_written_again(function) {
            Some(WRITTEN_AGAIN)
        } else {
            inner.obstacle.as_deref()
        };
        let done = match function.obstacle(obstacle, self.all.handlers) {
            Some(reason) => Err(reason),
            None => insert::insert(self.source, function, path, &hooks),
        };
        let (path, file) = (path.to_string(), self.source.path.clone());
        let line = function.line();
        let result = &mut self.all.result;
        match done {
            Ok(caution) => {
                result.cautions.extend(caution.map(|reason| LeftOut {
                    path: path.clone(),
                    file: file.clone(),
                    line,
                    reason: reason.to_owned(),
                }));
                result.spliced.extend(hooks.into_iter().map(|hook| SplicedFunction {
                    path: path.clone(),
                    name: hook.name,
                    kind: hook.kind,
                    function: function.kind,
                    file: file.clone(),
                    line,
                }));
            }
            Err(reason) => result.left_out.push(LeftOut { path, file, line, reason }),
        }
    }

    /// Returns `true` if the expanded macro repeats the function's text, for example as a string.
    fn is_written_again(&self, function: &Function<'_>) -> bool {
        let Some(expanded) = &self.expanded else { return false };
        let count = function.place().and_then(|place| expanded.braces.get(&place));
        count.is_some_and(|count| *count > 1)
    }

    /// Returns the location of a macro call that generates items.
    fn call_site(&self, call: &Macro, kind: ItemKind) -> CallSite {
        let line = call.path.span().start().line as u32;
        let (line, depth) = self
            .expanded
            .as_ref()
            .map_or((line, 0), |expanded| (expanded.line, expanded.depth + 1));
        CallSite { source: self.number, folder: self.folder.clone(), kind, line, depth }
    }

    /// Records a macro call in item position.
    fn items_of_macro(&mut self, call: &Macro, kind: ItemKind) {
        let site = self.call_site(call, kind);
        self.all.macros.call(call, &self.context, Some(site));
    }

    /// Adds a file that is included in item position, with a path relative to this file. Returns
    /// `false` if the file cannot be found.
    fn included(&mut self, call: &Macro) -> bool {
        let folder = self.source.path.parent().unwrap_or(Path::new(""));
        let file = included_path(&call.tokens).filter(|path| Path::new(path).is_relative());
        let Some(file) = file.map(|path| folder.join(path)).filter(|file| file.is_file()) else {
            return false;
        };
        let folder = Folder::of_owner(&file);
        self.modules.push(DeclaredFile { file, folder, context: self.context.clone() });
        true
    }

    fn method(
        &mut self,
        signature: &syn::Signature,
        attributes: &[Attribute],
        visibility: Option<&Visibility>,
        block: &Block,
    ) {
        let is_public = matches!(visibility, Some(Visibility::Public(_)));
        self.function(&Function {
            name: &signature.ident,
            kind: FunctionKind::Method,
            is_public: is_public || self.context.is_of_trait,
            signature: Some(signature),
            is_async: signature.asyncness.is_some(),
            returns: &signature.output,
            attributes,
            body: Body::Block(block),
        });
    }

    fn closure(&mut self, name: &syn::Ident, closure: &ExprClosure) {
        let body = match &*closure.body {
            Expr::Block(block) if block.label.is_none() && block.attrs.is_empty() => {
                Body::Block(&block.block)
            }
            other => Body::Expression(other),
        };
        self.function(&Function {
            name,
            kind: FunctionKind::Closure,
            is_public: false,
            signature: None,
            is_async: closure.asyncness.is_some(),
            returns: &closure.output,
            attributes: &closure.attrs,
            body,
        });
    }
}

impl<'ast> Visit<'ast> for ItemWalk<'_, '_> {
    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        let is_inner = self.context.is_inner;
        self.function(&Function {
            name: &item.sig.ident,
            kind: if is_inner { FunctionKind::Nested } else { FunctionKind::Free },
            is_public: matches!(item.vis, Visibility::Public(_)),
            signature: Some(&item.sig),
            is_async: item.sig.asyncness.is_some(),
            returns: &item.sig.output,
            attributes: &item.attrs,
            body: Body::Block(&item.block),
        });
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        let mut context = self.below(&type_name(&item.self_ty), &item.attrs);
        let place = context.path.segments.len() - 1;
        let implemented = item.trait_.as_ref().and_then(|(path, _)| path.segments.last());
        let implemented = implemented.map(|segment| plain(&segment.ident.to_string()));
        if implemented.as_deref() == Some("GlobalAlloc") {
            context.obstacle = Some("hooks themselves allocate with this allocator".to_owned());
        }
        context.is_of_trait = implemented.is_some();
        context.is_inner = false;
        context.path.implemented = implemented.map(|name| (place, name));
        self.within(context, |walk| visit::visit_item_impl(walk, item));
    }

    fn visit_item_trait(&mut self, item: &'ast ItemTrait) {
        let mut context = self.below(&plain(&item.ident.to_string()), &item.attrs);
        context.is_of_trait = true;
        context.is_inner = false;
        context.path.implemented = None;
        self.within(context, |walk| visit::visit_item_trait(walk, item));
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.method(&item.sig, &item.attrs, Some(&item.vis), &item.block);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        if let Some(block) = &item.default {
            self.method(&item.sig, &item.attrs, None, block);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        let name = plain(&item.ident.to_string());
        let mut context = self.below(&name, &item.attrs);
        context.is_inner = false;
        if item.content.is_some() {
            let folder = self.folder.of_inline(&name, &item.attrs);
            let before = std::mem::replace(&mut self.folder, folder);
            self.within(context, |walk| visit::visit_item_mod(walk, item));
            self.folder = before;
        } else {
            let files = self.folder.files_of(&name, &item.attrs);
            let declared = |(file, folder)| DeclaredFile { file, folder, context: context.clone() };
            self.modules.extend(files.into_iter().map(declared));
        }
    }

    fn visit_item_const(&mut self, item: &'ast ItemConst) {
        if item.ident == "_" {
            return visit::visit_item_const(self, item);
        }
        let context = self.below(&plain(&item.ident.to_string()), &item.attrs);
        self.within(context, |walk| visit::visit_item_const(walk, item));
    }

    fn visit_item_static(&mut self, item: &'ast ItemStatic) {
        let context = self.below(&plain(&item.ident.to_string()), &item.attrs);
        self.within(context, |walk| visit::visit_item_static(walk, item));
    }

    fn visit_local(&mut self, local: &'ast Local) {
        let pattern = match &local.pat {
            Pat::Type(typed) => &*typed.pat,
            other => other,
        };
        let value = local.init.as_ref().map(|init| unwrapped(&init.expr));
        if let (Pat::Ident(name), Some(Expr::Closure(closure))) = (pattern, value) {
            self.closure(&name.ident, closure);
        } else {
            visit::visit_local(self, local);
        }
    }

    fn visit_item_macro(&mut self, item: &'ast ItemMacro) {
        let name = item.mac.path.segments.last().map(|segment| segment.ident.to_string());
        match (name.as_deref(), &item.ident) {
            (Some("macro_rules"), Some(defined)) => {
                let is_exported = attributes::has(&item.attrs, "macro_export");
                let tokens = item.mac.tokens.clone();
                let context = self.context.clone();
                self.all.macros.define(defined, tokens, is_exported, self.number, context);
            }
            (Some("include"), None) if self.included(&item.mac) => {}
            (Some(name), None) => {
                // Conditional items are visited like ordinary items.
                let mut items = Vec::new();
                if name.starts_with("cfg_") {
                    items = conditional_items(&item.mac.tokens);
                }
                if items.is_empty() {
                    let site = self.call_site(&item.mac, ItemKind::Module);
                    self.all.unseen.items(&item.mac, &self.source.path, site.line);
                    self.all.macros.call(&item.mac, &self.context, Some(site));
                }
                items.iter().flatten().for_each(|item: &Item| self.visit_item(item));
            }
            _ => self.visit_macro(&item.mac),
        }
    }

    fn visit_impl_item_macro(&mut self, item: &'ast ImplItemMacro) {
        self.items_of_macro(&item.mac, ItemKind::Implementation);
    }

    fn visit_trait_item_macro(&mut self, item: &'ast TraitItemMacro) {
        self.items_of_macro(&item.mac, ItemKind::Trait);
    }

    fn visit_stmt_macro(&mut self, item: &'ast StmtMacro) {
        self.items_of_macro(&item.mac, ItemKind::Module);
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        self.all.unseen.attribute(attribute, &self.source.path);
    }

    fn visit_macro(&mut self, item: &'ast Macro) {
        self.all.macros.call(item, &self.context, None);
    }
}

const WRITTEN_AGAIN: &str = "the enclosing macro call repeats its text";

const NAKED: &str = "a naked function may contain only assembly";

/// Removes parentheses and references around an expression.
fn unwrapped(expression: &Expr) -> &Expr {
    match expression {
        Expr::Paren(inner) => unwrapped(&inner.expr),
        Expr::Group(inner) => unwrapped(&inner.expr),
        Expr::Reference(inner) => unwrapped(&inner.expr),
        other => other,
    }
}
