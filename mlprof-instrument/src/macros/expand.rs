//! Expands calls of `macro_rules!` macros, to find the items that they generate.
//!
//! Tokens from the macro's body lose their spans, and tokens from the call keep theirs. A walk
//! through the expansion can therefore detect which functions are written in the call.

use std::collections::HashMap;

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};

use super::matcher::{Bindings, Repeated, fragments};

/// Returns the expansion of a rule's body. Its tokens are subtracted from the budget `left`;
/// returns `None` if the budget is exceeded.
pub(super) fn expand(
    body: &TokenStream,
    bindings: &Bindings,
    left: &mut usize,
) -> Option<TokenStream> {
    let body: Vec<_> = body.clone().into_iter().collect();
    transcribe(&body, bindings, left).map(|tokens| tokens.into_iter().collect())
}

fn is_dollar(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Punct(one) if one.as_char() == '$')
}

/// Returns the token without its span.
fn placeless(token: &TokenTree) -> TokenTree {
    let mut token = token.clone();
    token.set_span(Span::call_site());
    token
}

fn transcribe(
    mut body: &[TokenTree],
    bindings: &Bindings,
    left: &mut usize,
) -> Option<Vec<TokenTree>> {
    let mut tokens = Vec::new();
    loop {
        *left = left.checked_sub(1)?;
        match body {
            [] => return Some(tokens),
            [dollar, TokenTree::Ident(name), rest @ ..] if is_dollar(dollar) => {
                match bindings.value(&name.to_string()) {
                    Some(value) => {
                        *left = left.checked_sub(value.len())?;
                        tokens.extend_from_slice(value);
                    }
                    None if name == "crate" => {
                        tokens.push(Ident::new("crate", Span::call_site()).into());
                    }
                    None => tokens.extend([placeless(dollar), placeless(&body[1])]),
                }
                body = rest;
            }
            [dollar, TokenTree::Group(group), rest @ ..]
                if is_dollar(dollar) && group.delimiter() == Delimiter::Parenthesis =>
            {
                let repeated = Repeated::of(rest)?;
                let inner: Vec<_> = group.stream().into_iter().collect();
                let iterations = bindings.iterations(&fragments(&inner));
                for (number, bindings) in iterations.iter().enumerate() {
                    if number > 0 {
                        tokens.extend(repeated.separator.iter().map(placeless));
                    }
                    tokens.extend(transcribe(&inner, bindings, left)?);
                }
                body = repeated.rest;
            }
            [TokenTree::Group(group), rest @ ..] => {
                let inner: Vec<_> = group.stream().into_iter().collect();
                let inner = transcribe(&inner, bindings, left)?.into_iter().collect();
                tokens.push(Group::new(group.delimiter(), inner).into());
                body = rest;
            }
            [token, rest @ ..] => {
                tokens.push(placeless(token));
                body = rest;
            }
        }
    }
}

/// Returns the number of occurrences of each of the call's braces in an expansion, by offset.
pub(crate) fn written_braces(tokens: &TokenStream) -> HashMap<usize, usize> {
    let mut counts = HashMap::new();
    count_braces(tokens.clone(), &mut counts);
    counts
}

fn count_braces(tokens: TokenStream, counts: &mut HashMap<usize, usize>) {
    for token in tokens {
        let TokenTree::Group(group) = token else { continue };
        let place = group.span_open().byte_range();
        if !place.is_empty() {
            *counts.entry(place.start).or_default() += 1;
        }
        count_braces(group.stream(), counts);
    }
}

#[cfg(test)]
mod tests {
    use super::super::matcher::{Match, bind};
    use super::*;

    fn expansion(matcher: &str, body: &str, call: &str) -> TokenStream {
        let parse = |text: &str| text.parse::<TokenStream>().expect("tokens");
        let Match::Fits(bindings) = bind(&parse(matcher), &parse(call)) else {
            panic!("{call} does not fit {matcher}")
        };
        expand(&parse(body), &bindings, &mut 1000).expect("an expansion")
    }

    #[test]
    fn bodies_are_written_with_the_fragments_of_the_call() {
        let expanded = |matcher, body, call| expansion(matcher, body, call).to_string();
        assert_eq!(expanded("$($a:ident)*", "$(mod $a;)*", "x y"), "mod x ; mod y ;");
        let body = "$(#[$m])* $v mod $a { $(use $b;)+ }";
        let matcher = "$(#[$m:meta])* $v:vis $a:ident: $($b:path),*";
        let expected = "# [x] pub mod a { use b ; use c :: d ; }";
        assert_eq!(expanded(matcher, body, "#[x] pub a: b, c::d"), expected);
        assert_eq!(
            expanded("$($a:ident $b:ident);*", "$($crate::$a!($b);)*", "a b"),
            "crate ::a ! (b) ;"
        );
    }

    #[test]
    fn only_tokens_of_the_call_have_places() {
        let tokens = expansion("$($t:tt)*", "fn f() {} $($t)* g! { $($t)* }", "fn h() {}");
        let counts = written_braces(&tokens);
        assert_eq!(counts.get(&7), Some(&2), "the braces of h, twice: {counts:?}");
        let placed = tokens.into_iter().filter(|token| !token.span().byte_range().is_empty());
        assert_eq!(placed.count(), 4, "fn, h, (), {{}}");
    }
}
