//! Parses the requested grouping of op tables.

use std::str::FromStr;

use mlprof_events::GroupBy;

/// Grouping of ops: `name`, or a comma-separated list of `shapes`, `stack 5`, `module` and `phase`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grouping(pub GroupBy);

/// The grouping is unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot group rows by {0:?}: use name, shapes, stack 5, module, phase, or several of them")]
pub struct UnknownGrouping(String);

impl FromStr for Grouping {
    type Err = UnknownGrouping;

    fn from_str(text: &str) -> Result<Self, UnknownGrouping> {
        let mut by = GroupBy::name();
        for part in text.split(',').map(str::trim) {
            let (what, number) = match part.split_once([' ', '=']) {
                Some((what, number)) => (what.trim_end(), Some(number.trim())),
                None => (part, None),
            };
            by = match (what.to_ascii_lowercase().as_str(), number.map(str::parse)) {
                ("name", None) => by,
                ("shapes", None) => by.input_shapes(),
                ("stack", Some(Ok(frames))) if frames > 0 => by.stack(frames),
                ("module", None) => by.module(),
                ("phase", None) => by.phase(),
                _ => return Err(UnknownGrouping(part.to_owned())),
            };
        }
        Ok(Self(by))
    }
}

/// Formats the grouping as text.
pub(super) fn describe(by: &GroupBy) -> String {
    let mut parts = vec!["name".to_owned()];
    parts.extend(by.input_shapes.then(|| "shapes".to_owned()));
    parts.extend((by.stack > 0).then(|| format!("stack {}", by.stack)));
    parts.extend(by.module.then(|| "module".to_owned()));
    parts.extend(by.phase.then(|| "phase".to_owned()));
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groupings_are_read_and_described() {
        for (text, by, words) in [
            ("name", GroupBy::name(), "name"),
            ("shapes", GroupBy::name().input_shapes(), "name, shapes"),
            ("stack 5", GroupBy::name().stack(5), "name, stack 5"),
            ("Stack=2, phase", GroupBy::name().stack(2).phase(), "name, stack 2, phase"),
            ("module,name", GroupBy::name().module(), "name, module"),
        ] {
            assert_eq!(text.parse(), Ok(Grouping(by)), "{text}");
            assert_eq!(describe(&by), words);
        }
        for text in ["", "stack", "stack 0", "stack x", "shapes 3", "size"] {
            let error = text.parse::<Grouping>().expect_err("no grouping").to_string();
            assert!(error.contains("name, shapes, stack 5, module, phase"), "{error}");
        }
    }
}
