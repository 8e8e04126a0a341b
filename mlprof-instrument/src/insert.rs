//! Inserts hooks into a function.

use quote::ToTokens;
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{AttrStyle, Block, Type};

use super::function::{Body, Function};
use super::hook::{self, Hook};
use super::lines::{LineFunction, splice_lines};
use super::outputs;
use super::path::FunctionPath;
use super::source::Source;
use super::tail_calls;

/// Inserts the hooks into a function. Returns a caution for the user, if any.
///
/// # Errors
///
/// Returns the reason if hooks cannot be inserted. The source then stays unchanged.
pub(super) fn insert(
    source: &mut Source,
    function: &Function<'_>,
    path: &FunctionPath,
    hooks: &[Hook],
) -> Result<Option<&'static str>, String> {
    let (of_lines, hooks): (Vec<&Hook>, Vec<&Hook>) =
        hooks.iter().partition(|hook| hook.kind.is_of_lines());
    let last_calls = tail_calls::find(function, path);
    let (before, after, unseen) = around(function, &hooks, !last_calls.is_empty())?;
    let range = function.body_range();
    let Body::Block(block) = function.body else {
        if !of_lines.is_empty() {
            return Err(CLOSURE.to_owned());
        }
        source.edits.insert(range.start, format!("{{{before} "));
        source.edits.close(range.end, format!("{after} }}"));
        return Ok(None);
    };
    let start = first_place(&source.text, function, block);
    if function.signature.is_none() && !of_lines.is_empty() {
        return Err(CLOSURE.to_owned());
    }
    source.edits.insert(start, format!("{before} "));
    if !last_calls.is_empty() && !hooks.is_empty() {
        let guards: Vec<_> = (0..hooks.len()).map(hook::guard).collect();
        tail_calls::end_before(&last_calls, &guards, &mut source.edits);
    }
    if let Some(signature) = function.signature.filter(|_| !of_lines.is_empty()) {
        let file = std::path::absolute(&source.path).unwrap_or_else(|_| source.path.clone());
        let (name, file) = (&path.to_string(), file.as_path());
        let marked = LineFunction { name, file, signature, block, start };
        splice_lines(&mut source.edits, &marked, &source.text)?;
    }
    if !after.is_empty() {
        source.edits.insert(range.end, after);
    }
    Ok((!last_calls.is_empty() && !of_lines.is_empty()).then_some(DEEP).or(unseen))
}

const DEEP: &str = "it is tail recursive: line hooks prevent the compiler from turning the recursion into a \
                    loop, so the stack may overflow";

const CLOSURE: &str = "a closure's lines belong to the enclosing function";

/// Returns the texts before and after the function's statements. The third value is the reason why
/// requested outputs cannot be reported.
fn around(
    function: &Function<'_>,
    hooks: &[&Hook],
    calls_itself_last: bool,
) -> Result<(String, String, Option<&'static str>), String> {
    let line = function.line();
    let teller = hooks.iter().position(|hook| !hook.outputs.is_empty());
    let (returns, unseen) = match teller
        .map(|number| outputs::returned(function, &hooks[number].outputs, calls_itself_last))
    {
        Some(Ok(returns)) => (returns, None),
        Some(Err(reason)) => (None, Some(reason)),
        None => (None, None),
    };
    if function.is_async {
        let returns = hint(function);
        let all = hooks.iter().map(|hook| hook.around_async(line, returns.clone()));
        let (before, after): (Vec<_>, Vec<_>) = all.unzip();
        return Ok((before.concat(), after.concat(), unseen));
    }
    let arguments = function.arguments();
    let statements: Result<Vec<_>, String> =
        (0..).zip(hooks).map(|(number, hook)| hook.statement(number, line, &arguments)).collect();
    let (mut before, mut after) = (statements?.concat(), String::new());
    if let (Some(number), Some(returns)) = (teller, returns) {
        let around = outputs::around(hooks[number], number, &arguments, &returns)?;
        before += &around.0;
        after = around.1;
    }
    Ok((before, after, unseen))
}

/// Returns the first position inside the body, after its brace and its inner attributes.
fn first_place(source: &str, function: &Function<'_>, block: &Block) -> usize {
    let range = function.body_range();
    let is_inner = |attribute: &&syn::Attribute| matches!(attribute.style, AttrStyle::Inner(_));
    let inner = function.attributes.iter().filter(is_inner).map(|one| one.span().byte_range());
    match inner.max_by_key(|attribute| attribute.end) {
        None => range.start,
        // A line comment extends to the end of its line.
        Some(last) if source.get(last.clone()).is_some_and(|text| text.starts_with("//")) => {
            block.stmts.first().map_or(range.end, |first| first.span().byte_range().start)
        }
        Some(last) => last.end,
    }
}

/// Returns the return type of an async function, which the inner `async` block needs as a type
/// hint.
fn hint(function: &Function<'_>) -> Option<String> {
    if function.signature.is_none() && function.returned_type().is_none() {
        return None; // the compiler infers the type of a closure
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

/// Replaces `impl Trait` with `_`, because the type cannot be named inside the function.
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
