//! Paths of the report files.

use std::path::PathBuf;

use super::Output;
use super::name::{self, Part};
use mlprof_events::environment::Environment;
use mlprof_events::{RunContext, Stage};

/// Makes file names unique. Profilers with the same directory and file name get an additional word
/// in their names.
pub fn tell_apart<'all>(outputs: impl IntoIterator<Item = &'all Output>) {
    let outputs: Vec<&Output> = outputs.into_iter().collect();
    let destination = |output: &Output| {
        let environment = output.environment();
        (output.directory_by(environment), output.filename_by(environment))
    };
    for (index, output) in outputs.iter().enumerate() {
        let is_same = |other: &&Output| destination(other) == destination(output);
        if outputs.iter().filter(|other| is_same(other)).count() == 1 {
            continue;
        }
        let kind = output.kind.unwrap_or("profiler");
        let before = &outputs[..index];
        let number = before.iter().filter(|other| is_same(other) && other.kind == output.kind);
        let word = match number.count() {
            0 => kind.to_owned(),
            earlier => format!("{kind}-{}", earlier + 1),
        };
        output.state().word = Some(word);
    }
}

impl Output {
    /// Returns the path of a file for a part of a stage: `{stage}-{filename}[-{rank}].{ending}`.
    /// The file is in the directory of this output, or else in the trainer's directory. Returns
    /// `None` if there is no directory.
    #[doc(hidden)]
    pub fn part_path(
        &self,
        stage: Option<Stage>,
        run: &RunContext,
        ending: &str,
    ) -> Option<PathBuf> {
        let name = self.with_parts(stage, run, None, |parts| name::file_name(parts, 1, ending));
        Some(self.directory()?.join(name))
    }

    /// Returns the path of this output's file with the given extension, if it has a directory.
    #[doc(hidden)]
    pub fn own_path(&self, extension: &str) -> Option<PathBuf> {
        Some(self.directory()?.join(self.own_file_name(None, extension)))
    }

    /// Returns the path of the report's file, if it goes to a file.
    pub(super) fn report_path(&self) -> Option<PathBuf> {
        self.filename_by(self.state().environment)?;
        let directory = self.directory()?;
        let (stage, run) = (self.stage(), self.run());
        let name = self.with_parts(stage, &run, None, |parts| name::file_name(parts, 1, "txt"));
        Some(directory.join(name))
    }

    pub(super) fn directory(&self) -> Option<PathBuf> {
        let environment = self.state().environment;
        self.directory_by(environment)
    }

    fn directory_by(&self, environment: Option<&Environment>) -> Option<PathBuf> {
        if let Some(said) = environment.and_then(|said| said.dirpath.clone()) {
            return Some(said);
        }
        let own = self.dirpath.as_ref().filter(|path| !path.as_os_str().is_empty());
        own.cloned().or_else(|| self.run().log_dir)
    }

    fn filename_by(&self, environment: Option<&Environment>) -> Option<String> {
        let said = environment.and_then(|said| said.filename.as_ref());
        said.or(self.filename.as_ref()).filter(|name| !name.is_empty()).cloned()
    }

    /// Passes the parts of a file name to `make` and returns its result.
    fn with_parts<T>(
        &self,
        stage: Option<Stage>,
        run: &RunContext,
        action: Option<&str>,
        make: impl FnOnce(&[Part<'_>]) -> T,
    ) -> T {
        let rank = (run.world_size > 1).then(|| run.rank.to_string());
        let (environment, word) = {
            let state = self.state();
            (state.environment, state.word.clone())
        };
        let filename = self.filename_by(environment);
        let parts = [
            stage.map(|stage| Part::Fixed(stage.as_str())),
            filename.as_deref().map(Part::Free),
            word.as_deref().map(Part::Fixed),
            rank.as_deref().map(Part::Fixed),
            action.map(Part::Free),
        ];
        let parts: Vec<_> = parts.into_iter().flatten().collect();
        make(&parts)
    }

    /// Returns a file name that no other action of this output uses.
    pub(super) fn own_file_name(&self, action: Option<&str>, extension: &str) -> String {
        let name = |copy: usize| {
            let (stage, run) = (self.stage(), self.run());
            self.with_parts(stage, &run, action, |parts| name::file_name(parts, copy, extension))
        };
        let mut is_free = |name: &String| {
            // File systems of macOS and Windows treat `A` and `a` as the same file.
            let folds_case = cfg!(any(windows, target_os = "macos"));
            let key = if folds_case { name.to_lowercase() } else { name.clone() };
            let owners = &mut self.state().owners;
            let owner = owners.entry(key).or_insert_with(|| action.map(str::to_owned));
            owner.as_deref() == action
        };
        // The loop always ends, because there are fewer actions than numbers.
        (1..).map(name).find(&mut is_free).unwrap_or_default()
    }
}
