//! Patterns of function paths.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::error::PatternError;
use super::path::{FunctionPath, split};

/// Pattern of function paths.
///
/// A path begins with the crate and ends with the function: `my_model::net::Net::forward`. It
/// contains the module in which the function is written, and the type without its parameters. A
/// method of a trait implementation can also be selected by the trait,
/// `my_model::net::Module::forward`, or by both, `my_model::net::<Net as Module>::forward`.
///
/// * `*` matches any text within one name, and `?` matches one character;
/// * `**` matches any number of names, including none;
/// * a `*` at the end matches everything below: `my_model::net::*`;
/// * a single name is a crate and selects all of its functions: `my_model` is `my_model::*`.
///   `**::forward` selects a function anywhere.
///
/// The crate may be written as in Cargo.toml, with `-`. All other names are compared exactly, and
/// case matters.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Pattern {
    text: String,
    segments: Vec<String>,
}

/// Segment that matches any number of names.
const ANY: &str = "**";

impl Pattern {
    /// Returns the pattern as it was given.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns `true` if a function of this crate may match.
    pub fn concerns(&self, crate_name: &str) -> bool {
        self.segments.first().is_some_and(|first| first == ANY || glob(first, crate_name))
    }

    /// Returns `true` if the path of a function matches. The path has the format of
    /// [`SplicedCrate::seen`](super::SplicedCrate).
    pub fn matches_text(&self, path: &str) -> bool {
        self.matches(&FunctionPath::parse(path))
    }

    pub(super) fn matches(&self, path: &FunctionPath) -> bool {
        if path.spellings().any(|names| is_match(&self.segments, &names)) {
            return true;
        }
        let is_qualified = self.segments.iter().any(|segment| segment.starts_with('<'));
        is_qualified
            && path.qualified().is_some_and(|(place, qualified)| {
                let mut names: Vec<&str> = path.segments.iter().map(String::as_str).collect();
                names[place] = &qualified;
                is_match(&self.segments, &names)
            })
    }

    /// Returns the segments of the pattern, to find similar paths.
    pub(super) fn segments(&self) -> &[String] {
        &self.segments
    }
}

/// Returns `true` if the names match the pattern's segments.
fn is_match(pattern: &[String], names: &[&str]) -> bool {
    match (pattern.split_first(), names.split_first()) {
        (None, None) => true,
        (None, Some(_)) => false,
        (Some((first, rest)), _) if first == ANY => {
            (0..=names.len()).any(|skipped| is_match(rest, &names[skipped..]))
        }
        (Some(_), None) => false,
        (Some((first, rest)), Some((name, names))) => glob(first, name) && is_match(rest, names),
    }
}

/// Returns `true` if `name` matches `pattern`, in which `*` stands for any text and `?` for one
/// character.
pub(super) fn glob(pattern: &str, name: &str) -> bool {
    let mut letters = pattern.chars();
    let Some(first) = letters.next() else { return name.is_empty() };
    let rest = letters.as_str();
    let mut name_letters = name.chars();
    match first {
        '*' => {
            let starts = name.char_indices().map(|(place, _)| place).chain([name.len()]);
            starts.into_iter().any(|start| glob(rest, &name[start..]))
        }
        _ => name_letters.next().is_some_and(|letter| {
            (first == '?' || first == letter) && glob(rest, name_letters.as_str())
        }),
    }
}

/// Returns a name as used in paths, without type parameters and without `r#`.
fn plain(name: &str) -> String {
    let name = name.trim();
    if let Some(both) = name.strip_prefix('<').and_then(|name| name.strip_suffix('>'))
        && let Some((of, implemented)) = both.split_once(" as ")
    {
        let last = |path: &str| split(path).last().map(|name| plain(name)).unwrap_or_default();
        return format!("<{} as {}>", last(of), last(implemented));
    }
    let name = name.strip_prefix("r#").unwrap_or(name);
    match name.find('<') {
        Some(place) if place > 0 => name[..place].to_owned(),
        _ => name.to_owned(),
    }
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        let error = |reason| PatternError { pattern: text.to_owned(), reason };
        if text.trim().is_empty() {
            return Err(error("is empty"));
        }
        let written = text.trim();
        let written = written.strip_suffix("()").unwrap_or(written);
        let mut segments: Vec<String> = split(written).iter().map(|name| plain(name)).collect();
        if segments.iter().any(String::is_empty) {
            return Err(error("has an empty path segment"));
        }
        let is_spaced = |name: &String| name.contains(' ') && !name.starts_with(['<', '[', '(']);
        if segments.iter().any(is_spaced) {
            return Err(error("has a space in a name"));
        }
        let first = &mut segments[0];
        if ["crate", "self", "super", "Self"].contains(&first.as_str()) {
            return Err(error("does not begin with a crate name"));
        }
        *first = first.replace('-', "_");
        if segments.len() == 1 || segments.last().is_some_and(|last| last == "*") {
            segments.push(ANY.to_owned());
        }
        Ok(Self { text: text.to_owned(), segments })
    }
}

