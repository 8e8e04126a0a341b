//! Expansion of an item with `#[profiled]` to the same item with guards.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{
    Attribute, Error, Expr, ImplItem, ImplItemFn, ItemImpl, Path, Result, ReturnType, Signature,
    Stmt, Token, Type, TypeParamBound, Visibility, parse_quote, parse_quote_spanned,
};

use crate::options::Options;
use crate::recorder_path::recorder_path;

pub fn expand(options: TokenStream, item: TokenStream) -> TokenStream {
    try_expand(options, item.clone()).unwrap_or_else(|error| {
        // The item is kept, so that this is the only error that the user sees.
        let error = error.into_compile_error();
        quote!(#error #item)
    })
}

fn try_expand(options: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let options = Options::parse(options)?;
    if let Some(span) = options.skip {
        return Err(Error::new(
            span,
            "`skip` is for methods inside an impl block that carries #[profiled]",
        ));
    }
    let core = options.core_path.unwrap_or_else(recorder_path);
    match syn::parse2(item)? {
        Item::Function(mut function) => {
            let name = options.name.unwrap_or_else(|| plain_name(&function.sig));
            measure(&mut function, &name, &core)?;
            Ok(function.into_token_stream())
        }
        Item::Impl(mut block) => {
            let prefix = options.name.unwrap_or_else(|| short_name(&block.self_ty));
            for item in &mut block.items {
                if let ImplItem::Fn(method) = item {
                    measure_method(method, &prefix, &core)?;
                }
            }
            Ok(block.into_token_stream())
        }
    }
}

enum Item {
    /// A method or a free function. The grammar of methods covers both.
    Function(Box<ImplItemFn>),
    Impl(Box<ItemImpl>),
}

impl Parse for Item {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let ahead = input.fork();
        Attribute::parse_outer(&ahead)?;
        let first = ahead.cursor().span();
        if is_impl(&ahead) {
            return Ok(Self::Impl(Box::new(input.parse()?)));
        }
        ahead.parse::<Visibility>()?;
        if ahead.peek(Token![default]) {
            ahead.parse::<Token![default]>()?;
        }
        if ahead.parse::<Signature>().is_err() && !is_function(input) {
            return Err(Error::new(
                first,
                "#[profiled] measures functions, methods and impl blocks",
            ));
        }
        if ahead.peek(Token![;]) {
            return Err(Error::new(ahead.span(), "a function without a body cannot be measured"));
        }
        Ok(Self::Function(Box::new(input.parse()?)))
    }
}

fn is_impl(input: ParseStream<'_>) -> bool {
    input.peek(Token![impl])
        || (input.peek(Token![unsafe]) || input.peek(Token![default])) && input.peek2(Token![impl])
}

/// Returns `true` if there is a `fn` before the first bracket of any kind. In that case a mistake
/// in a signature is reported as such.
fn is_function(input: ParseStream<'_>) -> bool {
    let ahead = input.fork();
    let _ = Attribute::parse_outer(&ahead);
    let _ = ahead.parse::<Visibility>();
    let tokens: TokenStream = ahead.parse().unwrap_or_default();
    tokens
        .into_iter()
        .take_while(|token| !matches!(token, proc_macro2::TokenTree::Group(_)))
        .any(|token| matches!(token, proc_macro2::TokenTree::Ident(word) if word == "fn"))
}

fn measure_method(method: &mut ImplItemFn, prefix: &str, default_core: &Path) -> Result<()> {
    let options = Options::take_from(&mut method.attrs)?.unwrap_or_default();
    if options.skip.is_some() {
        return Ok(());
    }
    let name = options.name.unwrap_or_else(|| format!("{prefix}::{}", plain_name(&method.sig)));
    measure(method, &name, options.core_path.as_ref().unwrap_or(default_core))
}

