//! Checks the structure of the workspace: directions of imports, file layout, and file names in
//! documents.
//!
//! Circular imports are not allowed between the files of a crate, nor between its folders. A table
//! in this file defines the allowed dependencies between crates. Inside a crate, the test reads all
//! files and resolves every path, including re-exports, to the file that defines the item. Only a
//! file and the files in its own folder may import each other.

mod crates;
mod documents;
mod errors;
mod extension_traits;
mod file_access;
mod graph;
mod guide;
mod layout;
mod modules;
mod profiler_trait;
mod purity;
mod untested;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use graph::{Imports, circles, room_circles};
use modules::Crate;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a folder in the workspace").to_owned()
}

/// Returns the source folders of the workspace's libraries and programs.
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

/// Returns the workspace's files as relative paths, without build output and generated files.
fn files() -> Vec<PathBuf> {
    let root = workspace();
    let (mut folders, mut files) = (vec![root.clone()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder").flatten() {
            let name = entry.file_name();
            let is_hidden = name.to_str().is_some_and(|name| name.starts_with('.'));
            let path = entry.path();
            let inside = path.strip_prefix(&root).expect("inside of it").to_owned();
            match entry.file_type().expect("its type").is_dir() {
                // Hidden folders, build output and other checkouts are skipped.
                true if is_hidden || name == "target" || path.join(".git").exists() => {}
                true => folders.push(path),
                false => files.push(inside),
            }
        }
    }
    files.sort();
    files
}

#[test]
fn modules_have_one_layout() {
    let files = files();
    // Compile-fail tests, and a crate with an unusual layout that serves as test data, are skipped.
    let is_ours = |file: &PathBuf| {
        !file.starts_with("mlprof-instrument/tests/splice/fixtures")
            && !file.ends_with("tests/ui.rs")
    };
    let files: Vec<_> = files.into_iter().filter(is_ours).collect();
    assert!(files.len() > 500, "{}", files.len());
    let found = layout::beside_their_folders(&files);
    assert!(found.is_empty(), "a folder with a mod.rs, please:\n{}", found.join("\n"));
    let both = ["a/b.rs", "a/b/c.rs", "a/d.rs", "a/d/data.txt"].map(PathBuf::from);
    assert_eq!(layout::beside_their_folders(&both), ["a/b.rs"]);
}

#[test]
fn reports_and_traces_read_no_clock_and_nothing_of_the_process() {
    let files: Vec<_> = files().into_iter().filter(|file| purity::is_pure(file)).collect();
    assert!(files.len() > 50, "{files:?}");
    for file in files {
        let text = std::fs::read_to_string(workspace().join(&file)).expect("a file");
        let looks = purity::looks(&text);
        assert!(looks.is_empty(), "{}:\n{}", file.display(), looks.join("\n"));
    }
}

#[test]
fn one_module_creates_and_reads_files() {
    let mut allowed: std::collections::BTreeSet<_> =
        file_access::ALLOWED.iter().map(|(file, call, _)| (*file, *call)).collect();
    let mut found = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    let files: Vec<_> = files().into_iter().filter(|file| file_access::is_product(file)).collect();
    assert!(files.len() > 300, "{}", files.len());
    for file in &files {
        let text = std::fs::read_to_string(workspace().join(file)).expect("a file");
        let name = file.to_str().expect("text");
        for (line, call) in file_access::calls(&text) {
            match allowed.contains(&(name, call)) {
                true => drop(seen.insert((name, call))),
                false => found.push(format!("{name}:{line}: {call}")),
            }
        }
    }
    let more = "use mlprof_events::files, or say in file_access.rs why not";
    assert!(found.is_empty(), "{more}:\n{}", found.join("\n"));
    allowed.retain(|entry| !seen.contains(entry));
    assert!(allowed.is_empty(), "file_access.rs allows what is not there: {allowed:?}");
}

/// Checks the errors of libraries. Errors of programs are not visible outside.
#[test]
fn public_errors_of_libraries_print_their_message_by_debug() {
    let is_of_a_library = |file: &PathBuf| {
        let is_source = file.components().nth(1).is_some_and(|folder| folder.as_os_str() == "src");
        let programs = ["mlprof", "xtask", "gpu-check", "mlprof-sql", "benches"];
        is_source
            && file.extension().is_some_and(|ending| ending == "rs")
            && !programs.iter().any(|program| file.starts_with(program))
    };
    let files: Vec<_> = files().into_iter().filter(is_of_a_library).collect();
    assert!(files.len() > 100, "{files:?}");
    for file in files {
        let text = std::fs::read_to_string(workspace().join(&file)).expect("a file");
        let found = errors::with_derived_debug(&text);
        assert!(found.is_empty(), "{}: use debug_as_display! for {found:?}", file.display());
    }
}

