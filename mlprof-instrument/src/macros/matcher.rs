//! Matches a macro call with a rule of a `macro_rules!`.

use std::collections::{HashMap, HashSet};

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use syn::parse::{Parse, ParseStream, Parser};

use super::signature::is_punctuation;

/// Result of matching a call with a rule.
pub(super) enum Match {
    /// The call matches.
    Fits(Bindings),
    /// The call does not match this rule, but may match another one.
    Differs,
    /// The rule contains a fragment kind that is not supported here.
    Unknown,
}

/// Fragments of a rule, with their tokens in a call.
#[derive(Debug, Clone, Default)]
pub(super) struct Bindings {
    values: HashMap<String, Vec<TokenTree>>,
    repetitions: Vec<Repetition>,
}

/// One repetition `$(…)*` of a rule.
#[derive(Debug, Clone)]
struct Repetition {
    /// Names of the fragments in the repetition. They are known even if the call has no iteration.
    names: HashSet<String>,
    iterations: Vec<Bindings>,
}

/// Separator and operator of a repetition `$(…) separator operator`, in a rule's matcher or body.
pub(super) struct Repeated<'t> {
    pub separator: &'t [TokenTree],
    operator: char,
    /// Tokens after the operator.
    pub rest: &'t [TokenTree],
}

impl<'t> Repeated<'t> {
    /// Splits the tokens after the group of a repetition.
    pub fn of(rest: &'t [TokenTree]) -> Option<Self> {
        let is_operator = |token: &TokenTree| matches!(token, TokenTree::Punct(one) if "*+?".contains(one.as_char()));
        let end = match rest.first()? {
            token if is_operator(token) => 0,
            // A separator is one token of rustc, which may consist of several punctuation
            // characters.
            _ => 1 + rest.iter().skip(1).take(3).position(is_operator)?,
        };
        let TokenTree::Punct(operator) = &rest[end] else { return None };
        Some(Self { separator: &rest[..end], operator: operator.as_char(), rest: &rest[end + 1..] })
    }
}

impl Bindings {
    /// Returns the tokens of a fragment outside repetitions.
    pub fn value(&self, name: &str) -> Option<&[TokenTree]> {
        self.values.get(name).map(Vec::as_slice)
    }

    /// Returns the bindings of each iteration of a repetition that uses the fragments `used`.
    pub fn iterations(&self, used: &HashSet<String>) -> Vec<Self> {
        let concerned =
            || self.repetitions.iter().filter(|repetition| !repetition.names.is_disjoint(used));
        let count = concerned().map(|repetition| repetition.iterations.len()).max().unwrap_or(0);
        let others = self.repetitions.iter().filter(|other| other.names.is_disjoint(used));
        let around = Self { values: self.values.clone(), repetitions: others.cloned().collect() };
        let iteration = |number: usize| {
            let mut all = around.clone();
            for one in concerned().filter_map(|repetition| repetition.iterations.get(number)) {
                all.merge(one.clone());
            }
            all
        };
        (0..count).map(iteration).collect()
    }

    /// Returns the fragments as names for paths: one map for the fragments outside repetitions, and
    /// one per iteration.
    pub fn names(&self) -> Vec<HashMap<String, String>> {
        let own: HashMap<_, _> =
            self.values.iter().map(|(name, tokens)| (name.clone(), text(tokens))).collect();
        let mut all = vec![own.clone()];
        let iterations = self.repetitions.iter().flat_map(|repetition| &repetition.iterations);
        for inner in iterations.flat_map(Self::names) {
            let mut names = own.clone();
            names.extend(inner);
            all.push(names);
        }
        all
    }

    fn merge(&mut self, other: Self) {
        self.values.extend(other.values);
        self.repetitions.extend(other.repetitions);
    }
}

/// Matches a call with the matcher of a rule.
pub(super) fn bind(matcher: &TokenStream, call: &TokenStream) -> Match {
    let (matcher, call): (Vec<_>, Vec<_>) =
        (matcher.clone().into_iter().collect(), call.clone().into_iter().collect());
    match whole(&matcher, &call) {
        Ok(bindings) => Match::Fits(bindings),
        Err(Mismatch::Differs) => Match::Differs,
        Err(Mismatch::Unknown) => Match::Unknown,
    }
}

enum Mismatch {
    Differs,
    Unknown,
}

fn whole(matcher: &[TokenTree], call: &[TokenTree]) -> Result<Bindings, Mismatch> {
    let (bindings, taken) = beginning(matcher, call)?;
    if taken == call.len() { Ok(bindings) } else { Err(Mismatch::Differs) }
}

