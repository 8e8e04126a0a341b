//! Output of reports to the console, or to one file per stage, rank and action.
//!
//! The functions in this module do not fail or panic. If a file cannot be written, one warning
//! appears on standard error and the report is printed on the console.

mod console;
mod deduplicate;
mod delivery;
mod destination;
mod missing;
mod name;
#[cfg(feature = "read")]
mod ranks;
mod rendered;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use console::Console;
#[doc(hidden)]
pub use console::say;
#[doc(hidden)]
pub use deduplicate::deliver_together;
#[doc(hidden)]
pub use delivery::{deliver, deliver_value};
#[doc(hidden)]
pub use destination::tell_apart;
#[doc(hidden)]
pub use missing::tell_missing;
use mlprof_events::environment::{Environment, Switch};
use mlprof_events::files;
#[doc(hidden)]
pub use mlprof_events::files::{ClaimedName, TemporaryFolder, is_temporary, write_whole_at};
use mlprof_events::forking::{Mutex, MutexGuard};
use mlprof_events::{RunContext, Stage, Stages};
#[doc(hidden)]
pub use name::shortened;
#[doc(hidden)]
pub use rendered::RenderedReport;

/// Destination of one profiler's reports.
///
/// With a directory and a file name, reports are appended to
/// `{dirpath}/{stage}-{filename}[-{rank}].txt`. The rank appears only if the run has more than one
/// process. Without a file name, rank 0 prints the reports to standard output. Without its own
/// directory, the output uses the trainer's directory.
///
/// Characters that file systems reject become `_`. A name of more than 255 bytes is shortened. The
/// file name and the action are then truncated and end in a hash of the full text. Stage, rank and
/// extension are kept.
///
/// Before a trainer sets rank and world size, they come from the environment
/// ([`RunContext::from_environment`]). In stages, `MLPROF_DIRPATH` and `MLPROF_FILENAME` override
/// the directory and the file name.
#[derive(Debug, Default)]
pub struct Output {
    dirpath: Option<PathBuf>,
    filename: Option<String>,
    writes_json: bool,
    #[cfg(feature = "html")]
    writes_html: bool,
    always_prints: bool,
    prints_to_stderr: bool,
    /// Kind of the profiler in one word.
    kind: Option<&'static str>,
    ignores_environment: bool,
    #[cfg(feature = "findings")]
    omits_findings: bool,
    omits_verdict: bool,
    /// Shows all rows on the console.
    prints_all_rows: bool,
    /// Time to wait for other ranks, if it was set.
    patience: Option<std::time::Duration>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    running: Stages<Stage>,
    /// Stage of the last report, for reports that follow after its end.
    reported: Option<Stage>,
    /// Suppresses printing of reports that are written to a file.
    is_silent: bool,
    run: Option<RunContext>,
    /// Environment variables that override the directory and file name. Set when the first stage
    /// begins.
    environment: Option<&'static Environment>,
    /// Word in the file names that distinguishes them from those of another profiler.
    word: Option<String>,
    has_warned: bool,
    /// Notes to add to the report's own notes.
    notes: Vec<String>,
    /// Action that owns each file name of [`Output::write_file`].
    owners: HashMap<String, Option<String>>,
}

impl State {
    fn running_with_report(&self) -> Option<Stage> {
        self.running.reported().map(|position| self.running[position])
    }
}

impl Output {
    /// Creates an output that prints to the console.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the kind of the profiler in one word. See [`MultiProfiler`](crate::MultiProfiler).
    #[doc(hidden)]
    #[must_use]
    pub fn of_kind(mut self, kind: &'static str) -> Self {
        self.kind = Some(kind);
        self
    }

