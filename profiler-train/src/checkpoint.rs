//! Checkpoints: whole or not at all.

use super::error::TrainError;
use super::module::TrainModule;
use super::run::Run;
use profiler_core::ProfilerExt;
use profiler_core::output::write_whole_at;

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
        write_whole_at(&path, |temporary| self.module.save_checkpoint(temporary))
            .map_err(|source| TrainError::Checkpoint { path, source })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::error::Result;

    #[test]
    fn a_failed_checkpoint_leaves_the_earlier_one() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let save = |text: &'static str, fail: bool| {
            write_whole_at(&directory.path().join("epoch=0.txt"), |path| -> Result<()> {
                assert_eq!(path.extension(), Some("txt".as_ref()), "by which formats are told");
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
