//! Arguments and return types of functions in the body of a macro.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

pub(super) fn word(token: Option<&TokenTree>) -> Option<String> {
    match token {
        Some(TokenTree::Ident(word)) => Some(word.to_string()),
        _ => None,
    }
}

pub(super) fn is_punctuation(token: Option<&TokenTree>, character: char) -> bool {
    matches!(token, Some(TokenTree::Punct(one)) if one.as_char() == character)
}

pub(super) fn group(token: Option<&TokenTree>, delimiter: Delimiter) -> Option<&Group> {
    match token {
        Some(TokenTree::Group(group)) if group.delimiter() == delimiter => Some(group),
        _ => None,
    }
}

/// Returns the return type as written.
pub(super) fn returns(tokens: &[TokenTree]) -> String {
    let arrow = tokens
        .windows(2)
        .position(|two| is_punctuation(two.first(), '-') && is_punctuation(two.get(1), '>'));
    let Some(arrow) = arrow else { return String::new() };
    let tokens = &tokens[arrow + 2..];
    let end =
        tokens.iter().position(|token| matches!(token, TokenTree::Ident(word) if word == "where"));
    let of: TokenStream = tokens[..end.unwrap_or(tokens.len())].iter().cloned().collect();
    of.to_string()
}

/// Returns the names of those arguments that have one.
pub(super) fn arguments(parameters: &Group) -> Vec<String> {
    let (mut arguments, mut current, mut depth) = (Vec::new(), Vec::new(), 0_i32);
    for token in parameters.stream() {
        match &token {
            TokenTree::Punct(one) if one.as_char() == ',' && depth == 0 => {
                arguments.extend(argument(&current));
                current.clear();
                continue;
            }
            TokenTree::Punct(one) if one.as_char() == '<' => depth += 1,
            TokenTree::Punct(one) if one.as_char() == '>' => depth -= 1,
            _ => {}
        }
        current.push(token);
    }
    arguments.extend(argument(&current));
    arguments
}

fn argument(tokens: &[TokenTree]) -> Option<String> {
    let end = tokens.iter().position(|token| is_punctuation(Some(token), ':'));
    let pattern = &tokens[..end.unwrap_or(tokens.len())];
    if pattern.iter().any(|token| matches!(token, TokenTree::Ident(word) if word == "self")) {
        return Some("self".to_owned());
    }
    end?;
    let pattern = match pattern {
        [TokenTree::Ident(word), rest @ ..] if word == "mut" => rest,
        other => other,
    };
    match pattern {
        [TokenTree::Ident(name)] if name != "_" => Some(name.to_string()),
        [dollar, TokenTree::Ident(name)] if is_punctuation(Some(dollar), '$') => {
            Some(format!("${name}"))
        }
        _ => None,
    }
}
