//! Finds functions in the body of a macro by their shape.

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

use super::signature::{arguments, group, is_punctuation, returns, word};
use crate::foreign;
use crate::text::{plain, without_blanks};

/// Rule of a macro.
pub(super) struct Rule {
    pub matcher: TokenStream,
    pub body: TokenStream,
    pub functions: Vec<MadeFunction>,
}

/// Function in the body of a macro.
pub(super) struct MadeFunction {
    /// Path after the module or `impl` block that contains the macro call.
    pub path: Vec<Part>,
    /// Trait that the surrounding `impl` block implements, if the macro's body contains that block.
    pub implemented: Option<String>,
    pub is_public: bool,
    /// Reason why the function cannot have a hook, derived from the tokens before `fn`.
    pub obstacle: Option<String>,
    pub is_async: bool,
    /// Attribute that may change the body.
    pub attribute: Option<String>,
    pub arguments: Vec<String>,
    pub returns: String,
    /// Return type with blanks, in a form that can be repeated in the macro's body.
    pub returns_text: String,
    /// Offset after the opening brace.
    pub place: usize,
    /// Offset before the closing brace.
    pub end: usize,
    pub line: u32,
}

/// Name in a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    Name(String),
    /// Fragment, written as `$name`.
    Fragment(String),
}

impl Part {
    /// Returns the arguments that add this part to a `concat!` expression.
    pub fn expression(&self) -> String {
        match self {
            Self::Name(name) => format!(", {:?}", format!("::{name}")),
            Self::Fragment(name) => format!(", \"::\", {}stringify!(${name})", super::CORE),
        }
    }
}

/// Returns the rules of a `macro_rules!` definition.
pub(super) fn rules(tokens: TokenStream) -> Vec<Rule> {
    let tokens: Vec<_> = tokens.into_iter().collect();
    let mut rules = Vec::new();
    for window in tokens.windows(4) {
        if let [TokenTree::Group(matcher), TokenTree::Punct(one), TokenTree::Punct(two), body] =
            window
            && (one.as_char(), two.as_char()) == ('=', '>')
            && let TokenTree::Group(body) = body
        {
            let mut functions = Vec::new();
            scan(body.stream(), &Around::default(), &mut functions);
            // The definition of a macro that another macro generates has no text in the file.
            functions.retain(|function| function.place > 0);
            rules.push(Rule { matcher: matcher.stream(), body: body.stream(), functions });
        }
    }
    rules
}

/// Context of the visited tokens.
#[derive(Clone, Default)]
struct Around {
    path: Vec<Part>,
    implemented: Option<String>,
    attribute: Option<String>,
}

/// Returns the name at an index: an identifier or a fragment.
fn name_at(tokens: &[TokenTree], place: usize) -> Option<Part> {
    if is_punctuation(tokens.get(place), '$') {
        return word(tokens.get(place + 1)).map(|name| Part::Fragment(plain(&name)));
    }
    word(tokens.get(place)).map(|name| Part::Name(plain(&name)))
}

fn scan(tokens: TokenStream, around: &Around, functions: &mut Vec<MadeFunction>) {
    let tokens: Vec<_> = tokens.into_iter().collect();
    let mut place = 0;
    while place < tokens.len() {
        match word(tokens.get(place)).as_deref() {
            Some("fn") => {
                if let Some((function, body, next)) = function(&tokens, place, around) {
                    let inner = Around { path: function.path.clone(), ..around.clone() };
                    functions.push(function);
                    scan(body, &inner, functions);
                    place = next;
                    continue;
                }
            }
            Some("impl") => {
                if let Some((inner, body, next)) = implementation(&tokens, place, around) {
                    scan(body, &inner, functions);
                    place = next;
                    continue;
                }
            }
            Some("mod" | "trait") => {
                let body = (place + 2..tokens.len())
                    .take_while(|next| !is_end(&tokens[*next]))
                    .find(|next| group(tokens.get(*next), Delimiter::Brace).is_some());
                if let (Some(name), Some(body)) = (name_at(&tokens, place + 1), body)
                    && let Some(block) = group(tokens.get(body), Delimiter::Brace)
                {
                    let mut inner = around.clone();
                    inner.path.push(name);
                    inner.attribute = inner.attribute.or(unknown_attribute(&tokens[..place]));
                    scan(block.stream(), &inner, functions);
                    place = body + 1;
                    continue;
                }
            }
            // The effect of another macro on these tokens is unknown.
            Some(_) if is_punctuation(tokens.get(place + 1), '!') => {
                let named = usize::from(matches!(tokens.get(place + 2), Some(TokenTree::Ident(_))));
                let dollar = usize::from(is_punctuation(tokens.get(place + 2), '$'));
                let after = place + 2 + named + 2 * dollar;
                if matches!(tokens.get(after), Some(TokenTree::Group(_))) {
                    place = after + 1;
                    continue;
                }
            }
            _ => {
                if let Some(TokenTree::Group(group)) = tokens.get(place) {
                    scan(group.stream(), around, functions);
                }
            }
        }
        place += 1;
    }
}