/// Checks that targets without a test build contain no tests, because these would never run.
#[test]
fn targets_without_a_test_build_have_no_tests() {
    let packages = crates::metadata::packages().expect("cargo knows them");
    let left_out = untested::files(&packages, &files(), &workspace());
    assert!(left_out.len() > 20, "{left_out:?}");
    let left_out: Vec<_> =
        left_out.into_iter().filter(|file| file.extension().is_some_and(|it| it == "rs")).collect();
    let has_tests = |file: &PathBuf| {
        let text = std::fs::read_to_string(workspace().join(file)).expect("a file");
        text.lines().any(|line| line.trim_start().starts_with("#[test]"))
    };
    let found: Vec<_> = left_out.into_iter().filter(has_tests).collect();
    assert!(found.is_empty(), "its manifest says `test = false`: {found:?}");
}

/// Allowed workspace dependencies of each library and of the command. Each additional dependency
/// causes more recompilation when it changes.
const EDGES: [(&str, &[&str]); 16] = [
    ("mlprof-events", &[]),
    ("mlprof-macros", &[]),
    ("mlprof-report", &["mlprof-events"]),
    ("mlprof-sampler", &["mlprof-events", "mlprof-report"]),
    ("mlprof-trace", &["mlprof-events", "mlprof-report"]),
    (
        "mlprof-core",
        &[
            // Needed for tables and other trace formats, with the features `parquet` and
            // `trace-formats`.
            "mlprof-analysis",
            "mlprof-events",
            "mlprof-macros",
            "mlprof-report",
            "mlprof-sampler",
            "mlprof-trace",
        ],
    ),
    // mlprof-events contains the module for file access, which checkpoints use.
    ("mlprof-train", &["mlprof-core", "mlprof-events"]),
    ("mlprof-cuda", &["mlprof-core", "mlprof-events"]),
    (
        "mlprof-live",
        // Needed for XProf traces, with the feature `capture`.
        &["mlprof-analysis", "mlprof-core", "mlprof-events", "mlprof-sampler", "mlprof-trace"],
    ),
    ("mlprof-runtime", &["mlprof-core", "mlprof-live"]),
    ("mlprof-analysis", &["mlprof-events", "mlprof-report"]),
    ("mlprof-instrument", &["mlprof-events"]),
    ("mlprof", &["mlprof-analysis", "mlprof-events", "mlprof-instrument", "mlprof-report"]),
    ("mlprof-burn", &["mlprof-core", "mlprof-cuda", "mlprof-live"]),
    ("mlprof-candle", &["mlprof-core", "mlprof-cuda", "mlprof-live", "mlprof-train"]),
    ("mlprof-tch", &["mlprof-core", "mlprof-cuda", "mlprof-live", "mlprof-train"]),
];

#[test]
fn crates_depend_on_those_that_they_may() {
    let dependencies = crates::read();
    let is_library = |name: &&String| name.starts_with("mlprof-") || *name == "mlprof";
    let libraries: Vec<_> = dependencies.keys().filter(is_library).collect();
    assert_eq!(libraries.len(), EDGES.len(), "not all are in the table: {libraries:?}");
    for (name, may) in EDGES {
        let of: Vec<_> = dependencies.get(name).into_iter().flatten().collect();
        assert_eq!(of, may, "what {name} depends on of ours");
    }
}

#[test]
fn documents_name_what_is_there() {
    let files = files();
    for document in ["ARCHITECTURE.md", "CONTRIBUTING.md"] {
        let text = std::fs::read_to_string(workspace().join(document)).expect("it is there");
        let missing = documents::missing(&text, &files);
        assert!(missing.is_empty(), "{document} names what is not there:\n{}", missing.join("\n"));
    }
}

/// Checks that the architecture document's table contains every crate.
#[test]
fn the_architecture_names_every_crate() {
    let text = std::fs::read_to_string(workspace().join("ARCHITECTURE.md")).expect("it is there");
    let manifests = files().into_iter().filter(|file| file.ends_with("Cargo.toml"));
    let folders = manifests.filter_map(|file| file.parent().map(Path::to_owned));
    // The workspace itself and test data are excluded.
    let is_member = |folder: &PathBuf| {
        folder.iter().next().is_some() && folder.iter().skip(1).all(|part| part != "tests")
    };
    for folder in folders.filter(is_member) {
        let name = folder.file_name().and_then(|name| name.to_str()).expect("text");
        assert!(text.contains(&format!("{name}/`")), "ARCHITECTURE.md says nothing of {name}");
    }
}