/// Inserts the guard before the first executable statement. The statements keep their tokens and so
/// their line numbers.
fn measure(function: &mut ImplItemFn, name: &str, core: &Path) -> Result<()> {
    if let Some(keyword) = &function.sig.constness {
        return Err(Error::new_spanned(
            keyword,
            "a `const fn` cannot be measured, since it may run in the compiler; \
             in an impl block, leave it out with #[profiled(skip)]",
        ));
    }
    let callsite = callsite(&function.sig, name, core);
    let site = Span::mixed_site();
    let statements = &mut function.block.stmts;
    // Items are not executed, and some lints require them first.
    let first = statements.iter().take_while(|one| matches!(one, Stmt::Item(_))).count();
    if function.sig.asyncness.is_some() {
        statements.splice(first..first, output_hint(&function.sig.output, core));
        let future: Expr = parse_quote_spanned! {site=>
            #core::future::ProfiledFuture::at(#callsite, async move { #(#statements)* }).await
        };
        *statements = vec![Stmt::Expr(future, None)];
    } else {
        let guard = parse_quote_spanned! {site=>
            let _profile_scope = #core::ActiveScope::at(#callsite, #core::Interest::FUNCTIONS);
        };
        statements.insert(first, guard);
    }
    Ok(())
}

/// Returns an expression for the static call site. It is a separate block, so that code in the
/// function cannot see it or clash with it.
fn callsite(signature: &Signature, name: &str, core: &Path) -> TokenStream {
    // File and line come from the name's own span. This is also correct for a function that
    // `macro_rules!` generated.
    let written_at = signature.ident.span().unwrap();
    let file = written_at.file();
    let line = u32::try_from(written_at.line()).unwrap_or(u32::MAX);
    quote_spanned! {Span::mixed_site()=> {
        static CALLSITE: #core::Callsite = #core::Callsite::function(#name, #file, #line);
        &CALLSITE
    }}
}

/// Returns a statement that never runs but gives the inner `async` block the function's return
/// type. Type inference would otherwise fail for `?` and for unsizing coercions.
fn output_hint(output: &ReturnType, core: &Path) -> Option<Stmt> {
    let mut output: Type = match output {
        ReturnType::Default => parse_quote!(()),
        // The type `!` cannot be named there, and it coerces to any type anyway.
        ReturnType::Type(_, output) if matches!(**output, Type::Never(_)) => return None,
        ReturnType::Type(_, output) => (**output).clone(),
    };
    // The statement is located at the type, so that a type mismatch is reported there.
    let site = Span::mixed_site().located_at(output.span());
    InferImplTrait.visit_type_mut(&mut output);
    Some(parse_quote_spanned! {site=>
        if false {
            return #core::future::never_called::<#output>();
        }
    })
}

/// Replaces `impl Trait`, which has no name inside the function, by `_`.
struct InferImplTrait;

impl VisitMut for InferImplTrait {
    fn visit_type_mut(&mut self, node: &mut Type) {
        if let Type::ImplTrait(_) = node {
            *node = parse_quote!(_);
        } else {
            visit_mut::visit_type_mut(self, node);
        }
    }
}

fn plain_name(signature: &Signature) -> String {
    let name = signature.ident.to_string();
    name.strip_prefix("r#").unwrap_or(&name).to_owned()
}

/// Returns `Net` for `crate::model::Net<B>`, `&Net` and `(Net)`, and `dyn Module` for a trait
/// object. Other types are returned as written.
fn short_name(self_type: &Type) -> String {
    match self_type {
        Type::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
        Type::Reference(reference) => Some(short_name(&reference.elem)),
        Type::Paren(inner) => Some(short_name(&inner.elem)),
        Type::Group(inner) => Some(short_name(&inner.elem)),
        Type::TraitObject(object) => object.bounds.iter().find_map(|bound| match bound {
            TypeParamBound::Trait(bound) => {
                bound.path.segments.last().map(|segment| format!("dyn {}", segment.ident))
            }
            _ => None,
        }),
        _ => None,
    }
    .unwrap_or_else(|| self_type.to_token_stream().to_string())
}
