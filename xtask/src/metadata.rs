//! What cargo knows of the workspace's packages, as it tells it.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

/// All packages of the workspace, each as the object that `cargo metadata` describes it by.
pub fn packages() -> Result<Vec<Value>, String> {
    packages_at(Path::new(env!("CARGO_MANIFEST_DIR")))
}

/// The same of the workspace that this folder belongs to.
pub fn packages_at(folder: &Path) -> Result<Vec<Value>, String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]);
    cargo.current_dir(folder).stdin(Stdio::null());
    let said = cargo.output().map_err(|error| format!("cannot run cargo: {error}"))?;
    if !said.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&said.stderr)));
    }
    let mut metadata: Value = serde_json::from_slice(&said.stdout)
        .map_err(|error| format!("cargo metadata is not understood: {error}"))?;
    match metadata["packages"].take() {
        Value::Array(packages) => Ok(packages),
        _ => Err("cargo metadata tells of no packages".to_owned()),
    }
}

/// The name of a package, or of one that it depends on.
pub fn name(package: &Value) -> &str {
    package["name"].as_str().unwrap_or_default()
}

/// The names of these packages' test programs.
pub fn tests_of(packages: &[&str]) -> Result<Vec<String>, String> {
    let all = self::packages()?;
    let mut names = Vec::new();
    for package in packages {
        let package = all.iter().find(|one| name(one) == *package);
        let package = package.ok_or_else(|| format!("a package of {packages:?} is not there"))?;
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