#[test]
fn the_command_is_built_without_a_recorder() {
    let dependencies = crates::read();
    assert!(!crates::reached(&dependencies, "mlprof").contains("mlprof-core"));
    // Changes of the devices or of the loop must not recompile the core.
    let core = crates::reached(&dependencies, "mlprof-core");
    assert!(core.contains("mlprof-events"));
    assert!(!core.contains("mlprof-cuda") && !core.contains("mlprof-train"), "{core:?}");
}

/// Returns the names and versions of all crates in a package's build, as cargo lists them.
fn crates_of(package: &str, features: &[&str]) -> BTreeSet<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let tree = std::process::Command::new(cargo)
        .args(["tree", "--locked", "--edges", "normal,build", "--prefix", "none"])
        .args(["--format", "{p}", "--package", package])
        .args(features)
        .current_dir(workspace())
        .output()
        .expect("cargo runs");
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let tree = String::from_utf8_lossy(&tree.stdout);
    let name = |line: &str| line.split(" (").next().unwrap_or(line).to_owned();
    tree.lines().filter(|line| !line.is_empty()).map(name).collect()
}

/// Checks that a plugin includes the sampler and the live server only with the corresponding
/// features.
#[test]
fn a_plugin_brings_what_samples_and_what_listens_only_with_their_features() {
    for plugin in ["mlprof-burn", "mlprof-candle", "mlprof-tch"] {
        let has = |features: &[&str], name: &str| {
            crates_of(plugin, features).iter().any(|it| it.starts_with(&format!("{name} v")))
        };
        for (feature, name) in
            [("sampling", "framehop"), ("sampling", "mlprof-sampler"), ("live", "mlprof-live")]
        {
            assert!(!has(&[], name), "{plugin}: {name}");
            assert!(has(&["--features", feature], name), "{plugin}: {name}");
        }
    }
}

/// Maximum number of crates that `mlprof-candle` adds to a program with candle-nn, with and without
/// its default features. A change that adds a crate must remove another one or justify the increase
/// in its commit message. `cargo xtask bench build` measures the build time.
const MOST_CRATES: [(&[&str], usize); 2] = [(&[], 14), (&["--no-default-features"], 11)];

#[test]
fn the_plugin_adds_no_more_crates_than_before() {
    let candle = crates_of("candle-nn", &[]);
    for (features, most) in MOST_CRATES {
        let plugin = crates_of("mlprof-candle", features);
        let added: Vec<_> = plugin.difference(&candle).collect();
        assert!(added.iter().any(|name| name.starts_with("mlprof-core v")), "{added:?}");
        assert!(added.len() <= most, "{} crates: {added:?}", added.len());
    }
}

#[test]
fn every_crate_is_read_whole() {
    let imports = |name: &str| Crate::read(&workspace().join(name).join("src/lib.rs")).imports();
    let has = |of: &Imports, from: &str, to: &str| of.contains(&(from.to_owned(), to.to_owned()));
    let core = imports("profiler-core");
    // These imports go through re-exports of a module and of the root.
    assert!(has(&core, "hook", "active") && has(&core, "hook/op", "active"), "{core:?}");
    assert!(has(&core, "profiler_names", "nvtx") && has(&core, "select", "profiler"), "{core:?}");
    assert!(core.len() > 300, "{}", core.len());
    let report = imports("mlprof-report");
    assert!(
        has(&report, "advanced/pstats", "label") && has(&report, "output", "output/name"),
        "{report:?}"
    );
    assert!(report.len() > 80, "{}", report.len());
}

/// Limits the size of the trait, because implementers must read all methods. Methods for mlprof's
/// own profilers belong to `Internals`, events to `Observation`, and convenience methods to
/// `ProfilerExt`.
#[test]
fn the_profiler_trait_has_at_most_twelve_methods() {
    let file = workspace().join("profiler-core/src/profiler/mod.rs");
    let methods = profiler_trait::methods(&std::fs::read_to_string(file).expect("a file"));
    assert!(methods.contains(&"start".to_owned()), "the trait is read: {methods:?}");
    assert!(methods.len() <= 12, "{} methods: {methods:?}", methods.len());
}

#[test]
fn extension_traits_are_sealed_and_end_in_ext() {
    let mut offences = Vec::new();
    for file in files().into_iter().filter(|file| file_access::is_product(file)) {
        let source = std::fs::read_to_string(workspace().join(&file)).expect("a file");
        let found = extension_traits::offences(&source);
        offences.extend(found.into_iter().map(|offence| format!("{}: {offence}", file.display())));
    }
    assert!(offences.is_empty(), "{}", offences.join("\n"));
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
