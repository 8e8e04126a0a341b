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
    assert!(read["profiler-cli"].contains("profiler-events"));
    assert!(!read["profiler-cli"].contains("profiler-core"), "for its tests only");
}
