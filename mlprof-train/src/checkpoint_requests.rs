//! Checkpoints that hooks request.

use std::path::{Path, PathBuf};

/// Requests of hooks that the trainer has not served yet.
#[derive(Default)]
pub(crate) struct Requests {
    /// Extension of checkpoint files.
    pub(crate) extension: &'static str,
    /// Trainer's own checkpoint directory.
    pub(crate) directory: Option<PathBuf>,
    pub(crate) queue: Vec<Request>,
}

/// Request to save or remove a checkpoint. The trainer serves requests in order.
#[derive(Clone)]
pub(crate) enum Request {
    Save(PathBuf),
    Remove(PathBuf),
}

/// Returns `{stem}.{extension}` in `directory`. If that path is taken, returns the first free
/// `{stem}-v{number}.{extension}`.
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
