//! Which of the workspace's crates depend on which, as their manifests say.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A crate's own ones among those that it depends on, but for those of its tests.
pub type Dependencies = BTreeMap<String, BTreeSet<String>>;

/// Reads the manifests of all folders of the workspace.
pub fn read(workspace: &Path) -> Dependencies {
    let folders = fs::read_dir(workspace).expect("a folder").flatten();
    let manifests = folders.map(|entry| (entry.file_name(), entry.path().join("Cargo.toml")));
    let manifests: BTreeMap<String, String> = manifests
        .filter_map(|(name, path)| {
            Some((name.to_str()?.to_owned(), fs::read_to_string(path).ok()?))
        })
        .collect();
    let own: BTreeSet<&str> = manifests.keys().map(String::as_str).collect();
    let of = |manifest: &str| {
        dependencies_of(manifest).filter(|name| own.contains(name)).map(str::to_owned).collect()
    };
    manifests.iter().map(|(name, manifest)| (name.clone(), of(manifest))).collect()
}

/// The names in all tables of dependencies but those of tests.
fn dependencies_of(manifest: &str) -> impl Iterator<Item = &str> {
    let mut is_among_them = false;
    manifest.lines().filter_map(move |line| {
        if let Some(table) = line.strip_prefix('[') {
            let table = table.trim_end().trim_end_matches(']');
            is_among_them = table == "dependencies"
                || table == "build-dependencies"
                || table.ends_with(".dependencies");
            return None;
        }
        let name = line.split(['.', ' ', '=']).next().filter(|name| !name.is_empty());
        name.filter(|name| is_among_them && !name.starts_with('#'))
    })
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
    let manifest = "[package]\nname = \"a\"\n[dependencies]\n# b\nb.workspace = true\n\
                    c = { path = \"c\" }\n\n[target.'cfg(unix)'.dependencies]\nd = \"1\"\n\
                    [dev-dependencies]\ne = \"1\"\n[target.'cfg(unix)'.dev-dependencies]\n\
                    f = \"1\"\n[build-dependencies]\ng = \"1\"\n";
    assert_eq!(dependencies_of(manifest).collect::<Vec<_>>(), ["b", "c", "d", "g"]);
}
