//! The guide: its links lead somewhere, and its reference pages list what the code has.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use super::{files, workspace};

/// Variables that parts of mlprof set for each other. No user sets them.
const INTERNAL: [&str; 8] = [
    "MLPROF_ALLOCATOR",
    "MLPROF_DECLARED",
    "MLPROF_LINES",
    "MLPROF_OPT_LEVEL",
    "MLPROF_PLAN",
    "MLPROF_RUN",
    "MLPROF_TCH_CONVOLUTION",
    "MLPROF_WANTED",
];

/// Features that no user turns on.
const OWN_FEATURES: [&str; 2] = ["default", "kineto-oracle"];

fn read(file: impl AsRef<Path>) -> String {
    let path = workspace().join(file.as_ref());
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Lines outside code blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// Targets of the links in a document, without those of the web.
fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in prose(text) {
        let outside_code: String = line.split('`').step_by(2).collect::<Vec<_>>().join("``");
        for part in outside_code.split("](").skip(1) {
            if let Some((target, _)) = part.split_once(')')
                && !target.contains("://")
                && !target.starts_with("mailto:")
            {
                found.push(target.to_owned());
            }
        }
    }
    found
}

/// Anchors that a reader's browser finds in a document, by GitHub's rules.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter_map(|line| line.strip_prefix('#'));
    let mut found = BTreeSet::new();
    for heading in headings {
        let heading = heading.trim_start_matches('#').trim();
        let kept = |letter: &char| letter.is_alphanumeric() || " -_".contains(*letter);
        let anchor: String = heading.to_lowercase().chars().filter(kept).collect();
        found.insert(anchor.replace(' ', "-"));
    }
    found
}

/// Removes `..` and `.` from a path.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(normal.pop()),
            Component::CurDir => {}
            other => normal.push(other),
        }
    }
    normal
}

#[test]
fn anchors_are_made_as_on_github() {
    let text = "# TensorBoard's and XProf's *capture*: `x_y`\n```\n# no heading\n```\n## A-b\n";
    let expected = ["a-b", "tensorboards-and-xprofs-capture-x_y"].map(str::to_owned);
    assert_eq!(anchors(text), BTreeSet::from(expected));
}

#[test]
fn links_of_documents_lead_somewhere() {
    let mut faults = Vec::new();
    let documents =
        files().into_iter().filter(|file| file.extension().is_some_and(|it| it == "md"));
    for document in documents {
        let folder = document.parent().unwrap_or(Path::new(""));
        for link in links(&read(&document)) {
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target =
                if file.is_empty() { document.clone() } else { normal(&folder.join(file)) };
            let fault = if !workspace().join(&target).exists() {
                "no such file"
            } else if !anchor.is_empty() && !anchors(&read(&target)).contains(anchor) {
                "no such heading"
            } else {
                continue;
            };
            faults.push(format!("{}: {link}: {fault}", document.display()));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_summary_lists_every_page() {
    let pages = Path::new("docs/src");
    let listed: BTreeSet<_> =
        links(&read(pages.join("SUMMARY.md"))).into_iter().map(|link| pages.join(link)).collect();
    let is_page = |file: &PathBuf| {
        file.starts_with(pages)
            && file.extension().is_some_and(|it| it == "md")
            && !file.ends_with("SUMMARY.md")
    };
    let there: BTreeSet<_> = files().into_iter().filter(is_page).collect();
    assert_eq!(listed, there);
}

/// Names in the text that begin with `MLPROF_`.
fn variables(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (place, _) in text.match_indices("MLPROF_") {
        let is_part = |letter: &char| letter.is_ascii_uppercase() || *letter == '_';
        found.insert(text[place..].chars().take_while(is_part).collect());
    }
    found
}

#[test]
fn the_guide_lists_every_environment_variable() {
    let libraries = ["mlprof", "profiler-core", "burn-plugin", "candle-plugin", "tch-plugin"];
    let is_product = |file: &PathBuf| {
        let mut parts = file.iter().filter_map(|part| part.to_str());
        let root = parts.next().unwrap_or_default();
        let inside = parts.next().unwrap_or_default();
        (libraries.contains(&root) || root.starts_with("mlprof-"))
            && (inside == "src" || inside == "build.rs")
            && file.extension().is_some_and(|it| it == "rs")
    };
    let mut used = BTreeSet::new();
    for file in files().into_iter().filter(is_product) {
        let text = read(&file);
        let literals = text.split('"').skip(1).step_by(2).filter(|it| it.starts_with("MLPROF_"));
        used.extend(literals.flat_map(variables));
    }
    used.retain(|name| !name.starts_with("MLPROF_TEST_") && !INTERNAL.contains(&name.as_str()));
    assert!(used.len() > 8, "{used:?}");
    assert_eq!(variables(&read("docs/src/reference/environment.md")), used);
}

/// Names of the features that a manifest declares, with those that are on by default.
fn features(manifest: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let table = manifest.split("[features]").nth(1).unwrap_or_default();
    let table = table.split("\n[").next().unwrap_or_default();
    let (mut all, mut default) = (BTreeSet::new(), BTreeSet::new());
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let Some((name, value)) = line.split_once(" = ") else { continue };
        if name == "default" {
            default.extend(value.split('"').skip(1).step_by(2).map(str::to_owned));
        }
        all.insert(name.to_owned());
    }
    all.retain(|name| !OWN_FEATURES.contains(&name.as_str()));
    (all, default)
}

#[test]
fn the_guide_lists_every_feature() {
    let page = read("docs/src/reference/features.md");
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.split('|').map(str::trim).collect())
        .collect();
    for (column, folder) in [(2, "burn-plugin"), (3, "candle-plugin"), (4, "tch-plugin")] {
        let listed = |wanted: &[&str]| -> BTreeSet<String> {
            let rows = rows.iter().filter(|row| wanted.contains(&row[column]));
            rows.map(|row| row[1].trim_matches('`').to_owned()).collect()
        };
        let (all, default) = features(&read(format!("{folder}/Cargo.toml")));
        assert_eq!(listed(&["default", "yes"]), all, "{folder}");
        assert_eq!(listed(&["default"]), default, "{folder}");
    }
}
