//! Function found in a file.

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::{Attribute, Block, Expr, FnArg, Ident, Pat, ReturnType, Signature, Type};

use super::foreign::{self, SignalHandlers};
use super::path::FunctionPath;
use super::result::FunctionKind;
use super::text::{plain, without_blanks};

/// Properties on which the selection of a function depends.
#[derive(Debug)]
pub(super) struct FunctionProperties<'a> {
    pub path: &'a FunctionPath,
    pub kind: FunctionKind,
    /// `true` for `pub` functions and for functions of a trait.
    pub is_public: bool,
    /// Return type as written, without blanks.
    pub returns: String,
}

/// Function with a body that is written in the file.
pub(super) struct Function<'a> {
    pub name: &'a Ident,
    pub kind: FunctionKind,
    pub is_public: bool,
    /// Signature; `None` for a closure.
    pub signature: Option<&'a Signature>,
    pub is_async: bool,
    pub returns: &'a ReturnType,
    pub attributes: &'a [Attribute],
    pub body: Body<'a>,
}

/// Body of a function.
pub(super) enum Body<'a> {
    Block(&'a Block),
    /// Body of a closure without braces.
    Expression(&'a Expr),
}

impl Function<'_> {
    /// Returns the return type as text for comparisons.
    pub fn returns_text(&self) -> String {
        match self.returns {
            ReturnType::Default => String::new(),
            ReturnType::Type(_, of) => {
                // `to_string` puts blanks between tokens, so they are removed before types are
                // compared.
                let text = quote::ToTokens::to_token_stream(of).to_string();
                without_blanks(&text)
            }
        }
    }

    /// Returns the return type, if one is written.
    pub fn returned_type(&self) -> Option<&Type> {
        match self.returns {
            ReturnType::Default => None,
            ReturnType::Type(_, of) => Some(of),
        }
    }

    /// Returns the names of the arguments. Patterns, and names that only a macro's body can use,
    /// are omitted.
    pub fn arguments(&self) -> Vec<String> {
        let Some(signature) = self.signature else { return Vec::new() };
        let named = |span: &Span, name: String| (!is_placeless(*span)).then_some(name);
        let names = signature.inputs.iter().filter_map(|input| match input {
            FnArg::Receiver(receiver) => named(&receiver.self_token.span, "self".to_owned()),
            FnArg::Typed(typed) => match &*typed.pat {
                Pat::Ident(name) => named(&name.ident.span(), name.ident.to_string()),
                _ => None,
            },
        });
        names.collect()
    }

    pub fn line(&self) -> u32 {
        let name = self.name.span();
        let span = if is_placeless(name) { self.body_span() } else { name };
        span.start().line as u32
    }

    /// Returns the span at which the body begins.
    fn body_span(&self) -> Span {
        match self.body {
            Body::Block(block) => block.brace_token.span.open(),
            Body::Expression(expression) => expression.span(),
        }
    }

    /// Returns the offset at which the body begins, or `None` if a macro's definition contains the
    /// body.
    pub fn place(&self) -> Option<usize> {
        let span = self.body_span();
        (!is_placeless(span)).then(|| span.byte_range().start)
    }

    /// Returns the byte range of the body. For a block, this is the text between the braces.
    pub fn body_range(&self) -> std::ops::Range<usize> {
        match self.body {
            Body::Block(block) => {
                let span = block.brace_token.span;
                span.open().byte_range().end..span.close().byte_range().start
            }
            Body::Expression(expression) => expression.span().byte_range(),
        }
    }

    /// Returns the reason why the function cannot have a hook, if any. `around` is a reason that
    /// applies to everything in its context.
    pub fn obstacle(&self, around: Option<&str>, handlers: &SignalHandlers) -> Option<String> {
        if around.is_some() {
            return around.map(str::to_owned);
        }
        if let Some(signature) = self.signature {
            if signature.constness.is_some() {
                return Some("a `const fn` may run in the compiler".to_owned());
            }
            let convention = signature.abi.as_ref().and_then(|abi| abi.name.as_ref());
            let obstacle =
                convention.and_then(|name| foreign::obstacle_of_convention(&name.value()));
            let name = plain(&self.name.to_string());
            let obstacle = obstacle
                .or_else(|| foreign::obstacle_of_export(self.attributes, &name))
                .or_else(|| handlers.obstacle(signature));
            if obstacle.is_some() {
                return obstacle;
            }
        }
        if self.is_async && super::attributes::has(self.attributes, "track_caller") {
            return Some(
                "a hook would change the caller that an `async fn` with `#[track_caller]` sees"
                    .to_owned(),
            );
        }
        None
    }
}

/// Returns `true` if the span refers to no text in a file, because a macro generated the token.
pub(super) fn is_placeless(span: Span) -> bool {
    span.byte_range().is_empty()
}
