//! Where reports go: the console, or a file per stage, rank and action.
//!
//! Nothing in here fails or panics: where a file cannot be written, standard error hears of it
//! once and the report goes to the console.

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

/// Where the reports of one profiler go.
///
/// With a directory and a file name reports are appended to
/// `{dirpath}/{stage}-{filename}[-{rank}].txt`, the rank only when the run has more than one
/// process; otherwise rank 0 prints them to standard output. Without a directory of its own it
/// takes the trainer's.
///
/// Characters that file systems refuse become `_`. A name of more than 255 bytes is made shorter:
/// the file name and the action are cut and end in a hash of what they were, while stage, rank and
/// extension stay. Before a trainer says otherwise, rank and world size are those of the
/// environment ([`RunContext::from_environment`]). In stages, `MLPROF_DIRPATH` and
/// `MLPROF_FILENAME` take the place of directory and file name.
#[derive(Debug, Default)]
pub struct Output {
    dirpath: Option<PathBuf>,
    filename: Option<String>,
    writes_json: bool,
    #[cfg(feature = "html")]
    writes_html: bool,
    always_prints: bool,
    prints_to_stderr: bool,
    /// Of which kind of profiler, in one word.
    kind: Option<&'static str>,
    ignores_environment: bool,
    #[cfg(feature = "findings")]
    omits_findings: bool,
    /// Whether the console shows all rows.
    prints_all_rows: bool,
    /// How long to wait for other ranks, if it was said.
    patience: Option<std::time::Duration>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    running: Stages<Stage>,
    /// The stage of the last report, for one that comes later.
    reported: Option<Stage>,
    /// Whether nothing is printed that a file has.
    is_silent: bool,
    run: Option<RunContext>,
    /// What is said over its own directory and file name, from the first stage on.
    environment: Option<&'static Environment>,
    /// What tells its files from those of another profiler.
    word: Option<String>,
    has_warned: bool,
    /// What has to be said besides the report's own notes.
    notes: Vec<String>,
    /// Which action each file name of [`Output::write_file`] was given to.
    owners: HashMap<String, Option<String>>,
}

impl State {
    fn running_with_report(&self) -> Option<Stage> {
        self.running.reported().map(|position| self.running[position])
    }
}

impl Output {
    /// To the console.
    pub fn new() -> Self {
        Self::default()
    }

    /// Says in one word what kind of profiler this is of: see
    /// [`MultiProfiler`](crate::MultiProfiler).
    #[doc(hidden)]
    #[must_use]
    pub fn of_kind(mut self, kind: &'static str) -> Self {
        self.kind = Some(kind);
        self
    }

