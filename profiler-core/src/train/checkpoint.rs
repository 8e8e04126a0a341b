//! Checkpoints: whole or not at all.

use std::fs;
use std::path::Path;

use super::error::{BoxError, Result, TrainError};
use super::module::TrainModule;
use super::run::Run;
use crate::ProfilerExt;

impl<M: TrainModule> Run<'_, M> {
    /// Saves the module after an epoch, on rank 0, if there is a directory for it.
    pub(super) fn save_checkpoint(&mut self) -> Result<(), TrainError> {
        let Some(directory) = &self.settings.checkpoint_dir else { return Ok(()) };
        if self.state.run.rank != 0 {
            return Ok(());
        }
        let _scope = self.profiler.profile(self.actions.save_checkpoint);
        let name = format!(
            "epoch={}-step={}.{}",
            self.state.epoch,
            self.state.global_step,
            self.module.checkpoint_extension()
        );
        let path = directory.join(&name);
        write_whole(directory, &name, |temporary| self.module.save_checkpoint(temporary))
            .map_err(|source| TrainError::Checkpoint { path, source })
    }
}

/// Lets `write` fill a temporary file, and gives it its `name` when it is complete: a run that is
/// killed, or a full disk, leaves no half checkpoint under the name of a whole one.
fn write_whole(
    directory: &Path,
    name: &str,
    write: impl FnOnce(&Path) -> Result<()>,
) -> Result<(), BoxError> {
    fs::create_dir_all(directory)?;
    let temporary = directory.join(format!(".unfinished-{}-{name}", std::process::id()));
    let written = write(&temporary).and_then(|()| {
        // What the module did not report: files are often closed without a look at the outcome.
        fs::File::open(&temporary)?.sync_all()?;
        fs::rename(&temporary, directory.join(name))?;
        Ok(())
    });
    if written.is_err() {
        // Nothing more can be done about a file that cannot be removed either.
        let _ = fs::remove_file(&temporary);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_checkpoint_leaves_the_earlier_one() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let save = |text: &'static str, fail: bool| {
            write_whole(directory.path(), "epoch=0.txt", |path| {
                fs::write(path, text)?;
                if fail { Err("disk full".into()) } else { Ok(()) }
            })
        };
        save("first", false).expect("written");
        let error = save("half", true).expect_err("refused");
        assert_eq!(error.to_string(), "disk full");
        let names: Vec<_> = fs::read_dir(directory.path())
            .expect("directory")
            .map(|entry| entry.expect("entry").file_name())
            .collect();
        assert_eq!(names, ["epoch=0.txt"]);
        let text = fs::read_to_string(directory.path().join("epoch=0.txt")).expect("file");
        assert_eq!(text, "first");
    }
}
