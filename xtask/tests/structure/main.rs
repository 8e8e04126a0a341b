//! Imports go one way: no circle among the files of a crate, nor among its rooms.
//!
//! Which crate may depend on which is a table here. Inside of one this reads all files, and follows every path that
//! they name, through re-exports, to the file that it leads to. A file and what lies in its own folder may
//! name each other; everything else has an order.

mod crates;
mod graph;
mod modules;

use std::path::{Path, PathBuf};

use graph::{Imports, circles, room_circles};
use modules::Crate;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a folder in the workspace").to_owned()
}

/// The libraries and programs of the workspace, by the folders of their sources.
fn sources() -> Vec<PathBuf> {
    let folders = |folder: PathBuf| std::fs::read_dir(folder).expect("a folder").flatten();
    let root = workspace();
    let all = folders(root.clone()).chain(folders(root.join("examples")));
    let sources = all.map(|entry| entry.path().join("src"));
    sources.filter(|source| root_file(source).is_some()).collect()
}

fn root_file(source: &Path) -> Option<PathBuf> {
    ["lib.rs", "main.rs"].map(|name| source.join(name)).into_iter().find(|file| file.exists())
}

#[test]
fn no_crate_has_a_circle() {
    let sources = sources();
    assert!(sources.len() > 10, "the crates of the workspace: {sources:?}");
    let mut found = Vec::new();
    for source in sources {
        let root = root_file(&source).expect("seen above");
        let imports = Crate::read(&root).imports();
        let circles = circles(&imports).into_iter().chain(room_circles(&imports));
        found.extend(circles.map(|circle| format!("{}: {circle}", source.display())));
    }
    assert!(found.is_empty(), "these import each other:\n{}", found.join("\n"));
}

/// What each library and the command may be built with of ours. Whoever adds to it makes more be compiled
/// when that changes.
const EDGES: [(&str, &[&str]); 12] = [
    ("profiler-events", &[]),
    ("profiler-macros", &[]),
    ("profiler-report", &["profiler-events"]),
    ("profiler-sampler", &["profiler-events", "profiler-report"]),
    (
        "profiler-core",
        &["profiler-events", "profiler-macros", "profiler-report", "profiler-sampler"],
    ),
    ("profiler-train", &["profiler-core"]),
    ("profiler-cuda", &["profiler-core", "profiler-events"]),
    ("profiler-runtime", &["profiler-core"]),
    ("profiler-cli", &["profiler-events", "profiler-report"]),
    ("burn-plugin", &["profiler-core", "profiler-cuda"]),
    ("candle-plugin", &["profiler-core", "profiler-cuda", "profiler-train"]),
    ("tch-plugin", &["profiler-core", "profiler-cuda", "profiler-train"]),
];

#[test]
fn crates_depend_on_those_that_they_may() {
    let dependencies = crates::read(&workspace());
    let is_library = |name: &&String| name.starts_with("profiler-") || name.ends_with("-plugin");
    let libraries: Vec<_> = dependencies.keys().filter(is_library).collect();
    assert_eq!(libraries.len(), EDGES.len(), "not all are in the table: {libraries:?}");
    for (name, may) in EDGES {
        let of: Vec<_> = dependencies.get(name).into_iter().flatten().collect();
        assert_eq!(of, may, "what {name} depends on of ours");
    }
}

#[test]
fn the_command_is_built_without_a_recorder() {
    let dependencies = crates::read(&workspace());
    assert!(!crates::reached(&dependencies, "profiler-cli").contains("profiler-core"));
    // What a change of the devices or of the loop does not compile again.
    let core = crates::reached(&dependencies, "profiler-core");
    assert!(core.contains("profiler-events"));
    assert!(!core.contains("profiler-cuda") && !core.contains("profiler-train"), "{core:?}");
}

#[test]
fn every_crate_is_read_whole() {
    let imports = |name: &str| Crate::read(&workspace().join(name).join("src/lib.rs")).imports();
    let has = |of: &Imports, from: &str, to: &str| of.contains(&(from.to_owned(), to.to_owned()));
    let core = imports("profiler-core");
    // Through a re-export of a module, and of the root.
    assert!(has(&core, "hook", "active") && has(&core, "hook/op", "active"), "{core:?}");
    assert!(has(&core, "select", "nvtx") && has(&core, "select", "profiler"), "{core:?}");
    assert!(core.len() > 300, "{}", core.len());
    let report = imports("profiler-report");
    assert!(
        has(&report, "pstats", "label") && has(&report, "output", "output/claim"),
        "{report:?}"
    );
    assert!(report.len() > 80, "{}", report.len());
}

#[test]
fn circles_of_files_and_of_rooms_are_found() {
    let imports = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(from, to)| ((*from).to_owned(), (*to).to_owned())).collect()
    };
    let parent_and_child = imports(&[("a", "a/b"), ("a/b", "a"), ("c", "a")]);
    assert!(circles(&parent_and_child).is_empty() && room_circles(&parent_and_child).is_empty());
    let files = imports(&[("a", "b"), ("b", "c"), ("c", "a"), ("d", "a")]);
    assert_eq!(circles(&files), ["a, b, c"]);
    let rooms = imports(&[("a/x", "b"), ("b", "a/y")]);
    assert!(circles(&rooms).is_empty());
    assert_eq!(room_circles(&rooms), ["a, b"]);
    let inner = imports(&[("r/a/x", "r/b/x"), ("r/b/y", "r/a/y")]);
    assert_eq!(room_circles(&inner), ["r/a, r/b"]);
}