/// Parses `impl … {`. Returns the inner context, the tokens of the items, and the index after the
/// block.
fn implementation(
    tokens: &[TokenTree],
    place: usize,
    around: &Around,
) -> Option<(Around, TokenStream, usize)> {
    let body = (place + 1..tokens.len())
        .find(|next| group(tokens.get(*next), Delimiter::Brace).is_some())?;
    let block = group(tokens.get(body), Delimiter::Brace)?;
    let head = &tokens[place + 1..body];
    let is_word =
        |token: &TokenTree, name: &str| matches!(token, TokenTree::Ident(word) if word == name);
    let head = match head.iter().position(|token| is_word(token, "where")) {
        Some(end) => &head[..end],
        None => head,
    };
    // The `for` of `for<'a>` does not count.
    let split = (0..head.len())
        .rev()
        .find(|place| is_word(&head[*place], "for") && !is_punctuation(head.get(place + 1), '<'));
    let of = split.map_or(head, |split| &head[split + 1..]);
    let mut inner = around.clone();
    inner.path.push(last_name(of)?);
    inner.implemented = split.and_then(|split| match last_name(&head[..split]) {
        Some(Part::Name(name)) => Some(name),
        _ => None,
    });
    inner.attribute = inner.attribute.or(unknown_attribute(&tokens[..place]));
    Some((inner, block.stream(), body + 1))
}

/// Returns the last name of a path, ignoring its parameters.
fn last_name(tokens: &[TokenTree]) -> Option<Part> {
    let (mut depth, mut last) = (0_i32, None);
    for (place, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Punct(one) if one.as_char() == '<' => depth += 1,
            TokenTree::Punct(one) if one.as_char() == '>' => depth -= 1,
            TokenTree::Ident(name) if depth == 0 => {
                let is_fragment = place > 0 && is_punctuation(tokens.get(place - 1), '$');
                let name = plain(&name.to_string());
                last = Some(if is_fragment { Part::Fragment(name) } else { Part::Name(name) });
            }
            _ => {}
        }
    }
    last
}

/// Parses `fn name(…) -> … {`. Returns the function, its body, and the index after the body.
fn function(
    tokens: &[TokenTree],
    place: usize,
    around: &Around,
) -> Option<(MadeFunction, TokenStream, usize)> {
    let name = name_at(tokens, place + 1)?;
    let named = place + 1 + usize::from(matches!(name, Part::Fragment(_)));
    let parameters = (named + 1..tokens.len())
        .find(|next| group(tokens.get(*next), Delimiter::Parenthesis).is_some())?;
    let body = (parameters + 1..tokens.len())
        .take_while(|next| !is_end(&tokens[*next]))
        .find(|next| group(tokens.get(*next), Delimiter::Brace).is_some())?;
    let block = group(tokens.get(body), Delimiter::Brace)?;
    let before = FunctionHeader::of(&tokens[..place]);
    let returns_text = returns(&tokens[parameters + 1..body]);
    let mut path = around.path.clone();
    path.push(name);
    let function = MadeFunction {
        path,
        implemented: around.implemented.clone(),
        is_public: before.is_public,
        obstacle: before.obstacle,
        is_async: before.is_async,
        attribute: around.attribute.clone().or(before.attribute),
        arguments: arguments(group(tokens.get(parameters), Delimiter::Parenthesis)?),
        returns: without_blanks(&returns_text),
        returns_text,
        place: block.span_open().byte_range().end,
        end: block.span_close().byte_range().start,
        line: tokens[named].span().start().line as u32,
    };
    Some((function, block.stream(), body + 1))
}

/// Returns `true` if the token ends a function without a body.
fn is_end(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Punct(one) if one.as_char() == ';' && one.spacing() == Spacing::Alone)
}

const CONST: &str = "a macro generates this `const fn`, which may run in the compiler";

/// Properties derived from the tokens before `fn`.
struct FunctionHeader {
    is_public: bool,
    obstacle: Option<String>,
    is_async: bool,
    attribute: Option<String>,
}