/// Matches the first tokens of a call. Returns the bindings and the number of matched tokens.
fn beginning(mut matcher: &[TokenTree], call: &[TokenTree]) -> Result<(Bindings, usize), Mismatch> {
    let (mut bindings, mut at) = (Bindings::default(), 0);
    loop {
        match matcher {
            [] => return Ok((bindings, at)),
            [dollar, TokenTree::Ident(name), colon, TokenTree::Ident(kind), rest @ ..]
                if is_punctuation(Some(dollar), '$') && is_punctuation(Some(colon), ':') =>
            {
                let taken = length_of(&kind.to_string(), &call[at..])?;
                bindings.values.insert(name.to_string(), call[at..at + taken].to_vec());
                (matcher, at) = (rest, at + taken);
            }
            [dollar, TokenTree::Group(group), rest @ ..] if is_punctuation(Some(dollar), '$') => {
                let repeated = Repeated::of(rest).ok_or(Mismatch::Unknown)?;
                let inner: Vec<_> = group.stream().into_iter().collect();
                let (iterations, taken) = repetition(&inner, &repeated, &call[at..])?;
                let names = fragments(&inner);
                bindings.repetitions.push(Repetition { names, iterations });
                (matcher, at) = (repeated.rest, at + taken);
            }
            [TokenTree::Group(expected), rest @ ..] => {
                let Some(TokenTree::Group(given)) = call.get(at) else {
                    return Err(Mismatch::Differs);
                };
                if expected.delimiter() != given.delimiter() {
                    return Err(Mismatch::Differs);
                }
                let inner: Vec<_> = expected.stream().into_iter().collect();
                let given: Vec<_> = given.stream().into_iter().collect();
                bindings.merge(whole(&inner, &given)?);
                (matcher, at) = (rest, at + 1);
            }
            [expected, rest @ ..] => {
                if call.get(at).map(ToString::to_string) != Some(expected.to_string()) {
                    return Err(Mismatch::Differs);
                }
                (matcher, at) = (rest, at + 1);
            }
        }
    }
}

/// Matches as many iterations as possible. Returns their bindings and the number of matched tokens.
fn repetition(
    inner: &[TokenTree],
    repeated: &Repeated<'_>,
    call: &[TokenTree],
) -> Result<(Vec<Bindings>, usize), Mismatch> {
    let (mut iterations, mut at) = (Vec::new(), 0);
    loop {
        let separator = if iterations.is_empty() { &[][..] } else { repeated.separator };
        let is_separated = separator.iter().enumerate().all(|(number, sign)| {
            call.get(at + number).map(ToString::to_string) == Some(sign.to_string())
        });
        if !is_separated || call.len() < at + separator.len() {
            break;
        }
        let start = at + separator.len();
        match beginning(inner, &call[start..]) {
            Ok((_, 0)) | Err(Mismatch::Differs) => break,
            Ok((one, taken)) => {
                iterations.push(one);
                at = start + taken;
            }
            Err(Mismatch::Unknown) => return Err(Mismatch::Unknown),
        }
        if repeated.operator == '?' {
            break;
        }
    }
    if repeated.operator == '+' && iterations.is_empty() {
        return Err(Mismatch::Differs);
    }
    Ok((iterations, at))
}

/// Returns the names after `$` in the tokens.
pub(super) fn fragments(tokens: &[TokenTree]) -> HashSet<String> {
    let mut names = HashSet::new();
    for (place, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Ident(name) if place > 0 && is_punctuation(tokens.get(place - 1), '$') => {
                names.insert(name.to_string());
            }
            TokenTree::Group(group) => {
                names.extend(fragments(&group.stream().into_iter().collect::<Vec<_>>()));
            }
            _ => {}
        }
    }
    names
}

/// Returns the number of tokens that a fragment of this kind takes.
fn length_of(kind: &str, call: &[TokenTree]) -> Result<usize, Mismatch> {
    let length = match kind {
        "ident" => matches!(call.first(), Some(TokenTree::Ident(name)) if name != "_").then_some(1),
        "tt" => tree_length(call),
        "lifetime" => is_punctuation(call.first(), '\'').then_some(2),
        "literal" => {
            let sign = usize::from(is_punctuation(call.first(), '-'));
            let is_word = |word: &proc_macro2::Ident| word == "true" || word == "false";
            match call.get(sign) {
                Some(TokenTree::Literal(_)) => Some(sign + 1),
                Some(TokenTree::Ident(word)) if sign == 0 && is_word(word) => Some(1),
                _ => None,
            }
        }
        "block" => {
            let is_block = matches!(call.first(), Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace);
            is_block.then_some(1)
        }
        "vis" => parsed::<syn::Visibility>(call, Parse::parse),
        "ty" => parsed::<syn::Type>(call, Parse::parse),
        "expr" | "expr_2021" => parsed::<syn::Expr>(call, Parse::parse),
        "path" => parsed::<syn::Path>(call, Parse::parse),
        "pat" => parsed(call, syn::Pat::parse_multi_with_leading_vert),
        "pat_param" => parsed(call, syn::Pat::parse_single),
        "meta" => parsed::<syn::Meta>(call, Parse::parse),
        "item" => parsed::<syn::Item>(call, Parse::parse),
        _ => return Err(Mismatch::Unknown),
    };
    length.filter(|length| *length <= call.len()).ok_or(Mismatch::Differs)
}

