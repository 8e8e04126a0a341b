//! Checks that the files and folders named in documents exist.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// File extensions by which a text in backticks is recognised as a file.
const ENDINGS: [&str; 8] = ["rs", "toml", "md", "py", "cpp", "h", "yml", "sh"];

/// Returns the files and folders that a document names but that do not exist, each with its line
/// number.
///
/// A line that begins with ``In `folder` `` sets the folder for the following lines, up to the next
/// such line or heading. Names in these lines refer to that folder. Elsewhere, a name may refer to
/// any place in the workspace.
pub fn missing(text: &str, files: &[PathBuf]) -> Vec<String> {
    let known = Known::of(files);
    let mut folder = PathBuf::new();
    let mut missing = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.starts_with('#') {
            folder = PathBuf::new();
        }
        let mut named = quoted(line).filter(|name| is_path(name)).peekable();
        if line.starts_with("In `") {
            folder = named.peek().map(PathBuf::from).unwrap_or_default();
        }
        for name in named {
            if !known.has(&folder, name) && Path::new(name) != folder {
                missing.push(format!("line {number}: {name}"));
            }
        }
    }
    missing
}

/// All files of the workspace and all their parent folders.
struct Known(BTreeSet<PathBuf>);

impl Known {
    fn of(files: &[PathBuf]) -> Self {
        let with_folders = files.iter().flat_map(|file| file.ancestors());
        Self(with_folders.map(Path::to_owned).collect())
    }

    fn has(&self, folder: &Path, name: &str) -> bool {
        let is_folder = name.ends_with('/');
        let mut inside =
            self.0.iter().filter_map(|path| Some((path, path.strip_prefix(folder).ok()?)));
        inside.any(|(path, inside)| {
            inside.ends_with(name.trim_end_matches('/'))
                && (!is_folder || path.extension().is_none())
        })
    }
}

/// Returns the texts between backticks.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// Returns `true` if a text in backticks is a file or folder of the workspace.
fn is_path(quoted: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-./".contains(letter);
    let ending = quoted.rsplit_once('.').filter(|(stem, _)| !stem.is_empty());
    let is_file = ending.is_some_and(|(_, ending)| ENDINGS.contains(&ending));
    let is_inside = !quoted.starts_with(['/', '-', '.']) && !quoted.contains("//");
    is_inside && quoted.chars().all(is_plain) && (is_file || quoted.contains('/'))
}

#[test]
fn missing_files_are_found() {
    let files = ["core/src/report/mod.rs", "core/src/lib.rs", "README.md"].map(PathBuf::from);
    let text = "\
In `core/src`, `report/` is there, `trace/` is not.

- `lib.rs` and `README.md` (which is not in there)

## Another

`README.md`, `core/src/lib.rs`, `src/lib.rs`; `--flag`, `target/…`, `.prof`, `a::b`, `x.rs`
";
    assert_eq!(
        missing(text, &files),
        ["line 1: trace/", "line 3: README.md", "line 7: x.rs"].map(str::to_owned)
    );
}
