//! Dependencies between the workspace's crates, as cargo resolves their manifests.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

#[path = "../../src/metadata.rs"]
pub mod metadata;

/// Workspace dependencies of each crate, except dev-dependencies.
pub type Dependencies = BTreeMap<String, BTreeSet<String>>;

/// Returns the dependencies of all crates in the workspace.
pub fn read() -> Dependencies {
    let packages = metadata::packages().expect("cargo knows them");
    let of_package = |package| (metadata::name(package).to_owned(), own_dependencies(package));
    packages.iter().map(of_package).collect()
}

/// Returns the dependencies with a path from all dependency tables, except dev-dependencies.
fn own_dependencies(package: &Value) -> BTreeSet<String> {
    let all = package["dependencies"].as_array().into_iter().flatten();
    let own = all.filter(|one| one["path"].is_string() && one["kind"] != "dev");
    own.map(|one| metadata::name(one).to_owned()).collect()
}

/// Returns all direct and transitive dependencies of a crate.
pub fn reached<'a>(dependencies: &'a Dependencies, from: &'a str) -> BTreeSet<&'a str> {
    let (mut reached, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(name) = next.pop() {
        let of = dependencies.get(name).into_iter().flatten();
        next.extend(of.map(String::as_str).filter(|name| reached.insert(*name)));
    }
    reached
}

#[test]
fn tables_of_tests_are_told_apart() {
    let dependency = |name: &str, kind: Value, path: Value| serde_json::json!({ "name": name, "kind": kind, "path": path });
    let package = serde_json::json!({ "dependencies": [
        dependency("b", Value::Null, "/b".into()),
        dependency("of-others", Value::Null, Value::Null),
        dependency("e", "dev".into(), "/e".into()),
        dependency("g", "build".into(), "/g".into()),
    ]});
    assert_eq!(own_dependencies(&package), BTreeSet::from(["b", "g"].map(str::to_owned)));
    // The entries are normal dependencies. Dev-dependencies of the core are not included.
    let read = read();
    assert!(read["mlprof"].contains("mlprof-events"));
    assert!(!read["mlprof"].contains("mlprof-core"), "for its tests only");
}

/// Checks that the plugin's two manifests, for two versions of burn, agree.
#[test]
fn both_manifests_of_burns_plugin_say_the_same() {
    let read = |folder: &str, package: &str| {
        let packages = metadata::packages_at(&crate::workspace().join(folder));
        let mut packages = packages.expect("cargo knows them").into_iter();
        packages.find(|one| metadata::name(one) == package).expect("it is there")
    };
    let plugin = Summary::of(&read("burn-plugin", "mlprof-burn"));
    let mut next = Summary::of(&read("burn-plugin/next", "mlprof-burn-next"));
    for feature in ["cubecl", "cuda"] {
        let needs = plugin.features[feature].clone();
        assert_eq!(next.features.insert(feature.to_owned(), needs), None, "{feature}");
    }
    for package in ["burn-fusion", "mlprof-cuda"] {
        let dependency = plugin.dependencies.iter().find(|one| one[0] == package);
        assert!(next.dependencies.insert(dependency.expect("it is there").clone()), "{package}");
    }
    assert_eq!(next, plugin);
}

/// Features, dependencies and tests of a manifest, without versions and paths.
#[derive(Debug, PartialEq)]
struct Summary {
    features: BTreeMap<String, Value>,
    /// Name, table, features and `optional` flag of each dependency. All except the name are JSON.
    dependencies: BTreeSet<[String; 4]>,
    tests: BTreeMap<String, Value>,
}

impl Summary {
    fn of(package: &Value) -> Self {
        let dependency = |one: &Value| {
            let kind = format!("{}{}", one["kind"], one["target"]);
            let mut features: Vec<_> = one["features"].as_array().into_iter().flatten().collect();
            features.sort_by_key(|feature| feature.to_string());
            let features = format!("{features:?}, default: {}", one["uses_default_features"]);
            [metadata::name(one).to_owned(), kind, features, one["optional"].to_string()]
        };
        let features = package["features"].as_object().into_iter().flatten();
        let targets = package["targets"].as_array().into_iter().flatten();
        let tests = targets.filter(|target| target["kind"] == serde_json::json!(["test"]));
        Self {
            features: features.map(|(name, needs)| (name.clone(), needs.clone())).collect(),
            dependencies: package["dependencies"]
                .as_array()
                .into_iter()
                .flatten()
                .map(dependency)
                .collect(),
            tests: tests
                .map(|test| (metadata::name(test).to_owned(), test["required-features"].clone()))
                .collect(),
        }
    }
}