    /// The word that it was said in.
    #[doc(hidden)]
    pub fn kind(&self) -> Option<&'static str> {
        self.kind
    }

    /// Has no variable of the environment say where its files go: for those of `mlprof run`.
    #[doc(hidden)]
    #[must_use]
    pub fn ignore_environment(mut self) -> Self {
        self.ignores_environment = true;
        self
    }

    /// What the environment says, if it is asked.
    #[doc(hidden)]
    pub fn environment(&self) -> Option<&'static Environment> {
        (!self.ignores_environment).then(Environment::get)
    }

    /// Sets the directory of report files; it is created when the first report is written.
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

    /// Whether every report is written as JSON, too: `{stage}-{filename}[-{rank}].json` in the same
    /// directory.
    #[must_use]
    pub fn json(mut self, writes: bool) -> Self {
        self.writes_json = writes;
        self
    }

    /// Whether every report is written as an HTML page, too: `{stage}-{filename}[-{rank}].html` in the
    /// same directory. Needs the feature `html`.
    #[cfg(feature = "html")]
    #[must_use]
    pub fn html(mut self, writes: bool) -> Self {
        self.writes_html = writes;
        self
    }

    /// Whether reports that go to a file are printed, too, on rank 0.
    #[must_use]
    pub fn always_print(mut self, prints: bool) -> Self {
        self.always_prints = prints;
        self
    }

    /// Whether what is printed goes to standard error, so that standard output is the program's alone.
    #[must_use]
    pub fn print_to_stderr(mut self, goes_there: bool) -> Self {
        self.prints_to_stderr = goes_there;
        self
    }

    /// Whether what costs time that could be saved is looked for when a report is delivered, and
    /// told: up to three lines on the console, all of it in files. It is, unless this says `false`.
    /// Needs the feature `findings`.
    #[cfg(feature = "findings")]
    #[must_use]
    pub fn findings(mut self, looks_for_them: bool) -> Self {
        self.omits_findings = !looks_for_them;
        self
    }

    /// Whether the console shows all rows of a table. By default, and with `false`, it leaves out
    /// the actions that took less than 0.1 % of the wall time, and counts them. Text files, JSON
    /// and pages always have all rows.
    ///
    /// `MLPROF_ALL_ROWS=1` or `0` in the environment takes precedence.
    #[must_use]
    pub fn all_rows(mut self, prints_all: bool) -> Self {
        self.prints_all_rows = prints_all;
        self
    }

    /// Returns whether the console shows all rows of a table: see [`all_rows`](Self::all_rows).
    #[doc(hidden)]
    pub fn prints_all_rows(&self) -> bool {
        match Environment::get().all_rows {
            Some(switch) => switch == Switch::On,
            None => self.prints_all_rows,
        }
    }

    /// Adds a note to the reports that are delivered from here on, below their own.
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

    /// Remembers the stage, which is part of file names, and the rank. A stage that begins while
    /// another runs is inside it; the same one again starts anew.
    #[doc(hidden)]
    pub fn setup(&self, stage: Stage, run: &RunContext) {
        let environment = self.environment();
        let mut state = self.state();
        state.environment = environment;
        state.running.begin(stage);
        state.run = Some(run.clone());
    }

    /// Ends `stage`, or with `None` the one that [`stage`](Self::stage) gives; the one around it
    /// goes on. There is no file to close: every report is written and closed at once. Stage and
    /// rank stay known for a report that comes later.
    #[doc(hidden)]
    pub fn teardown(&self, stage: Option<Stage>) {
        let mut state = self.state();
        if let Some(ended) = state.running.end(stage)
            && ended.own != Stage::SanityCheck
        {
            state.reported = Some(ended.own);
        }
    }

    /// The stage that a report made now belongs to: the innermost that runs and has a report of
    /// its own (a sanity check is part of fit's), or the one that ended last.
    #[doc(hidden)]
    pub fn stage(&self) -> Option<Stage> {
        let state = self.state();
        state.running_with_report().or(state.reported)
    }

    /// Whether a stage that has a report of its own runs.
    #[doc(hidden)]
    pub fn is_in_a_stage(&self) -> bool {
        self.state().running_with_report().is_some()
    }

    /// What is reported from here on goes to files alone.
    #[doc(hidden)]
    pub fn stop_printing(&self) {
        self.state().is_silent = true;
    }

    /// What is reported from here on was recorded outside of any stage, unless one runs.
    #[doc(hidden)]
    pub fn leave_stages(&self) {
        self.state().reported = None;
    }

    /// Rank, world size and directory that [`setup`](Self::setup) gave last; those of the
    /// environment before.
    #[doc(hidden)]
    pub fn run(&self) -> RunContext {
        self.state().run.clone().unwrap_or_else(RunContext::from_environment)
    }

    /// Writes a file beside the text reports: `{stage}-{filename}[-{rank}][-{action}].{extension}`
    /// in the directory of this output, else the trainer's, else the current one. An older file of
    /// that name is replaced in one step, so that a killed process leaves a readable one.
    ///
    /// Two actions whose names make the same file name get one file each: the second is called
    /// `…-2.{extension}`, and keeps that name.
    ///
    /// Returns the path, or `None` where the file could not be written; standard error then hears
    /// of the first such failure of this output.
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

    /// Tells standard error that a file could not be written, unless it has heard of one before.
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
                "the profiler cannot write {path}: {error}. {consequence}; the run goes on. Check \
                 the profiler's dirpath and filename. (Said once.)"
            ));
        }
    }
}

/// `{stem}.{ending}` as a file name that every file system takes. A stem that is too long for one
/// is cut and ends in a hash of all of it.
#[doc(hidden)]
pub fn safe_file_name(stem: &str, ending: &str) -> String {
    name::file_name(&[name::Part::Free(stem)], 1, ending)
}

/// Has `write` write a file that has its name only when it is whole: until then a reader finds what
/// was there before, also if this process is killed. Directories are made if need be. A file that is
/// replaced hands its permissions on: `rwx` bits, and only if it belongs to the effective user.
///
/// Until then it has a name that no other process takes, also not one in another container or on
/// another machine: `.mlprof-….tmp` in the same folder. What a killed process has left of that kind is
/// removed by the next one that writes into the folder: after a minute, where the system knows that
/// nobody is at work on it, else after a day.
///
/// A device or a pipe is written as one goes. One that nobody reads from is an error: at once, or
/// five seconds after its last reader has read. A limit on the size of files (`ulimit -f`) is an
/// error, too, and not the end of the process. A symbolic link is replaced, unless it belongs to
/// the effective user or root and leads to a device or a pipe.
///
/// # Errors
///
/// What `write` says, or if the file cannot be made or flushed to the disk; then nothing has
/// changed.
#[doc(hidden)]
pub fn write_file(
    path: &Path,
    write: impl FnOnce(&mut dyn io::Write) -> io::Result<()>,
) -> io::Result<()> {
    files::write_file(path, write)
}

#[cfg(test)]
mod tests;