impl TryFrom<String> for Pattern {
    type Error = PatternError;

    fn try_from(text: String) -> Result<Self, PatternError> {
        text.parse()
    }
}

impl From<Pattern> for String {
    fn from(pattern: Pattern) -> Self {
        pattern.text
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, path: &str) -> bool {
        pattern.parse::<Pattern>().expect("a pattern").matches_text(path)
    }

    #[test]
    fn names_and_stars_match_what_they_say() {
        assert!(matches("my_model::net::Net::forward", "my_model::net::Net::forward"));
        assert!(matches("my-model::net::Net<B>::forward()", "my_model::net::Net::forward"));
        assert!(!matches("my_model::net::Net::forward", "my_model::net::Net::forward::inner"));
        assert!(!matches("my_model::net::net::forward", "my_model::net::Net::forward"));
        assert!(matches("my_model::*::forward", "my_model::Net::forward"));
        assert!(!matches("my_model::*::forward", "my_model::net::Net::forward"));
        assert!(matches("my_model::**::forward", "my_model::net::Net::forward"));
        assert!(matches("my_model::**::forward", "my_model::forward"));
        assert!(matches("my_model::**::for*_t", "my_model::Net::forward_t"));
        assert!(!matches("my_model::**::for*_t", "my_model::Net::forward"));
        assert!(matches("my_model::**::r#type", "my_model::type"));
        assert!(matches("my_model::conv?d", "my_model::conv2d"));
        assert!(!matches("my_model::conv?d", "my_model::convd"));
    }

    #[test]
    fn a_star_at_the_end_is_everything_below() {
        for pattern in ["my_model::*", "my_model::**", "my-model", "**", "*"] {
            assert!(matches(pattern, "my_model::run"), "{pattern}");
            assert!(matches(pattern, "my_model::net::Net::forward::inner"), "{pattern}");
        }
        assert!(!matches("my_model::net::*", "my_model::net"));
        assert!(!matches("my_model", "my_modeler::run"));
    }

    #[test]
    fn methods_of_traits_are_found_by_type_and_by_trait() {
        let path = FunctionPath {
            segments: ["a", "net", "Net", "forward"].map(str::to_owned).to_vec(),
            implemented: Some((2, "Module".to_owned())),
        };
        assert_eq!(FunctionPath::parse(&path.full()), path);
        let finds = |pattern: &str| {
            let pattern = pattern.parse::<Pattern>().expect("a pattern");
            assert_eq!(pattern.matches(&path), pattern.matches_text(&path.full()));
            pattern.matches(&path)
        };
        assert!(finds("a::net::Net::forward"));
        assert!(finds("a::net::Module::forward"));
        assert!(finds("a::net::<Net as Module>::forward"));
        assert!(finds("a::net::<crate::net::Net<B> as nn::Module<B>>::forward"));
        assert!(finds("a::**::<* as Module>::*"));
        assert!(!finds("a::net::<Net as ModuleT>::forward"));
    }

    #[test]
    fn a_pattern_concerns_the_crates_that_it_names() {
        let concerns = |pattern: &str, name: &str| {
            pattern.parse::<Pattern>().expect("a pattern").concerns(name)
        };
        assert!(concerns("my-model::x", "my_model"));
        assert!(concerns("burn_*::x", "burn_flex"));
        assert!(concerns("**::forward", "anything"));
        assert!(!concerns("my_model", "my_modeler"));
    }

    #[test]
    fn impossible_patterns_are_errors() {
        for (pattern, reason) in [
            ("", "is empty"),
            ("a::::b", "has an empty path segment"),
            ("a::", "has an empty path segment"),
            ("crate::a", "does not begin with a crate name"),
            ("a::b c", "has a space in a name"),
        ] {
            assert_eq!(pattern.parse::<Pattern>().expect_err(pattern).reason, reason);
        }
    }
}
