//! Whether the packages that people depend on compile without any feature, and with each one alone. Which
//! features there are is what cargo says, so that a new one is among them by itself.

use crate::libtorch::Variables;
use crate::steps::{Step, cargo};

/// A package, and its features but for the default ones.
#[derive(Debug, PartialEq, Eq)]
struct Package {
    name: String,
    features: Vec<String>,
}

/// A step for each package and each of its features, and one for none of them. A package without features
/// is looked at by the lints.
///
/// Warnings are errors, as they are there: what only one feature uses is not used without it.
pub fn steps(libtorch: &Variables) -> Result<Vec<Step>, String> {
    let packages = packages(&metadata()?);
    let packages = packages.iter().filter(|package| is_depended_on(&package.name));
    Ok(packages.flat_map(steps_of).map(|step| step.variables(libtorch)).collect())
}

fn steps_of(package: &Package) -> impl Iterator<Item = Step> {
    let all_off = (!package.features.is_empty()).then_some(None);
    let alone = package.features.iter().map(Some);
    all_off.into_iter().chain(alone).map(|feature| {
        let name = &package.name;
        let title = feature.map_or_else(
            || format!("{name} without features"),
            |feature| format!("{name} with {feature} alone"),
        );
        let feature = feature.map(|feature| format!("--features {feature} ")).unwrap_or_default();
        // The profile that the lints have looked at what it stands on with: burn's devices take minutes.
        let profile = if name == "burn-plugin" { "wgpu" } else { "release" };
        let arguments = format!(
            "clippy --profile {profile} -p {name} --lib --no-deps --no-default-features {feature}-- -D \
             warnings"
        );
        Step::cargo(title, &arguments)
    })
}

/// Libraries that programs use; not examples, tests and measurements.
fn is_depended_on(name: &str) -> bool {
    name.starts_with("profiler-") || name.ends_with("-plugin")
}

fn metadata() -> Result<String, String> {
    let arguments = ["metadata", "--no-deps", "--offline", "--format-version", "1"];
    let said = cargo().args(arguments).output();
    let said = said.map_err(|error| format!("cannot run cargo: {error}"))?;
    if !said.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&said.stderr)));
    }
    String::from_utf8(said.stdout).map_err(|error| format!("cargo metadata: {error}"))
}

/// The packages of cargo's metadata: objects that begin with a name and a version, and have an object
/// `features` whose values are lists of texts.
fn packages(metadata: &str) -> Vec<Package> {
    let begin = "{\"name\":\"";
    let begins = metadata.match_indices(begin).filter_map(|(position, _)| {
        let (name, rest) = metadata[position + begin.len()..].split_once('"')?;
        let rest = rest.strip_prefix(",\"version\":")?;
        let (_, features) = rest.split_once("\"features\":{")?;
        Some(Package { name: name.to_owned(), features: keys(features) })
    });
    begins.collect()
}

/// The keys of an object whose values are lists of texts, from behind its brace.
fn keys(mut object: &str) -> Vec<String> {
    let mut keys = Vec::new();
    while let Some((key, rest)) =
        object.strip_prefix('"').and_then(|object| object.split_once("\":["))
    {
        keys.push(key.to_owned());
        let after = rest.split_once(']').map_or("", |(_, after)| after);
        object = after.strip_prefix(',').unwrap_or(after);
    }
    keys.retain(|key| key != "default");
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_read_as_cargo_writes_them() {
        let metadata = r#"{"packages":[{"name":"one","version":"0.1.0","id":"x","dependencies":[
            {"name":"libc","source":"r","req":"^1","features":["std"]}],"targets":[{"kind":["lib"],
            "name":"one"}],"features":{"arrow":["dep:a","dep:b"],"default":["arrow"],"flame":[]},
            "manifest_path":"m"},{"name":"two","version":"0.1.0","dependencies":[],"features":{},
            "edition":"2024"}],"version":1}"#;
        let features = vec!["arrow".to_owned(), "flame".to_owned()];
        assert_eq!(
            packages(metadata),
            [
                Package { name: "one".to_owned(), features },
                Package { name: "two".to_owned(), features: Vec::new() }
            ]
        );
    }

    #[test]
    fn every_feature_of_a_manifest_is_looked_at_and_none_twice() {
        let steps = steps(&Variables::new()).expect("cargo runs");
        let titles: Vec<_> = steps.iter().map(Step::title).collect();
        for (package, manifest) in [
            ("profiler-core", include_str!("../../profiler-core/Cargo.toml")),
            ("burn-plugin", include_str!("../../burn-plugin/Cargo.toml")),
        ] {
            let (_, features) = manifest.split_once("[features]\n").expect("it has some");
            let features = features.split("\n[").next().expect("a section");
            let named = features.lines().filter_map(|line| line.split_once(" = "));
            let mut count = 0;
            for (feature, _) in
                named.filter(|(name, _)| *name != "default" && !name.starts_with('#'))
            {
                let title = format!("{package} with {feature} alone");
                assert_eq!(titles.iter().filter(|known| **known == title).count(), 1, "{title}");
                count += 1;
            }
            assert!(count > 2, "{features}");
            assert!(titles.contains(&&*format!("{package} without features")), "{titles:?}");
        }
    }
}
