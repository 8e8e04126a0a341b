//! What a call of a macro gives its fragments.

use std::collections::HashMap;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// How a call fits a rule of a macro.
pub(super) enum Bound {
    /// It fits, and these are the fragments.
    Values(HashMap<String, String>),
    /// It does not.
    Not,
    /// It may; what is repeated is not followed.
    Unknown,
}

/// Compares a call with what a rule expects.
pub(super) fn bind(matcher: &TokenStream, call: TokenStream) -> Bound {
    let mut values = HashMap::new();
    let (matcher, call): (Vec<_>, Vec<_>) =
        (matcher.clone().into_iter().collect(), call.into_iter().collect());
    match fits(&matcher, &call, &mut values) {
        Some(true) => Bound::Values(values),
        Some(false) => Bound::Not,
        None => Bound::Unknown,
    }
}

fn is_punctuation(token: Option<&TokenTree>, character: char) -> bool {
    matches!(token, Some(TokenTree::Punct(one)) if one.as_char() == character)
}

fn fits(
    mut matcher: &[TokenTree],
    mut call: &[TokenTree],
    values: &mut HashMap<String, String>,
) -> Option<bool> {
    loop {
        match matcher {
            [] => return Some(call.is_empty()),
            [dollar, TokenTree::Ident(name), colon, TokenTree::Ident(kind), rest @ ..]
                if is_punctuation(Some(dollar), '$') && is_punctuation(Some(colon), ':') =>
            {
                let taken = length_of(&kind.to_string(), rest.first(), call)?;
                if taken > call.len() {
                    return Some(false);
                }
                values.insert(name.to_string(), text(&call[..taken]));
                (matcher, call) = (rest, &call[taken..]);
            }
            [dollar, TokenTree::Group(group), rest @ ..] if is_punctuation(Some(dollar), '$') => {
                let (rest, call_rest) = skip_repeated(group.stream(), rest, call)?;
                (matcher, call) = (rest, call_rest);
            }
            [TokenTree::Group(expected), rest @ ..] => {
                let Some((TokenTree::Group(given), after)) = call.split_first() else {
                    return Some(false);
                };
                if expected.delimiter() != given.delimiter() {
                    return Some(false);
                }
                let inner: Vec<_> = expected.stream().into_iter().collect();
                let given: Vec<_> = given.stream().into_iter().collect();
                if !fits(&inner, &given, values)? {
                    return Some(false);
                }
                (matcher, call) = (rest, after);
            }
            [expected, rest @ ..] => {
                let Some((given, after)) = call.split_first() else { return Some(false) };
                if expected.to_string() != given.to_string() {
                    return Some(false);
                }
                (matcher, call) = (rest, after);
            }
        }
    }
}

/// How many tokens a fragment of this kind takes; `None` if it cannot be told.
fn length_of(kind: &str, next: Option<&TokenTree>, call: &[TokenTree]) -> Option<usize> {
    match kind {
        "ident" | "tt" => Some(1),
        "lifetime" => Some(2),
        "literal" => Some(1 + usize::from(is_punctuation(call.first(), '-'))),
        "block" => Some(1),
        "vis" => {
            let is_pub = matches!(call.first(), Some(TokenTree::Ident(word)) if word == "pub");
            let is_within = matches!(
                call.get(1),
                Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis
            );
            Some(if is_pub { 1 + usize::from(is_within) } else { 0 })
        }
        // All that may stand there: up to what comes next in the rule.
        "ty" | "expr" | "path" | "pat" | "pat_param" | "expr_2021" | "meta" => match next {
            None => Some(call.len()),
            Some(TokenTree::Punct(end)) => {
                let is_end = |token: &TokenTree| is_punctuation(Some(token), end.as_char());
                call.iter().position(is_end)
            }
            Some(_) => None,
        },
        _ => None,
    }
}

/// Passes over a repetition where that can be done without following it: attributes at the
/// beginning, a comma at the end.
fn skip_repeated<'m, 'c>(
    repeated: TokenStream,
    rest: &'m [TokenTree],
    mut call: &'c [TokenTree],
) -> Option<(&'m [TokenTree], &'c [TokenTree])> {
    let repeated: Vec<_> = repeated.into_iter().collect();
    // Behind the group stands the operator, before which there may be a separator.
    let is_operator =
        |token: &TokenTree| ['*', '+', '?'].iter().any(|one| is_punctuation(Some(token), *one));
    let operator = rest.iter().take(2).position(is_operator)?;
    let rest = &rest[operator + 1..];
    if is_punctuation(repeated.first(), '#') && repeated.len() == 2 {
        while let [hash, TokenTree::Group(group), after @ ..] = call {
            if !is_punctuation(Some(hash), '#') || group.delimiter() != Delimiter::Bracket {
                break;
            }
            call = after;
        }
        return Some((rest, call));
    }
    let is_comma = repeated.len() == 1 && is_punctuation(repeated.first(), ',');
    if is_comma && rest.is_empty() {
        let call = if is_punctuation(call.first(), ',') { &call[1..] } else { call };
        return Some((rest, call));
    }
    None
}

/// As paths have it: of a type the last name, without parameters.
fn text(tokens: &[TokenTree]) -> String {
    let whole: TokenStream = tokens.iter().cloned().collect();
    let whole = whole.to_string().replace(' ', "");
    let name = whole.split(['<', '(']).next().filter(|name| !name.is_empty()).unwrap_or(&whole);
    let name = name.rsplit("::").next().unwrap_or(name);
    name.strip_prefix("r#").unwrap_or(name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(matcher: &str, call: &str) -> Option<Vec<(String, String)>> {
        let parse = |text: &str| text.parse::<TokenStream>().expect("tokens");
        match bind(&parse(matcher), parse(call)) {
            Bound::Values(values) => {
                let mut values: Vec<_> = values.into_iter().collect();
                values.sort();
                Some(values)
            }
            Bound::Not => None,
            Bound::Unknown => Some(vec![("unknown".into(), String::new())]),
        }
    }

    fn pairs(pairs: &[(&str, &str)]) -> Option<Vec<(String, String)>> {
        Some(pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect())
    }

    #[test]
    fn fragments_get_what_the_call_has_in_their_places() {
        assert_eq!(values("$a:ident, $b:ident", "exp, Exp"), pairs(&[("a", "exp"), ("b", "Exp")]));
        assert_eq!(
            values("$(#[$m:meta])* $v:vis $a:ident => $t:ty;", "#[x] pub(crate) f => a::B<C, D>;"),
            pairs(&[("a", "f"), ("t", "B"), ("v", "pub")])
        );
        assert_eq!(values("$a:ident $(,)?", "exp,"), pairs(&[("a", "exp")]));
        assert_eq!(
            values("[$a:ident] ($b:expr)", "[x] (1 + 2)"),
            pairs(&[("a", "x"), ("b", "1+2")])
        );
        assert_eq!(values("$a:ident, $b:ident", "exp"), None);
        assert_eq!(values("unary $a:ident", "binary f"), None);
        assert_eq!(values("$($a:ident),*", "a, b"), pairs(&[("unknown", "")]));
    }
}
