//! Where in a function its hooks stand.

use quote::ToTokens;
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{AttrStyle, Block, Type};

use super::edit::Edits;
use super::function::{Body, Function};
use super::hook::Hook;

/// Puts the hooks into a function. Nothing is inserted if it cannot be.
pub(super) fn insert(
    source: &str,
    edits: &mut Edits,
    function: &Function<'_>,
    hooks: &[Hook],
) -> Result<(), String> {
    let line = function.line();
    if function.is_async {
        let returns = hint(function);
        let all = hooks.iter().map(|hook| hook.around_async(line, returns.clone()));
        let (before, after): (Vec<_>, Vec<_>) = all.unzip();
        return put(source, edits, function, &before.concat(), &after.concat());
    }
    let arguments = function.arguments();
    let statements: Result<Vec<_>, String> =
        hooks.iter().map(|hook| hook.statement(line, &arguments)).collect();
    put(source, edits, function, &statements?.concat(), "")
}

/// Puts text around the statements of a function.
fn put(
    source: &str,
    edits: &mut Edits,
    function: &Function<'_>,
    before: &str,
    after: &str,
) -> Result<(), String> {
    let range = function.body_range();
    match function.body {
        Body::Block(block) => {
            let start = first_place(source, function, block);
            edits.insert(start, format!("{before} "));
            if !after.is_empty() {
                edits.insert(range.end, after);
            }
        }
        Body::Expression(_) => {
            edits.insert(range.start, format!("{{{before} "));
            edits.close(range.end, format!("{after} }}"));
        }
    }
    Ok(())
}

/// Behind the brace, and behind attributes of the body.
fn first_place(source: &str, function: &Function<'_>, block: &Block) -> usize {
    let range = function.body_range();
    let is_inner = |attribute: &&syn::Attribute| matches!(attribute.style, AttrStyle::Inner(_));
    let inner = function.attributes.iter().filter(is_inner).map(|one| one.span().byte_range());
    match inner.max_by_key(|attribute| attribute.end) {
        None => range.start,
        // The end of a line comment is the end of its line.
        Some(last) if source.get(last.clone()).is_some_and(|text| text.starts_with("//")) => {
            block.stmts.first().map_or(range.end, |first| first.span().byte_range().start)
        }
        Some(last) => last.end,
    }
}

/// The return type of an async function, which the block inside it has to be told.
fn hint(function: &Function<'_>) -> Option<String> {
    if function.signature.is_none() && function.returned_type().is_none() {
        return None; // a closure's is inferred
    }
    match function.returned_type() {
        None => Some("()".to_owned()),
        Some(Type::Never(_)) => None,
        Some(returned) => {
            let mut returned = returned.clone();
            InferImplTrait.visit_type_mut(&mut returned);
            Some(returned.to_token_stream().to_string())
        }
    }
}

/// Replaces `impl Trait`, which has no name inside the function, by `_`.
struct InferImplTrait;

impl VisitMut for InferImplTrait {
    fn visit_type_mut(&mut self, node: &mut Type) {
        if let Type::ImplTrait(_) = node {
            *node = syn::parse_quote!(_);
        } else {
            visit_mut::visit_type_mut(self, node);
        }
    }
}