    /// Returns the kind of the profiler, if it was set.
    #[doc(hidden)]
    pub fn kind(&self) -> Option<&'static str> {
        self.kind
    }

    /// Ignores environment variables for the destination of files. Used for the files of `mlprof
    /// run`.
    #[doc(hidden)]
    #[must_use]
    pub fn ignore_environment(mut self) -> Self {
        self.ignores_environment = true;
        self
    }

    /// Returns the environment's settings, unless this output ignores them.
    #[doc(hidden)]
    pub fn environment(&self) -> Option<&'static Environment> {
        (!self.ignores_environment).then(Environment::get)
    }

    /// Sets the directory of report files. It is created when the first report is written.
    #[must_use]
    pub fn dirpath(mut self, dirpath: impl Into<PathBuf>) -> Self {
        self.dirpath = Some(dirpath.into());
        self
    }

    /// Sets the file name between stage and rank.
    #[must_use]
    pub fn filename(mut self, filename: impl Into<String>) -> Self {
        self.filename = Some(filename.into());
        self
    }

    /// Enables or disables JSON files. If enabled, every report is also written to
    /// `{stage}-{filename}[-{rank}].json` in the same directory.
    #[must_use]
    pub fn json(mut self, writes: bool) -> Self {
        self.writes_json = writes;
        self
    }

    /// Enables or disables an HTML page for each report: `{stage}-{filename}[-{rank}].html` in the
    /// same directory. Needs the feature `html`.
    #[cfg(feature = "html")]
    #[must_use]
    pub fn html(mut self, writes: bool) -> Self {
        self.writes_html = writes;
        self
    }

    /// Enables or disables printing on rank 0 for reports that are written to a file.
    #[must_use]
    pub fn always_print(mut self, prints: bool) -> Self {
        self.always_prints = prints;
        self
    }

    /// Redirects printed reports to standard error, so that standard output contains only the
    /// program's own output.
    #[must_use]
    pub fn print_to_stderr(mut self, goes_there: bool) -> Self {
        self.prints_to_stderr = goes_there;
        self
    }

    /// Enables or disables findings. They are enabled by default. Each delivered report is then
    /// examined for avoidable costs. The console shows up to three lines, and files contain all
    /// findings. Requires the feature `findings`.
    #[cfg(feature = "findings")]
    #[must_use]
    pub fn findings(mut self, looks_for_them: bool) -> Self {
        self.omits_findings = !looks_for_them;
        self
    }

    /// Enables or disables the sentence above each report that states where the time of a step goes
    /// and what bounds it. It is enabled by default: see
    /// [`Report::verdict`](crate::Report::verdict).
    #[must_use]
    pub fn verdict(mut self, shows_it: bool) -> Self {
        self.omits_verdict = !shows_it;
        self
    }

    /// Enables or disables showing all table rows on the console. It is disabled by default, so the
    /// console hides actions below 0.1 % of the wall time and counts them. Text files, JSON and
    /// HTML always contain all rows.
    ///
    /// `MLPROF_ALL_ROWS=1` or `0` in the environment takes precedence.
    #[must_use]
    pub fn all_rows(mut self, prints_all: bool) -> Self {
        self.prints_all_rows = prints_all;
        self
    }

    /// Returns `true` if the console shows all rows of a table. See [`all_rows`](Self::all_rows).
    #[doc(hidden)]
    pub fn prints_all_rows(&self) -> bool {
        match Environment::get().all_rows {
            Some(switch) => switch == Switch::On,
            None => self.prints_all_rows,
        }
    }

    /// Adds a note to all reports that are delivered from now on, below their own notes.
    #[doc(hidden)]
    pub fn note(&self, note: impl Into<String>) {
        self.state().notes.push(note.into());
    }

    fn console(&self) -> Console<'static> {
        match self.prints_to_stderr {
            true => Console::standard_error(),
            false => Console::standard(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the stage and the rank, which are parts of file names. A stage that begins while
    /// another one runs is nested in it. If the same stage is already running, it starts again.
    #[doc(hidden)]
    pub fn setup(&self, stage: Stage, run: &RunContext) {
        let environment = self.environment();
        let mut state = self.state();
        state.environment = environment;
        state.running.begin(stage);
        state.run = Some(run.clone());
    }

    /// Ends `stage`, or for `None` the stage that [`stage`](Self::stage) returns. The enclosing
    /// stage continues. No file needs closing, because every report is written and closed at once.
    /// Stage and rank are kept for a report that follows.
    #[doc(hidden)]
    pub fn teardown(&self, stage: Option<Stage>) {
        let mut state = self.state();
        if let Some(ended) = state.running.end(stage)
            && ended.own != Stage::SanityCheck
        {
            state.reported = Some(ended.own);
        }
    }

    /// Returns the stage of a report that is made now. This is the innermost running stage with its
    /// own report, or the stage that ended last. A sanity check has no report and belongs to the
    /// fit.
    #[doc(hidden)]
    pub fn stage(&self) -> Option<Stage> {
        let state = self.state();
        state.running_with_report().or(state.reported)
    }

    /// Returns `true` if a stage with its own report is running.
    #[doc(hidden)]
    pub fn is_in_a_stage(&self) -> bool {
        self.state().running_with_report().is_some()
    }

    /// Suppresses printing from now on, so that reports go only to files.
    #[doc(hidden)]
    pub fn stop_printing(&self) {
        self.state().is_silent = true;
    }

    /// Assigns reports from now on to no stage, unless a stage is running.
    #[doc(hidden)]
    pub fn leave_stages(&self) {
        self.state().reported = None;
    }

    /// Returns the rank, world size and directory that were last set by [`setup`](Self::setup).
    /// Before the first call, they come from the environment.
    #[doc(hidden)]
    pub fn run(&self) -> RunContext {
        self.state().run.clone().unwrap_or_else(RunContext::from_environment)
    }

    /// Writes a file next to the text reports:
    /// `{stage}-{filename}[-{rank}][-{action}].{extension}`. The file is in the directory of this
    /// output, or else in the trainer's directory, or else in the current one. An older file with
    /// this name is replaced atomically, so that a killed process leaves a readable file.
    ///
    /// Two actions with the same resulting file name get separate files. The second file is named
    /// `…-2.{extension}` and keeps this name.
    ///
    /// Returns the path, or `None` if the file could not be written. The first such failure of this
    /// output causes a warning on standard error.
    #[doc(hidden)]
    pub fn write_file(
        &self,
        action: Option<&str>,
        extension: &str,
        content: &[u8],
    ) -> Option<PathBuf> {
        self.write_file_or_warn(action, extension, content, &mut Console::standard())
    }

    fn write_file_or_warn(
        &self,
        action: Option<&str>,
        extension: &str,
        content: &[u8],
        console: &mut Console<'_>,
    ) -> Option<PathBuf> {
        let path = self.directory().unwrap_or_default().join(self.own_file_name(action, extension));
        match files::replace(&path, content) {
            Ok(()) => Some(path),
            Err(error) => {
                self.warn_once(&path, &error, "The file is missing", console);
                None
            }
        }
    }

    /// Prints a warning on standard error that a file could not be written, unless this output
    /// already printed one.
    #[doc(hidden)]
    pub fn warn_of_missing(&self, path: &Path, error: &io::Error) {
        self.warn_once(path, error, "The file is missing", &mut Console::standard());
    }

    fn warn_once(
        &self,
        path: &Path,
        error: &io::Error,
        consequence: &str,
        console: &mut Console<'_>,
    ) {
        if !std::mem::replace(&mut self.state().has_warned, true) {
            let path = path.display();
            console.warn(&format!(
                "cannot write {path}: {error}. {consequence}; the run continues. Check the \
                 profiler's dirpath and filename. (Reported once.)"
            ));
        }
    }
}

/// Returns `{stem}.{ending}` as a file name that is valid on every file system. A stem that is too
/// long is truncated and ends in a hash of the full stem.
#[doc(hidden)]
pub fn safe_file_name(stem: &str, ending: &str) -> String {
    name::file_name(&[name::Part::Free(stem)], 1, ending)
}

/// Writes a file atomically through `write`. Until the file is complete, readers see the previous
/// content, even if this process is killed. Missing directories are created. A replaced file passes
/// its `rwx` permissions on, if it belongs to the effective user.
///
/// While it is being written, the file has a temporary name in the same folder: `.mlprof-….tmp`. No
/// other process uses this name, including processes in other containers or on other machines. The
/// next process that writes into the folder removes temporary files of killed processes. It does so
/// after a minute if the system shows that the file is unused, and otherwise after a day.
///
/// A device or a pipe is written directly. A pipe without a reader is an error, either at once or
/// five seconds after its last reader has read. A file size limit (`ulimit -f`) is also an error
/// and does not end the process. A symbolic link is replaced, unless it belongs to the effective
/// user or root and points to a device or a pipe.
///
/// # Errors
///
/// Returns the error of `write`, or an error if the file cannot be created or flushed to disk. In
/// these cases the existing file is unchanged.
#[doc(hidden)]
pub fn write_file(
    path: &Path,
    write: impl FnOnce(&mut dyn io::Write) -> io::Result<()>,
) -> io::Result<()> {
    files::write_file(path, write)
}

#[cfg(test)]
mod tests;