/// Returns the number of tokens that a parser consumes.
fn parsed<T>(call: &[TokenTree], parse: fn(ParseStream<'_>) -> syn::Result<T>) -> Option<usize> {
    let rest = |input: ParseStream<'_>| {
        parse(input)?;
        input.parse::<TokenStream>()
    };
    let rest = rest.parse2(call.iter().cloned().collect()).ok()?;
    call.len().checked_sub(rest.into_iter().count())
}

/// Returns the number of tokens that form one token tree of rustc, in which `=>` and `'a` are
/// single tokens.
fn tree_length(call: &[TokenTree]) -> Option<usize> {
    const OPERATORS: [&str; 25] = [
        "<<=", ">>=", "...", "..=", "->", "=>", "::", "==", "!=", "<=", ">=", "&&", "||", "+=",
        "-=", "*=", "/=", "%=", "^=", "&=", "|=", "<<", ">>", "..", "<-",
    ];
    let first = call.first()?;
    if is_punctuation(Some(first), '\'') {
        return (call.len() >= 2).then_some(2);
    }
    let mut signs = String::new();
    for token in call {
        let TokenTree::Punct(sign) = token else { break };
        signs.push(sign.as_char());
        if sign.spacing() == Spacing::Alone {
            break;
        }
    }
    Some(OPERATORS.iter().find(|one| signs.starts_with(**one)).map_or(1, |one| one.len()))
}

/// Formats a fragment as a name in a path. For a type, this is its last name without parameters.
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

    /// Returns `name=value` for each fragment, first outside repetitions and then per iteration.
    fn names(matcher: &str, call: &str) -> Option<String> {
        let parse = |text: &str| text.parse::<TokenStream>().expect("tokens");
        match bind(&parse(matcher), &parse(call)) {
            Match::Fits(bindings) => {
                let all = bindings.names().into_iter().map(|names| {
                    let mut names: Vec<_> =
                        names.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
                    names.sort();
                    names.join(" ")
                });
                Some(all.collect::<Vec<_>>().join("; "))
            }
            Match::Differs => None,
            Match::Unknown => Some("unknown".into()),
        }
    }

    #[test]
    fn fragments_are_bound_to_the_tokens_of_the_call() {
        let of = |matcher, call| names(matcher, call).unwrap_or_else(|| "differs".into());
        assert_eq!(of("$a:ident, $b:ident", "exp, Exp"), "a=exp b=Exp");
        let call = "#[x] pub(crate) f => a::B<C, D>;";
        let expected = "a=f t=B v=pub; a=f m=x t=B v=pub";
        assert_eq!(of("$(#[$m:meta])* $v:vis $a:ident => $t:ty;", call), expected);
        assert_eq!(of("$a:ident $(,)?", "exp,"), "a=exp; a=exp");
        assert_eq!(of("[$a:ident] ($b:expr)", "[x] (1 + 2)"), "a=x b=1+2");
        assert_eq!(of("$a:ident, $b:ident", "exp"), "differs");
        assert_eq!(of("unary $a:ident", "binary f"), "differs");
        assert_eq!(of("$s:stmt", "let x = 1"), "unknown");
    }

    #[test]
    fn repetitions_bind_one_value_for_each_iteration() {
        let of = |matcher, call| names(matcher, call).unwrap_or_else(|| "differs".into());
        assert_eq!(of("$($a:ident),*", "a, b"), "; a=a; a=b");
        assert_eq!(of("$($a:ident),* $(,)?", "a, b,"), "; a=a; a=b; ");
        assert_eq!(of("$($a:ident)+", ""), "differs");
        assert_eq!(of("$($a:ident => $b:tt);*", "a => 1; b => 'x"), "; a=a b=1; a=b b='x");
        assert_eq!(of("$t:ident { $($a:ident)* }", "T { x y }"), "t=T; a=x t=T; a=y t=T");
        assert_eq!(of("$($k:ident: [$($a:ident)*])*", "m: [x y]"), "; k=m; a=x k=m; a=y k=m");
        assert_eq!(of("$($t:tt)*", "a -> 'b"), "; t=a; t=->; t='b");
    }
}