impl FunctionHeader {
    fn of(mut tokens: &[TokenTree]) -> Self {
        let mut before =
            Self { is_public: false, obstacle: None, is_async: false, attribute: None };
        let mut convention = None;
        while let Some((last, rest)) = tokens.split_last() {
            match last {
                TokenTree::Ident(name) => {
                    let name = name.to_string();
                    let is_fragment = is_punctuation(rest.last(), '$');
                    match name.as_str() {
                        // The caller provides the visibility, so the function counts as public.
                        _ if is_fragment => before.is_public = true,
                        "pub" => before.is_public = true,
                        "const" => before.obstacle = Some(CONST.to_owned()),
                        "async" => before.is_async = true,
                        "extern" => {
                            let name = convention.take();
                            let of = |name: String| foreign::obstacle_of_convention(&name);
                            before.obstacle = before.obstacle.or(name.and_then(of));
                        }
                        "unsafe" | "default" | "safe" => {}
                        _ => break,
                    }
                }
                // `pub(crate)` does not count as public.
                TokenTree::Group(group)
                    if group.delimiter() == Delimiter::Parenthesis
                        && word(rest.last()).as_deref() == Some("pub") =>
                {
                    tokens = &rest[..rest.len() - 1];
                    continue;
                }
                TokenTree::Literal(name) => {
                    convention = Some(name.to_string().trim_matches('"').to_owned());
                }
                TokenTree::Punct(one) if one.as_char() == '$' => {}
                _ => break,
            }
            tokens = rest;
        }
        before.attribute = unknown_attribute(tokens);
        before
    }
}

/// Returns an attribute of the next item that may change its body, if any.
fn unknown_attribute(mut tokens: &[TokenTree]) -> Option<String> {
    while let [rest @ .., hash, TokenTree::Group(group)] = tokens {
        if !is_punctuation(Some(hash), '#') || group.delimiter() != Delimiter::Bracket {
            break;
        }
        let meta = syn::parse2::<syn::Meta>(group.stream());
        if let Ok(meta) = meta
            && let Some(owner) = crate::attributes::unknown(&meta)
        {
            return Some(owner);
        }
        tokens = rest;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn functions(text: &str) -> Vec<MadeFunction> {
        let rules = rules(text.parse().expect("tokens"));
        rules.into_iter().flat_map(|rule| rule.functions).collect()
    }

    #[test]
    fn functions_are_found_by_their_shape() {
        let text = "($a:ident, $t:ty) => { #[inline] pub unsafe fn $a<T>(&mut self, mut x: Vec<T>, \
                    (p, q): P, $y: u8) -> Result<Self> where T: Clone { fn inner() {} } \
                    impl<'a> Made<'a> for $t { fn f(); const fn g() {} } }";
        let all = functions(text);
        let paths: Vec<_> = all.iter().map(|function| function.path.clone()).collect();
        let (name, fragment) =
            (|name: &str| Part::Name(name.into()), |name: &str| Part::Fragment(name.into()));
        assert_eq!(paths[0], [fragment("a")]);
        assert_eq!(paths[1], [fragment("a"), name("inner")]);
        assert_eq!(paths[2], [fragment("t"), name("g")]);
        assert_eq!(all[0].arguments, ["self", "x", "$y"]);
        assert_eq!(all[0].returns, "Result<Self>");
        assert!(all[0].is_public && all[0].attribute.is_none() && all[0].obstacle.is_none());
        assert_eq!(all[2].obstacle.as_deref(), Some(CONST));
        assert_eq!(all[2].implemented.as_deref(), Some("Made"));
        assert_eq!(text.as_bytes()[all[0].place - 1], b'{');
    }

    #[test]
    fn foreign_and_async_functions_and_modules_that_are_fragments_are_found() {
        let all = functions(
            "($m:ident) => { mod $m { pub unsafe extern \"C\" fn f() {} async fn g() {} } \
             extern \"x86-interrupt\" fn h() {} mod $m; fn i() {} }",
        );
        let names = |function: &MadeFunction| {
            let names = function.path.iter().map(|part| match part {
                Part::Name(name) => name.clone(),
                Part::Fragment(name) => format!("${name}"),
            });
            names.collect::<Vec<_>>().join("::")
        };
        let paths: Vec<_> = all.iter().map(names).collect();
        assert_eq!(paths, ["$m::f", "$m::g", "h", "i"]);
        let has_obstacle = |one: &MadeFunction| one.obstacle.is_some();
        assert!(!has_obstacle(&all[0]) && !has_obstacle(&all[1]) && has_obstacle(&all[2]));
        assert!(all[1].is_async && !all[0].is_async);
    }

    #[test]
    fn functions_for_other_macros_are_ignored() {
        assert!(functions("(fn $a:ident() {}) => { quote! { fn f() {} } }").is_empty());
        assert!(functions("() => { macro_rules! m { () => { fn f() {} } } }").is_empty());
        assert!(functions("($b:block) => { fn f() $b }").is_empty());
        let owned = functions("() => { #[cube] fn f() {} pub(crate) fn g() {} }");
        assert_eq!(owned[0].attribute.as_deref(), Some("cube"));
        assert!(!owned[1].is_public && owned[1].attribute.is_none());
    }
}
