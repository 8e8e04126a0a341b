//! Reports the return values of ops by text around their bodies.
//!
//! The body becomes a closure that is called at once. Values of `return` and `?` are then also
//! visible to the hook.

use syn::visit::{self, Visit};
use syn::{ReturnType, Type};

use super::attributes;
use super::function::Function;
use super::hook::{self, Hook};

/// Variable in which the generated text collects tensors.
const HELD: &str = "__mlprof_held";
const TRAITS: &str = "#[allow(unused_imports)] use crate::__mlprof::{IsHeld as _, IsNotHeld as _};";

/// Returns the texts before and after a body that returns a value of type `returns`. They follow
/// the statement of the hook with this `number`.
pub(super) fn around(
    hook: &Hook,
    number: usize,
    arguments: &[String],
    returns: &str,
) -> Result<(String, String), String> {
    let guard = hook::guard(number);
    let hold = |one: &str| format!("(&&crate::__mlprof::Look(&{one})).hold_it({HELD}); ");
    let given: String = hook.reported_inputs(arguments)?.iter().map(|input| hold(input)).collect();
    let told = |all: &str| format!("|{HELD}| {{ {TRAITS} {all}let _ = {HELD}; }}");
    let before = format!(
        " let __mlprof_given = crate::__mlprof::given(&{guard}, {}); let __mlprof_returned = (|| -> {returns} {{",
        told(&given)
    );
    let after = format!(
        " }})(); crate::__mlprof::returned(&{guard}, __mlprof_given, {}); __mlprof_returned ",
        told(&hold("__mlprof_returned"))
    );
    Ok((before, after))
}

/// Returns the function's return type if it may contain tensors, or `None` if it cannot.
///
/// # Errors
///
/// Returns the reason if the function's outputs cannot be reported, because a closure could not
/// return the value in the same way.
pub(super) fn returned(
    function: &Function<'_>,
    tensors: &[String],
    calls_itself_last: bool,
) -> Result<Option<String>, &'static str> {
    let ReturnType::Type(_, of) = function.returns else { return Ok(None) };
    if !may_have_tensors(of, tensors) {
        return Ok(None);
    }
    if function.is_async {
        return Err("outputs of an `async fn` are not recorded");
    }
    if attributes::has(function.attributes, "track_caller") {
        return Err(
            "outputs of a function with `#[track_caller]` are not recorded, because the hook would change the \
             caller",
        );
    }
    if calls_itself_last {
        return Err("outputs of a tail-recursive function are not recorded");
    }
    if !is_owned(of) {
        return Err("outputs are not recorded, because the return type is borrowed or has no name");
    }
    Ok(Some(quote::ToTokens::to_token_stream(of).to_string()))
}

/// Returns the return type of a function that a macro generates, if it may contain tensors and can
/// be returned by a closure. The type is given as text.
pub(super) fn returned_by_macro(returns: &str, tensors: &[String]) -> Option<String> {
    let of: Type = syn::parse_str(returns).ok()?;
    (may_have_tensors(&of, tensors) && is_owned(&of)).then(|| returns.to_owned())
}

/// Returns `true` if the type contains one of these tensor types, or `Self`.
fn may_have_tensors(of: &Type, tensors: &[String]) -> bool {
    struct Search<'names>(&'names [String], bool);
    impl Visit<'_> for Search<'_> {
        fn visit_ident(&mut self, name: &syn::Ident) {
            self.1 |= name == "Self" || self.0.iter().any(|tensor| name == tensor);
        }
    }
    let mut search = Search(tensors, false);
    search.visit_type(of);
    search.1
}

fn is_owned(of: &Type) -> bool {
    struct Search(bool);
    impl<'ast> Visit<'ast> for Search {
        fn visit_type(&mut self, of: &'ast Type) {
            self.0 |= matches!(
                of,
                Type::Reference(_) | Type::ImplTrait(_) | Type::TraitObject(_) | Type::Macro(_)
            );
            visit::visit_type(self, of);
        }
        fn visit_lifetime(&mut self, _: &'ast syn::Lifetime) {
            self.0 = true;
        }
    }
    let mut search = Search(false);
    search.visit_type(of);
    !search.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tensors_are_looked_at_that_a_closure_may_return() {
        let tensors = ["Tensor".to_owned(), "FlexTensor".to_owned()];
        let is_wrapped = |text: &str| returned_by_macro(text, &tensors).is_some();
        for text in ["Result<Self>", "Result<Vec<Tensor>>", "crate::FlexTensor", "(Self,Tensor)"] {
            assert!(is_wrapped(text), "{text}");
        }
        for text in [
            "Result<()>",
            "Vec<S>",
            "&Tensor",
            "Result<&'aSelf>",
            "Box<dyn Tensor>",
            "Ref<'a,Tensor>",
            "",
        ] {
            assert!(!is_wrapped(text), "{text}");
        }
    }
}
