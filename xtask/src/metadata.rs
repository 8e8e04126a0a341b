//! Data of `cargo metadata` about the workspace's packages.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

/// Returns all packages of the workspace as JSON objects of `cargo metadata`.
pub fn packages() -> Result<Vec<Value>, String> {
    packages_at(Path::new(env!("CARGO_MANIFEST_DIR")))
}

/// Returns all packages of the workspace that contains `folder`.
pub fn packages_at(folder: &Path) -> Result<Vec<Value>, String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]);
    cargo.current_dir(folder).stdin(Stdio::null());
    let said = cargo.output().map_err(|error| format!("cannot run cargo: {error}"))?;
    if !said.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&said.stderr)));
    }
    let mut metadata: Value = serde_json::from_slice(&said.stdout)
        .map_err(|error| format!("cannot parse the output of cargo metadata: {error}"))?;
    match metadata["packages"].take() {
        Value::Array(packages) => Ok(packages),
        _ => Err("the output of cargo metadata has no packages".to_owned()),
    }
}

/// Returns the name of a package or dependency.
pub fn name(package: &Value) -> &str {
    package["name"].as_str().unwrap_or_default()
}

/// Returns the names of these packages' integration tests.
pub fn tests_of(packages: &[&str]) -> Result<Vec<String>, String> {
    let all = self::packages()?;
    let mut names = Vec::new();
    for package in packages {
        let package = all.iter().find(|one| name(one) == *package);
        let package = package.ok_or_else(|| format!("a package of {packages:?} is missing"))?;
        let targets = package["targets"].as_array().into_iter().flatten();
        let tests = targets.filter(|target| target["kind"] == serde_json::json!(["test"]));
        names.extend(tests.filter_map(|target| target["name"].as_str()).map(str::to_owned));
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_programs_have_names() {
        let names = tests_of(&["tests"]).expect("cargo tells them");
        assert!(names.contains(&"page".to_owned()), "{names:?}");
        assert!(!names.contains(&"tests".to_owned()), "the library is none: {names:?}");
        assert!(tests_of(&["no-such-package"]).is_err());
    }
}
