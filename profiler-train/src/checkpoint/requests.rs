//! Checkpoints that hooks ask for.

use std::path::{Path, PathBuf};

use crate::state::TrainerState;

/// What hooks have asked for since the last time that the trainer did it.
#[derive(Default)]
pub(crate) struct Requests {
    /// How the names of checkpoint files end.
    pub(crate) extension: &'static str,
    /// The trainer's own directory for checkpoints.
    pub(crate) directory: Option<PathBuf>,
    pub(super) queue: Vec<Request>,
}

/// In the order in which they are done.
#[derive(Clone)]
pub(super) enum Request {
    Save(PathBuf),
    Remove(PathBuf),
}

impl TrainerState {
    /// The directory that the trainer was given for checkpoints.
    pub fn checkpoint_dir(&self) -> Option<&Path> {
        self.requests.directory.as_deref()
    }

    /// Has the trainer save a checkpoint as `{directory}/{stem}.{extension}` when the hooks of this
    /// moment have run, and returns that path. A file that is there already stays: the new one is
    /// then `{stem}-v1`, `-v2` and so on.
    ///
    /// Checkpoints are saved inside a fit and on rank 0; elsewhere nothing is done.
    pub fn save_checkpoint(&mut self, directory: &Path, stem: &str) -> PathBuf {
        let queue = &self.requests.queue;
        let is_taken = |path: &Path| {
            path.symlink_metadata().is_ok()
                || queue.iter().any(|it| matches!(it, Request::Save(queued) if queued == path))
        };
        let path = free_path(directory, stem, self.requests.extension, is_taken);
        self.requests.queue.push(Request::Save(path.clone()));
        path
    }

    /// Has the trainer save a checkpoint at `path`, in place of an earlier one, when the hooks of
    /// this moment have run.
    pub fn replace_checkpoint(&mut self, path: &Path) {
        self.requests.queue.push(Request::Save(path.to_owned()));
    }

    /// Has the trainer remove a checkpoint file, after it has saved those that were asked for
    /// before. A file that is gone is not an error.
    pub fn remove_checkpoint(&mut self, path: &Path) {
        self.requests.queue.push(Request::Remove(path.to_owned()));
    }
}

/// `{stem}.{extension}`, or the first `{stem}-v{number}.{extension}` that is not taken.
fn free_path(
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
