//! The command line that the examples have in common.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

use profiler_core::prelude::*;
use profiler_core::{IntoProfiler, Report, UnknownProfiler};

/// What every example on the digits can be told. Flatten it into the program's own options.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// "simple", "advanced" or "none".
    #[arg(long, default_value = "none", value_name = "NAME")]
    pub profiler: String,
    /// Simple: self time, first call, quantiles and a row per thread.
    #[arg(long)]
    pub detailed: bool,
    /// Simple: the same, and the bytes that each action read and wrote (Linux).
    #[arg(long)]
    pub measure_io: bool,
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
    /// How often all training digits are seen.
    #[arg(long, default_value_t = 15)]
    pub epochs: usize,
    /// How many digits are learned from at once.
    #[arg(long, default_value_t = 32, value_parser = at_least_one)]
    pub batch_size: usize,
    /// The same seed gives the same network and the same accuracy.
    #[arg(long, default_value_t = 42)]
    pub seed: u64,
}

/// What examples with this project's trainer can be told besides.
#[derive(Debug, Clone, clap::Args)]
pub struct TrainerOptions {
    /// Save the network here after every epoch.
    #[arg(long, value_name = "DIR")]
    pub checkpoint_dir: Option<PathBuf>,
    /// Write the loss of every step, to the last bit.
    #[arg(long, value_name = "FILE")]
    pub loss_curve: Option<PathBuf>,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("use 1 or more".to_owned()),
        Ok(number) => Ok(number),
        Err(error) => Err(error.to_string()),
    }
}

impl Options {
    /// The profiler that was asked for, with its options.
    ///
    /// # Errors
    ///
    /// [`UnknownProfiler`], which lists those that there are.
    pub fn make_profiler(&self) -> Result<Arc<dyn Profiler>, UnknownProfiler> {
        match self.profiler.trim().to_ascii_lowercase().as_str() {
            "simple" if self.measure_io => self.simple().detailed().measure_io().into_profiler(),
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
    pub fn write_json(&self, reports: &[Report]) -> Result<(), Box<dyn Error>> {
        let Some(file) = &self.json else { return Ok(()) };
        let json = serde_json::to_string_pretty(reports)?;
        std::fs::write(file, json + "\n")
            .map_err(|error| format!("{}: {error}", file.display()).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        options: Options,
    }

    fn parse(arguments: &[&str]) -> Result<Options, clap::Error> {
        let arguments = ["program"].iter().chain(arguments);
        Program::try_parse_from(arguments).map(|program| program.options)
    }

    #[test]
    fn a_profiler_is_made_as_asked_for() {
        let options = parse(&["--profiler", " Simple", "--detailed"]).expect("valid");
        assert!(options.make_profiler().is_ok());
        let options = parse(&["--profiler", "simpel"]).expect("any text");
        let error = options.make_profiler().err().expect("there is none of this name");
        assert!(error.to_string().contains("simple"), "{error}");
    }

    #[test]
    fn reports_go_to_the_file_that_was_named() {
        let directory = tempfile::tempdir().expect("a folder");
        let file = directory.path().join("reports.json");
        let path = file.to_str().expect("plain");
        let options = parse(&["--profiler", "simple", "--json", path]).expect("valid");
        let profiler = options.make_profiler().expect("known");
        drop(profiler.profile("load_data"));
        let reports: Vec<Report> = profiler.report().into_iter().collect();
        options.write_json(&reports).expect("written");
        let text = std::fs::read_to_string(&file).expect("a file");
        assert_eq!(serde_json::from_str::<Vec<Report>>(&text).expect("reports").len(), 1);
        assert!(text.contains("load_data"), "{text}");

        let nowhere = directory.path().join("missing").join("reports.json");
        let options = parse(&["--json", nowhere.to_str().expect("plain")]).expect("valid");
        let error = options.write_json(&reports).expect_err("no such folder").to_string();
        assert!(error.contains("reports.json"), "{error}");
    }

    #[test]
    fn batches_of_nothing_are_refused() {
        let error = parse(&["--batch-size", "0"]).expect_err("refused").to_string();
        assert!(error.contains("use 1 or more"), "{error}");
        assert!(parse(&["--batch-size", "x"]).is_err());
    }
}
