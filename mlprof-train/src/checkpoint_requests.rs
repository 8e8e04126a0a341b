//! Checkpoints that hooks ask for.

use std::path::{Path, PathBuf};

/// Requests of hooks that the trainer has not served yet.
#[derive(Default)]
pub(crate) struct Requests {
    /// Extension of checkpoint files.
    pub(crate) extension: &'static str,
    /// The trainer's own directory for checkpoints.
    pub(crate) directory: Option<PathBuf>,
    pub(crate) queue: Vec<Request>,
}

/// In the order in which they are done.
#[derive(Clone)]
pub(crate) enum Request {
    Save(PathBuf),
    Remove(PathBuf),
}

/// `{stem}.{extension}`, or the first `{stem}-v{number}.{extension}` that is not taken.
pub(crate) fn free_path(
    directory: &Path,
    stem: &str,
    extension: &str,
    is_taken: impl Fn(&Path) -> bool,
) -> PathBuf {
    let mut path = directory.join(format!("{stem}.{extension}"));
    let mut version = 0_u64;
    while is_taken(&path) {
        version += 1;
        path = directory.join(format!("{stem}-v{version}.{extension}"));
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_taken_gets_a_version() {
        let taken = ["a/last.txt", "a/last-v1.txt"].map(PathBuf::from);
        let is_taken = |path: &Path| taken.iter().any(|it| it == path);
        let free = |stem| free_path(Path::new("a"), stem, "txt", is_taken);
        assert_eq!(free("last"), Path::new("a/last-v2.txt"));
        assert_eq!(free("epoch=0"), Path::new("a/epoch=0.txt"));
    }
}
