//! The command line that both programs have in common, and how they end.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use candle_plugin::prelude::*;
use profiler_core::train::Result as TrainResult;
use profiler_core::{IntoProfiler, Report};

/// Which profiler, and where its reports go.
#[derive(Debug, Clone, clap::Args)]
pub struct ProfilerOptions {
    /// "simple", "advanced" or "none".
    #[arg(long, default_value = "none", value_name = "NAME")]
    pub profiler: String,
    /// Simple: self time, first call, quantiles and a row per thread.
    #[arg(long)]
    pub detailed: bool,
    /// Advanced: write a .prof file per action, which Python's pstats and snakeviz open.
    #[arg(long)]
    pub dump_stats: bool,
    /// Where report files go, with --filename.
    #[arg(long, value_name = "DIR")]
    pub dirpath: Option<PathBuf>,
    /// Write reports to files, {dirpath}/{stage}-{filename}.txt.
    #[arg(long, value_name = "NAME")]
    pub filename: Option<String>,
    /// Write all reports as JSON, too.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

impl ProfilerOptions {
    /// The profiler that was asked for.
    ///
    /// # Errors
    ///
    /// [`UnknownProfiler`], which lists those that there are.
    pub fn make_profiler(&self) -> Result<Arc<dyn Profiler>, UnknownProfiler> {
        match self.profiler.trim().to_ascii_lowercase().as_str() {
            "simple" => self.simple().into_profiler(),
            "advanced" => self.advanced().into_profiler(),
            other => other.into_profiler(),
        }
    }

    fn simple(&self) -> SimpleProfiler {
        let mut profiler = SimpleProfiler::new();
        if let Some(dirpath) = &self.dirpath {
            profiler = profiler.dirpath(dirpath);
        }
        if let Some(filename) = &self.filename {
            profiler = profiler.filename(filename);
        }
        if self.detailed { profiler.detailed() } else { profiler }
    }

    fn advanced(&self) -> AdvancedProfiler {
        let mut profiler = AdvancedProfiler::new().dump_stats(self.dump_stats);
        if let Some(dirpath) = &self.dirpath {
            profiler = profiler.dirpath(dirpath);
        }
        if let Some(filename) = &self.filename {
            profiler = profiler.filename(filename);
        }
        profiler
    }

    /// Writes reports to the file of `--json`, if it was given.
    ///
    /// # Errors
    ///
    /// The file's name and why it could not be written.
    pub fn write_json(&self, reports: &[Report]) -> TrainResult<()> {
        let Some(file) = &self.json else { return Ok(()) };
        let json = serde_json::to_string_pretty(reports)?;
        std::fs::write(file, json + "\n")
            .map_err(|error| format!("{}: {error}", file.display()).into())
    }
}

/// Runs the body of a program with the profiler that was asked for. Exit code 0, 1 after an error,
/// 2 for an unknown profiler.
pub fn run(
    program: &str,
    options: &ProfilerOptions,
    body: impl FnOnce(&Arc<dyn Profiler>) -> TrainResult<()>,
) -> ExitCode {
    let profiler = match options.make_profiler() {
        Ok(profiler) => profiler,
        Err(error) => {
            eprintln!("{program}: {error}");
            return ExitCode::from(2);
        }
    };
    match body(&profiler) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{program}: {error}");
            ExitCode::FAILURE
        }
    }
}
