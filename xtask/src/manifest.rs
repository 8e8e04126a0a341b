//! What the workspace's manifest says of all packages.

use std::fs;

use crate::libtorch::workspace;

/// A text of its section `[workspace.package]`.
pub fn of_all_packages(key: &str) -> Result<String, String> {
    let manifest = fs::read_to_string(workspace().join("Cargo.toml"));
    let manifest = manifest.map_err(|error| format!("Cargo.toml: {error}"))?;
    let section = manifest.lines().skip_while(|line| *line != "[workspace.package]").skip(1);
    let mut lines = section.take_while(|line| !line.starts_with('['));
    let value = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
    value
        .map(|value| value.trim_matches('"').to_owned())
        .ok_or_else(|| format!("Cargo.toml names no {key}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_and_what_is_not_there_is_said() {
        assert_eq!(of_all_packages("version").as_deref(), Ok(env!("CARGO_PKG_VERSION")));
        assert_eq!(of_all_packages("rust-version").as_deref(), Ok(env!("CARGO_PKG_RUST_VERSION")));
        assert_eq!(of_all_packages("members"), Err("Cargo.toml names no members".to_owned()));
    }
}
