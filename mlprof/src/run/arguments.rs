//! Arguments of `mlprof run`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use mlprof_events::environment::{Environment, Switch};
use mlprof_events::run::{
    AdvancedSettings, LinesSettings, NumericsSettings, RunSettings, SamplesSettings, TensorSettings,
};
use mlprof_events::{GroupBy, Schedule};

use super::Error;
use mlprof_instrument::{RuleFile, Selection, SelectionBuilder};

/// Builds a program with hooks in the chosen functions and runs it. Nothing of the program is changed:
/// neither its sources, nor Cargo.toml, nor Cargo.lock; its build output goes to a folder of its own.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  mlprof run --ops candle -- cargo run --release
  mlprof run --functions 'my_model::*' --except 'my_model::data::*' -- cargo run --release
  mlprof run --ops burn-flex,burn-autodiff -- cargo run --release -- --epochs 1
  mlprof run --lines 'my_model::net::Net::forward' -- cargo run --release
  mlprof run --memory 'my_model::data::load' -- cargo test --release
  mlprof run --sample 1000 -- cargo run --release
  mlprof run --live -- cargo run --release
  mlprof run --ops candle --numerics -- cargo run --release

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
    /// Count and time each line of the functions that match, as line_profiler does.
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    pub lines: Vec<String>,
    /// Measure the memory that each line of the functions that match takes, as memory_profiler does,
    /// and what the functions allocate, free and keep.
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    pub memory: Vec<String>,
    /// Look at the numbers in what modules and ops return, and name the first that is not finite. Ops are those of --ops, if
    /// the preset says how to read them (candle and burn-flex do), in place of their times; and those that a plugin tells of (tch).
    #[arg(long)]
    pub numerics: bool,
    /// Look so many times a second at what each thread is doing, whatever it is written in.
    #[arg(long, value_name = "HZ")]
    pub sample: Option<u32>,
    /// Have the program listen to mlprof ps, top, record, report and dump while it runs, as with MLPROF_LIVE=1 in the
    /// environment.
    #[arg(long)]
    pub live: bool,
    /// Leave these functions out.
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    pub except: Vec<String>,
    /// Say which functions have hooks, and which were left out and why.
    #[arg(long)]
    pub explain: bool,
    /// Where results go.
    #[arg(short, long, value_name = "DIR", default_value = "mlprof-results")]
    pub output: PathBuf,
    /// Write all results as one HTML page, `report.html` among them, in place of the one of the last run.
    #[arg(long)]
    pub html: bool,
    /// Print no tables (on standard error); they are in the results.
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
    /// Ops: record allocations, and write what memory was used over time.
    #[arg(long)]
    pub profile_memory: bool,
    /// Ops: write flame graphs.
    #[arg(long)]
    pub flame: bool,
    /// Ops: say in traces what each op computes.
    #[arg(long)]
    pub with_flops: bool,
    /// Ops: say in traces what was open around each op: actions, modules, and the functions of --functions with
    /// file and line.
    #[arg(long)]
    pub with_stack: bool,
    /// Functions: how many lines each table has.
    #[arg(long, value_name = "LINES")]
    pub line_count: Option<usize>,
    /// Functions: write a .prof file per action, which Python's pstats and snakeviz open.
    #[arg(long)]
    pub dump_stats: bool,
    /// Lines: print times in this unit, in seconds (1e-6 if nothing is said).
    #[arg(long, value_name = "SECONDS")]
    pub unit: Option<f64>,
    /// Lines: do not print functions that never ran.
    #[arg(long)]
    pub skip_zero: bool,
    /// Lines: write the results again and again while the program runs.
    #[arg(long, value_name = "SECONDS")]
    pub output_interval: Option<f64>,
    /// Samples: compile everything with frame pointers and walk stacks by them: cheaper, but blind
    /// where libraries have none.
    #[arg(long)]
    pub frame_pointers: bool,
    /// The command to run, usually `cargo run --release`.
    #[arg(required = true, last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

impl Arguments {
    /// Returns the functions to instrument.
    pub(super) fn selection(&self) -> Result<Selection, Error> {
        if self.live && Environment::get().live == Some(Switch::Off) {
            return Err(Error::Forbidden);
        }
        let mut builder = SelectionBuilder::default().functions(&self.functions)?;
        for ops in &self.ops {
            builder = builder.ops(ops)?;
        }
        // Functions measured for memory are also timed, so the memory report can distinguish their
        // calls.
        builder = builder.lines(&self.lines)?.memory(&self.memory)?.functions(&self.memory)?;
        let selection = builder.except(&self.except)?.outputs(self.numerics).build();
        let is_nothing =
            selection.is_empty() && self.sample.is_none() && !self.listens() && !self.numerics;
        if is_nothing { Err(Error::Nothing) } else { Ok(selection) }
    }

    /// Returns `true` if the program's processes should listen for live commands.
    fn listens(&self) -> bool {
        self.live || Environment::get().live == Some(Switch::On)
    }

    /// Returns the measurement settings for the program's processes. Each process writes its record
    /// to the folder `processes`.
    pub(super) fn settings(
        &self,
        selection: &Selection,
        processes: &Path,
    ) -> Result<RunSettings, Error> {
        let directory = std::path::absolute(&self.output).unwrap_or_else(|_| self.output.clone());
        let frameworks = selection.rule_files().iter().map(|rules| rules.framework.clone());
        if let Some(schedule) = &self.schedule {
            schedule.check().map_err(|error| Error::Schedule(error.to_string()))?;
        }
        // With `--numerics` the ops profiler stays off, because reading tensor values would distort
        // the times.
        let tensor = (!self.ops.is_empty() && !self.numerics).then(|| TensorSettings {
            schedule: self.schedule,
            row_limit: Some(self.row_limit),
            group_by: if self.group_by_shapes {
                GroupBy::name().input_shapes()
            } else {
                GroupBy::name()
            },
            flame: self.flame,
            memory: self.profile_memory,
            with_flops: self.with_flops,
            with_stack: self.with_stack,
        });
        let advanced = (!self.functions.is_empty()).then_some(AdvancedSettings {
            line_count: self.line_count,
            dump_stats: self.dump_stats,
        });
        let lines = (!self.lines.is_empty() || !self.memory.is_empty()).then_some(LinesSettings {
            time: !self.lines.is_empty(),
            memory: !self.memory.is_empty(),
            unit_seconds: self.unit,
            skip_zero: self.skip_zero,
            output_interval_seconds: self.output_interval,
        });
        let samples =
            self.sample.map(|hz| SamplesSettings { hz, frame_pointers: self.frame_pointers });
        Ok(RunSettings {
            lines,
            samples,
            allocations: !self.memory.is_empty(),
            directory,
            prints: !self.quiet,
            processes: Some(processes.to_owned()),
            frameworks: frameworks.collect(),
            tensor,
            numerics: self.numerics.then(NumericsSettings::default),
            advanced,
            live: self.listens(),
            has_steps: selection.rule_files().iter().any(RuleFile::has_steps),
            environment: super::changed_variables(),
        })
    }
}
