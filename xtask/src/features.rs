//! Whether the packages that people depend on compile without any feature, and with each one alone. Which
//! features there are is what cargo says, so that a new one is among them by itself.

use serde_json::Value;

use crate::libtorch::Variables;
use crate::metadata;
use crate::steps::Step;

/// A step for each package and each of its features, and one for none of them. A package without features
/// is looked at by the lints.
///
/// Warnings are errors, as they are there: what only one feature uses is not used without it.
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
        let feature =
            feature.map(|feature| format!("--features {name}/{feature} ")).unwrap_or_default();
        // As the lints have looked at what it stands on.
        let arguments = format!(
            "clippy -p {name} -p feature-unification --lib --no-deps --no-default-features \
             {feature}-- -D warnings"
        );
        Step::cargo(title, &arguments)
    })
}

/// Libraries that programs use; not examples, tests and measurements.
fn is_depended_on(name: &str) -> bool {
    name.starts_with("mlprof")
}

/// All but the default ones.
fn features(package: &Value) -> Vec<&str> {
    let names = package["features"].as_object().into_iter().flat_map(|features| features.keys());
    names.map(String::as_str).filter(|name| *name != "default").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_feature_of_a_manifest_is_looked_at_and_none_twice() {
        let steps = steps(&Variables::new()).expect("cargo runs");
        let titles: Vec<_> = steps.iter().map(Step::title).collect();
        for (package, manifest) in [
            ("mlprof-core", include_str!("../../profiler-core/Cargo.toml")),
            ("mlprof-burn", include_str!("../../burn-plugin/Cargo.toml")),
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
