//! Checks that the published packages compile without features and with each feature alone. The
//! features are read from cargo, so that new ones are included automatically.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::folder::files_below;
use crate::libtorch::Variables;
use crate::metadata;
use crate::steps::Step;

/// Returns a step for each package without features, and one for each of its features. Packages
/// that have no features are covered by the lints.
///
/// Warnings are errors, as in the lints. They detect code that is unused without a certain feature.
pub fn steps(libtorch: &Variables) -> Result<Vec<Step>, String> {
    let packages = metadata::packages()?;
    let packages = packages.iter().filter(|package| is_depended_on(metadata::name(package)));
    Ok(packages.flat_map(steps_of).map(|step| step.variables(libtorch)).collect())
}

fn steps_of(package: &Value) -> impl Iterator<Item = Step> {
    let name = metadata::name(package);
    let features = features(package);
    let all_off = (!features.is_empty()).then_some(None);
    all_off.into_iter().chain(features.into_iter().map(Some)).map(move |feature| {
        let title = feature.map_or_else(
            || format!("{name} without features"),
            |feature| format!("{name} with {feature} alone"),
        );
        let selection = selection(name, feature);
        Step::cargo(title, &format!("clippy {selection} --lib --no-deps -- -D warnings"))
    })
}

/// Returns cargo's arguments for a package with one feature or none. Third-party crates have the
/// same features as in the lints.
///
/// The feature is passed without the prefix `{name}/`. `feature-unification` has optional
/// dependencies with the same names, and the prefix would enable them with their own features.
fn selection(name: &str, feature: Option<&str>) -> String {
    let feature = feature.map(|feature| format!(" --features {feature}")).unwrap_or_default();
    format!("-p {name} -p feature-unification --no-default-features{feature}")
}

/// Returns `true` for a library that programs depend on. Examples, tests and benchmarks are
/// excluded.
fn is_depended_on(name: &str) -> bool {
    name.starts_with("mlprof")
}

/// Returns the features that change a package's own code or dependencies. A feature that only
/// enables a feature of another mlprof package is checked in that package.
fn features(package: &Value) -> Vec<&str> {
    let features = package["features"].as_object().into_iter().flatten();
    let mut features: Vec<_> = features.filter(|(name, _)| *name != "default").collect();
    let is_only_handed_on = |(name, parts): &(&String, &Value)| {
        let mut parts = parts.as_array().into_iter().flatten().filter_map(Value::as_str);
        let is_ours = |part: &str| {
            let of_other = part.split_once('/').is_some_and(|(of, _)| of.starts_with("mlprof"));
            of_other || package["features"].get(part).is_some()
        };
        parts.all(is_ours) && !is_named_in_code(package, name)
    };
    features.retain(|feature| !is_only_handed_on(feature));
    features.into_iter().map(|(name, _)| name.as_str()).collect()
}

/// Returns `true` if a package's sources contain `cfg(feature = "…")` with this feature.
fn is_named_in_code(package: &Value, feature: &str) -> bool {
    let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
    let sources = manifest.with_file_name("src");
    let named = format!("feature = \"{feature}\"");
    let files = files_below(&sources).unwrap_or_default();
    let names_it =
        |file| fs::read_to_string(sources.join(file)).is_ok_and(|it| it.contains(&named));
    files.iter().any(names_it)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn titles() -> Vec<String> {
        let steps = steps(&Variables::new()).expect("cargo runs");
        steps.iter().map(|step| step.title().to_owned()).collect()
    }

    #[test]
    fn every_feature_that_code_names_is_looked_at_and_none_twice() {
        let titles = titles();
        for (package, features) in [
            (
                "mlprof-core",
                &["findings", "flame", "html", "parquet", "trace-formats", "tracing"][..],
            ),
            (
                "mlprof-burn",
                &["autodiff", "cubecl", "cuda", "flex", "live", "rl", "tracing", "train"],
            ),
            ("mlprof-report", &["arrow", "comparison", "findings", "flame", "html", "read"]),
        ] {
            for feature in features {
                let title = format!("{package} with {feature} alone");
                assert_eq!(titles.iter().filter(|known| **known == title).count(), 1, "{title}");
            }
            assert!(titles.contains(&format!("{package} without features")), "{titles:?}");
        }
    }

    #[test]
    fn a_feature_alone_brings_no_other() {
        let crates = |package, feature| {
            let selection = selection(package, feature);
            let mut cargo = crate::steps::cargo();
            cargo.args(["tree", "--edges", "normal", "--prefix", "none"]);
            let output = cargo.args(selection.split(' ')).output().expect("cargo runs");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        for (package, feature, its_crate, of_another) in [
            ("mlprof-core", Some("tensor"), "mlprof-trace v", "mlprof-sampler v"),
            ("mlprof-core", Some("sampling"), "mlprof-sampler v", "mlprof-trace v"),
            ("mlprof-core", None, "mlprof-report v", "mlprof-trace v"),
            ("mlprof-report", Some("arrow"), "arrow-array v", "inferno v"),
        ] {
            let crates = crates(package, feature);
            assert!(crates.contains(its_crate), "{package} with {feature:?}: {crates}");
            assert!(!crates.contains(of_another), "{package} with {feature:?}: {crates}");
        }
    }

    #[test]
    fn a_feature_that_is_only_handed_on_is_not_looked_at() {
        let titles = titles();
        for title in ["mlprof-tch with html alone", "mlprof-burn with otlp alone"] {
            assert!(titles.iter().all(|known| known != title), "{title}");
        }
        // The feature adds a dependency, although no code refers to the feature.
        let package = serde_json::json!({
            "manifest_path": "/nowhere/Cargo.toml",
            "features": {
                "default": ["read"],
                "read": ["mlprof-core/read"],
                "both": ["read", "mlprof-core/html"],
                "other": ["dep:other"],
                "theirs": ["other-crate/feature"],
            },
        });
        assert_eq!(features(&package), ["other", "theirs"]);
    }
}
