//! Options in the parentheses of `#[profiled(…)]`.

use proc_macro2::{Ident, Span, TokenStream};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Attribute, Error, LitStr, Meta, Path, Result, Token};

/// Options of one attribute.
#[derive(Default)]
pub struct Options {
    pub name: Option<String>,
    /// Path of `mlprof_core`, if specified.
    pub core_path: Option<Path>,
    /// Span of the option `skip`, if specified.
    pub skip: Option<Span>,
}

enum ProfileOption {
    Name(LitStr),
    Crate(Path),
    Skip,
}

impl Parse for ProfileOption {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let key = input.fork().call(Ident::parse_any)?;
        match key.to_string().as_str() {
            "name" => {
                Ident::parse_any(input)?;
                input.parse::<Token![=]>()?;
                input.parse().map(Self::Name)
            }
            "crate" => {
                Ident::parse_any(input)?;
                input.parse::<Token![=]>()?;
                if input.peek(LitStr) {
                    return input
                        .parse::<LitStr>()?
                        .parse_with(Path::parse_mod_style)
                        .map(Self::Crate);
                }
                Path::parse_mod_style(input).map(Self::Crate)
            }
            "skip" => Ident::parse_any(input).map(|_| Self::Skip),
            _ => Err(Error::new(
                key.span(),
                format!(
                    "unknown option `{key}` of #[profiled]: use `name = \"…\"`, `crate = path` or \
                     `skip`"
                ),
            )),
        }
    }
}

impl Options {
    pub fn parse(tokens: TokenStream) -> Result<Self> {
        let parser =
            |input: ParseStream<'_>| Punctuated::<Spanned, Token![,]>::parse_terminated(input);
        let mut options = Self::default();
        for Spanned { span, option } in parser.parse2(tokens)? {
            let is_repeated = match option {
                ProfileOption::Name(name) => options.name.replace(name.value()).is_some(),
                ProfileOption::Crate(path) => options.core_path.replace(path).is_some(),
                ProfileOption::Skip => options.skip.replace(span).is_some(),
            };
            if is_repeated {
                return Err(Error::new(span, "this option occurs twice"));
            }
        }
        Ok(options)
    }

    /// Removes the `#[profiled]` attribute of a method and returns its options, or `None` if it has
    /// no such attribute.
    pub fn take_from(attributes: &mut Vec<Attribute>) -> Result<Option<Self>> {
        let Some(position) = attributes.iter().position(is_profile) else {
            return Ok(None);
        };
        let attribute = attributes.remove(position);
        if let Some(second) = attributes.iter().find(|attribute| is_profile(attribute)) {
            return Err(Error::new_spanned(second, "#[profiled] occurs twice"));
        }
        let tokens = match attribute.meta {
            Meta::Path(_) => TokenStream::new(),
            Meta::List(list) => list.tokens,
            other => {
                return Err(Error::new_spanned(other, "write `#[profiled(name = \"…\")]`"));
            }
        };
        Self::parse(tokens).map(Some)
    }
}

fn is_profile(attribute: &Attribute) -> bool {
    let names = ["profile", "profiled"];
    let segment = attribute.path().segments.last();
    segment.is_some_and(|segment| names.iter().any(|name| segment.ident == name))
}

struct Spanned {
    span: Span,
    option: ProfileOption,
}

impl Parse for Spanned {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let span = input.span();
        Ok(Self { span, option: input.parse()? })
    }
}
