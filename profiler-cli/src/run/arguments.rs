//! What `mlprof run` is asked to do.

use std::ffi::OsString;
use std::path::PathBuf;

use profiler_core::spliced::{AdvancedSettings, RunSettings, TensorSettings};
use profiler_core::tensor::{GroupBy, Schedule};

use super::Error;
use crate::splice::{Selection, SelectionBuilder};

/// Builds a program with hooks in the chosen functions and runs it. Nothing of the program is changed:
/// neither its sources, nor Cargo.toml, nor Cargo.lock; its build output goes to a folder of its own.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  mlprof run --ops candle -- cargo run --release
  mlprof run --functions 'my_model::*' --except 'my_model::data::*' -- cargo run --release
  mlprof run --ops burn-flex,burn-autodiff -- cargo run --release -- --epochs 1

A pattern is the path of a function, `my_model::net::Net::forward`, with `*` for anything within a
name and `**` for any number of modules; `my_model::*` are all functions of a crate.")]
pub struct Arguments {
    /// Measure the tensor ops of a framework: a preset (candle, burn-flex, burn-autodiff) or a rule
    /// file.
    #[arg(long, value_name = "PRESET|FILE", value_delimiter = ',')]
    pub ops: Vec<String>,
    /// Count and time the functions that match: calls, own time, time with what they call.
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    pub functions: Vec<String>,
    /// Leave these functions out.
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    pub except: Vec<String>,
    /// Say which functions have hooks, and which were left out and why.
    #[arg(long)]
    pub explain: bool,
    /// Where results go.
    #[arg(short, long, value_name = "DIR", default_value = "mlprof-results")]
    pub output: PathBuf,
    /// Print no tables; they are in the results.
    #[arg(short, long)]
    pub quiet: bool,
    /// Ops: which steps are recorded, such as wait=1,warmup=1,active=3,repeat=1 (the default where the
    /// program has steps; else everything is recorded).
    #[arg(long, value_name = "STEPS")]
    pub schedule: Option<Schedule>,
    /// Ops: how many rows the table has.
    #[arg(long, value_name = "ROWS", default_value_t = 20)]
    pub row_limit: usize,
    /// Ops: a row for each list of input shapes.
    #[arg(long)]
    pub group_by_shapes: bool,
    /// Ops: write flame graphs.
    #[arg(long)]
    pub flame: bool,
    /// Functions: how many lines each table has.
    #[arg(long, value_name = "LINES")]
    pub line_count: Option<usize>,
    /// Functions: write a .prof file per action, which Python's pstats and snakeviz open.
    #[arg(long)]
    pub dump_stats: bool,
    /// The command to run, usually `cargo run --release`.
    #[arg(required = true, last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

impl Arguments {
    /// What is to have hooks.
    pub(super) fn selection(&self) -> Result<Selection, Error> {
        let mut builder = SelectionBuilder::default().functions(&self.functions)?;
        for ops in &self.ops {
            builder = builder.ops(ops)?;
        }
        let selection = builder.except(&self.except)?.build();
        if selection.is_empty() { Err(Error::Nothing) } else { Ok(selection) }
    }

    /// What is measured in the processes of the program.
    pub(super) fn settings(&self, selection: &Selection) -> Result<RunSettings, Error> {
        let directory = std::path::absolute(&self.output).unwrap_or_else(|_| self.output.clone());
        let frameworks = selection.rule_files().iter().map(|rules| rules.framework.clone());
        if let Some(schedule) = &self.schedule {
            schedule.check().map_err(|error| Error::Schedule(error.to_string()))?;
        }
        let tensor = (!self.ops.is_empty()).then(|| TensorSettings {
            schedule: self.schedule,
            row_limit: Some(self.row_limit),
            group_by: if self.group_by_shapes {
                GroupBy::name().input_shapes()
            } else {
                GroupBy::name()
            },
            flame: self.flame,
            ..TensorSettings::default()
        });
        let advanced = (!self.functions.is_empty())
            .then_some(AdvancedSettings { line_count: self.line_count, dump_stats: self.dump_stats });
        Ok(RunSettings {
            directory,
            prints: !self.quiet,
            frameworks: frameworks.collect(),
            tensor,
            advanced,
        })
    }
}
