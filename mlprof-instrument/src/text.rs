//! Names and types as written in a program.

/// Removes the prefix `r#`.
pub(super) fn plain(name: &str) -> String {
    name.strip_prefix("r#").unwrap_or(name).to_owned()
}

/// Returns the reason why items below an attribute cannot have hooks.
pub(super) fn owned(attribute: &str) -> String {
    format!("`#[{attribute}]` may transform the function body")
}

/// Removes blanks, so that types can be compared as text.
pub(super) fn without_blanks(text: &str) -> String {
    text.split_whitespace().collect()
}
