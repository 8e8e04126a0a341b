//! Goes through the items of a file.

use std::path::PathBuf;

use syn::visit::{self, Visit};
use syn::{
    Attribute, Block, Expr, ExprClosure, File, ImplItemFn, Item, ItemConst, ItemFn, ItemImpl,
    ItemMacro, ItemMod, ItemStatic, ItemTrait, Local, Macro, Pat, TraitItemFn, Type,
    TypeParamBound, Visibility,
};

use super::attributes;
use super::conditional::conditional_items;
use super::context::Context;
use super::files::Folder;
use super::function::{Body, Found, Function};
use super::generated::GeneratedItems;
use super::insert;
use super::macros;
use super::result::{FunctionKind, LeftOut, SplicedCrate, SplicedFunction};
use super::selection::Selection;
use super::source::Source;
use super::text::{owned, plain};

/// The way through one file.
pub(super) struct ItemWalk<'w> {
    selection: &'w Selection,
    source: &'w mut Source,
    number: usize,
    folder: Folder,
    context: Context,
    result: &'w mut SplicedCrate,
    macros: &'w mut macros::Found,
    unseen: &'w mut GeneratedItems,
    modules: Vec<(PathBuf, Folder, Context)>,
}

impl<'w> ItemWalk<'w> {
    pub fn new(
        selection: &'w Selection,
        source: &'w mut Source,
        number: usize,
        folder: Folder,
        context: Context,
        result: &'w mut SplicedCrate,
        (macros, unseen): (&'w mut macros::Found, &'w mut GeneratedItems),
    ) -> Self {
        let modules = Vec::new();
        Self { selection, source, number, folder, context, result, macros, unseen, modules }
    }

    pub fn file(&mut self, file: &File) {
        self.visit_file(file);
    }

    /// The files that the modules declared in this one may be.
    pub fn into_modules(self) -> Vec<(PathBuf, Folder, Context)> {
        self.modules
    }

    /// Goes on below one more name.
    fn within(&mut self, context: Context, go: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.context, context);
        go(self);
        self.context = before;
    }

    /// What is around the items in something of this name.
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
        let path = inner.path.clone();
        self.result.seen.push(path.full());
        let found = Found {
            path: &path,
            kind: function.kind,
            is_public: function.is_public,
            returns: function.returns_text(),
        };
        let hooks = self.selection.hooks(&found);
        if !hooks.is_empty() {
            let is_naked = attributes::has(function.attributes, "naked");
            let obstacle = if is_naked { Some(NAKED) } else { inner.obstacle.as_deref() };
            let done = match function.obstacle(obstacle) {
                Some(reason) => Err(reason),
                None => insert::insert(self.source, function, &path, &hooks),
            };
            let (path, file) = (path.to_string(), self.source.path.clone());
            let line = function.line();
            match done {
                Ok(caution) => {
                    self.result.cautions.extend(caution.map(|reason| LeftOut {
                        path: path.clone(),
                        file: file.clone(),
                        line,
                        reason: reason.to_owned(),
                    }));
                    self.result.spliced.extend(hooks.into_iter().map(|hook| SplicedFunction {
                        path: path.clone(),
                        name: hook.name,
                        kind: hook.kind,
                        function: function.kind,
                        file: file.clone(),
                        line,
                    }));
                }
                Err(reason) => self.result.left_out.push(LeftOut { path, file, line, reason }),
            }
        }
        let inner = Context { is_inner: true, is_of_trait: false, ..inner };
        self.within(inner, |walk| match function.body {
            Body::Block(block) => walk.visit_block(block),
            Body::Expression(expression) => walk.visit_expr(expression),
        });
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

impl<'ast> Visit<'ast> for ItemWalk<'_> {
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
            context.obstacle =
                Some("an allocator is what hooks themselves allocate with".to_owned());
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
            let files = files.into_iter().map(|(file, folder)| (file, folder, context.clone()));
            self.modules.extend(files);
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
                self.macros.define(defined, tokens, is_exported, self.number, context);
            }
            // Items under conditions, as they are written outside of it.
            (Some(name), None) if name.starts_with("cfg_") => {
                for items in conditional_items(&item.mac.tokens) {
                    items.iter().for_each(|item: &Item| self.visit_item(item));
                }
            }
            _ => {
                self.unseen.items(&item.mac, &self.source.path);
                self.visit_macro(&item.mac);
            }
        }
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        self.unseen.attribute(attribute, &self.source.path);
    }

    fn visit_macro(&mut self, item: &'ast Macro) {
        self.macros.call(item, &self.context);
    }
}

const NAKED: &str = "a naked function is nothing but its assembly";

/// Without parentheses and references around it.
fn unwrapped(expression: &Expr) -> &Expr {
    match expression {
        Expr::Paren(inner) => unwrapped(&inner.expr),
        Expr::Group(inner) => unwrapped(&inner.expr),
        Expr::Reference(inner) => unwrapped(&inner.expr),
        other => other,
    }
}

/// `Net` for `crate::model::Net<B>`, `&Net` and `(Net)`; `dyn Module` for a trait object; other types
/// as they are written.
fn type_name(of: &Type) -> String {
    match of {
        Type::Path(path) => path.path.segments.last().map(|last| plain(&last.ident.to_string())),
        Type::Reference(reference) => Some(type_name(&reference.elem)),
        Type::Paren(inner) => Some(type_name(&inner.elem)),
        Type::Group(inner) => Some(type_name(&inner.elem)),
        Type::TraitObject(object) => object.bounds.iter().find_map(|bound| match bound {
            TypeParamBound::Trait(bound) => {
                bound.path.segments.last().map(|segment| format!("dyn {}", segment.ident))
            }
            _ => None,
        }),
        _ => None,
    }
    .unwrap_or_else(|| quote::ToTokens::to_token_stream(of).to_string().replace(' ', ""))
}
