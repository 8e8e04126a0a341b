//! Which of the workspace's crates depend on which, as cargo understands their manifests.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

#[path = "../../src/metadata.rs"]
pub mod metadata;

/// A crate's own ones among those that it depends on, but for those of its tests.
pub type Dependencies = BTreeMap<String, BTreeSet<String>>;

/// Those of all crates of the workspace.
pub fn read() -> Dependencies {
    let packages = metadata::packages().expect("cargo knows them");
    let of_package = |package| (metadata::name(package).to_owned(), own_dependencies(package));
    packages.iter().map(of_package).collect()
}

/// Those that have a path, in all tables of dependencies but those of tests.
fn own_dependencies(package: &Value) -> BTreeSet<String> {
    let all = package["dependencies"].as_array().into_iter().flatten();
    let own = all.filter(|one| one["path"].is_string() && one["kind"] != "dev");
    own.map(|one| metadata::name(one).to_owned()).collect()
}

/// All that a crate is built with, directly or not.
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
    // As cargo writes it: what the core is tested with is in no list of what it is built with.
    let read = read();
    assert!(read["mlprof"].contains("mlprof-events"));
    assert!(!read["mlprof"].contains("mlprof-core"), "for its tests only");
}

/// The plugin has two manifests, for two versions of burn.
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

/// What a manifest says of features, dependencies and tests, but for versions and paths.
#[derive(Debug, PartialEq)]
struct Summary {
    features: BTreeMap<String, Value>,
    /// Name, table, features, and whether it is optional, each as JSON but for the name.
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
