//! A function that was found in a file.

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::{Attribute, Block, Expr, FnArg, Ident, Pat, ReturnType, Signature, Type};

use super::foreign::{self, SignalHandlers};
use super::path::FunctionPath;
use super::result::FunctionKind;
use super::text::{plain, without_blanks};

/// What decides whether a function is selected.
#[derive(Debug)]
pub(super) struct Found<'a> {
    pub path: &'a FunctionPath,
    pub kind: FunctionKind,
    /// `pub`, or of a trait.
    pub is_public: bool,
    /// As it is written, but for blanks.
    pub returns: String,
}

/// A function with a body, whose text is in the file.
pub(super) struct Function<'a> {
    pub name: &'a Ident,
    pub kind: FunctionKind,
    pub is_public: bool,
    /// None of a closure.
    pub signature: Option<&'a Signature>,
    pub is_async: bool,
    pub returns: &'a ReturnType,
    pub attributes: &'a [Attribute],
    pub body: Body<'a>,
}

/// What a function does.
pub(super) enum Body<'a> {
    Block(&'a Block),
    /// Of a closure without braces.
    Expression(&'a Expr),
}

impl Function<'_> {
    /// What its return type is compared by.
    pub fn returns_text(&self) -> String {
        match self.returns {
            ReturnType::Default => String::new(),
            ReturnType::Type(_, of) => {
                // Tokens are written with blanks between them, but for those that cannot be told
                // from two.
                let text = quote::ToTokens::to_token_stream(of).to_string();
                without_blanks(&text)
            }
        }
    }

    /// The type that it gives, where it can be named.
    pub fn returned_type(&self) -> Option<&Type> {
        match self.returns {
            ReturnType::Default => None,
            ReturnType::Type(_, of) => Some(of),
        }
    }

    /// The names of its arguments, without those that have none or that only a macro's body can
    /// name.
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

    /// Where its body begins.
    fn body_span(&self) -> Span {
        match self.body {
            Body::Block(block) => block.brace_token.span.open(),
            Body::Expression(expression) => expression.span(),
        }
    }

    /// The offset where its body begins; `None` if the text of its body is that of a macro.
    pub fn place(&self) -> Option<usize> {
        let span = self.body_span();
        (!is_placeless(span)).then(|| span.byte_range().start)
    }

    /// The bytes of its body: of a block, what is between the braces.
    pub fn body_range(&self) -> std::ops::Range<usize> {
        match self.body {
            Body::Block(block) => {
                let span = block.brace_token.span;
                span.open().byte_range().end..span.close().byte_range().start
            }
            Body::Expression(expression) => expression.span().byte_range(),
        }
    }

    /// Why it cannot have a hook, if so; `around` if that is because of what is around it.
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
                "an `async fn` with `#[track_caller]` would see another caller".to_owned(),
            );
        }
        None
    }
}

/// Whether something is written in no file: macros write it.
pub(super) fn is_placeless(span: Span) -> bool {
    span.byte_range().is_empty()
}
