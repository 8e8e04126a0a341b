//! Names and types as they are written in a program.

/// Without `r#`.
pub(super) fn plain(name: &str) -> String {
    name.strip_prefix("r#").unwrap_or(name).to_owned()
}

/// Why nothing below an attribute can have a hook.
pub(super) fn owned(attribute: &str) -> String {
    format!("`#[{attribute}]` may do with its body what it likes")
}

/// How types are compared: as they are written, but for blanks.
pub(super) fn without_blanks(text: &str) -> String {
    text.split_whitespace().collect()
}
