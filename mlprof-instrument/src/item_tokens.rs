//! Parses items in the tokens of macro calls, and formats the names of types.

use proc_macro2::TokenStream;
use syn::punctuated::Punctuated;
use syn::{Expr, ExprLit, File, Item, Lit, LitStr, Token, Type, TypeParamBound};

use super::macros::ItemKind;
use super::text::plain;

/// Returns the items of an expansion. Items of an `impl` block or a trait are wrapped in a
/// placeholder block.
pub(super) fn items_of(tokens: &TokenStream, kind: ItemKind) -> Option<Vec<Item>> {
    match kind {
        ItemKind::Module => syn::parse2::<File>(tokens.clone()).ok().map(|file| file.items),
        ItemKind::Implementation => {
            syn::parse2(quote::quote!(impl Placeholder { #tokens })).ok().map(|item| vec![item])
        }
        ItemKind::Trait => {
            syn::parse2(quote::quote!(trait Placeholder { #tokens })).ok().map(|item| vec![item])
        }
    }
}

/// Returns the path in an `include!`, given as a literal or as literals in `concat!`.
pub(super) fn included_path(tokens: &TokenStream) -> Option<String> {
    let literals = match syn::parse2::<Expr>(tokens.clone()).ok()? {
        Expr::Macro(of) if of.mac.path.is_ident("concat") => {
            let parser = Punctuated::<LitStr, Token![,]>::parse_terminated;
            of.mac.parse_body_with(parser).ok()?.into_iter().collect()
        }
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => vec![text],
        _ => return None,
    };
    Some(literals.iter().map(LitStr::value).collect())
}

/// Returns the short name of a type: `Net` for `crate::model::Net<B>`, `&Net` and `(Net)`, and `dyn
/// Module` for a trait object. Other types are formatted as written.
pub(super) fn type_name(of: &Type) -> String {
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
