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

/// Build a program with profiling hooks, run it, and write reports
///
/// The sources, Cargo.toml and Cargo.lock of the program stay unchanged. The build output goes to a
/// separate folder. The results are written to --output, and tables are printed on standard error.
///
/// The exit code is that of COMMAND, or 2 if mlprof cannot run it.
#[derive(Debug, clap::Args)]
#[command(
    verbatim_doc_comment,
    after_long_help = "\
Examples:
  mlprof run --ops candle -- cargo run --release
  mlprof run --functions 'my_model::*' --except 'my_model::data::*' -- cargo run --release
  mlprof run --ops burn-flex,burn-autodiff -- cargo run --release -- --epochs 1
  mlprof run --lines 'my_model::net::Net::forward' -- cargo run --release
  mlprof run --memory 'my_model::data::load' -- cargo test --release
  mlprof run --sample 1000 -- cargo run --release
  mlprof run --live -- cargo run --release
  mlprof run --ops candle --numerics -- cargo run --release

PATTERN is the path of a function, such as `my_model::net::Net::forward`. `*` matches any part of a
name, and `**` matches any number of modules. `my_model::*` matches all functions of a crate."
)]
pub struct Arguments {
    /// Measure the tensor ops of a framework
    ///
    /// The value is a preset (candle, burn-flex, burn-autodiff) or the path of a rule file.
    /// Separate several values with commas.
    #[arg(long, value_name = "PRESET|FILE", value_delimiter = ',')]
    pub ops: Vec<String>,
    /// Count and time the functions that match PATTERN
    ///
    /// The report contains calls, self time and cumulative time.
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    pub functions: Vec<String>,
    /// Count and time each line of the functions that match PATTERN, like line_profiler
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    pub lines: Vec<String>,
    /// Measure the memory of each line of the functions that match PATTERN, like memory_profiler
    ///
    /// The report also contains the memory that the functions allocate, free and keep.
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    pub memory: Vec<String>,
    /// Check the values that modules and ops return, and report the first NaN or infinity
    ///
    /// The ops are those of --ops, if the preset can read their values (candle, burn-flex). Their
    /// times are then not measured. Ops that a plugin reports are also checked (tch).
    #[arg(long)]
    pub numerics: bool,
    /// Sample the stacks of all threads HZ times per second, in any language
    #[arg(long, value_name = "HZ")]
    pub sample: Option<u32>,
    /// Let mlprof ps, top, record, report and dump inspect the program while it runs
    ///
    /// MLPROF_LIVE=1 in the environment has the same effect.
    #[arg(long)]
    pub live: bool,
    /// Exclude the functions that match PATTERN
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    pub except: Vec<String>,
    /// List the functions with hooks, and the functions without hooks and the reasons
    #[arg(long)]
    pub explain: bool,
    /// Folder for the results
    #[arg(short, long, value_name = "FOLDER", default_value = "mlprof-results")]
    pub output: PathBuf,
    /// Also write all results as one HTML page, report.html in the results folder
    ///
    /// The page replaces that of the previous run.
    #[arg(long)]
    pub html: bool,
    /// Do not print tables on standard error; the results contain them
    #[arg(short, long)]
    pub quiet: bool,
    /// Ops: steps to record, such as wait=1,warmup=1,active=3,repeat=1
    ///
    /// The example is the default for a program with steps. Without steps, everything is recorded.
    #[arg(long, value_name = "STEPS")]
    pub schedule: Option<Schedule>,
    /// Ops: maximum number of rows in the table
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub row_limit: usize,
    /// Ops: group rows by name and input shapes
    #[arg(long)]
    pub group_by_shapes: bool,
    /// Ops: record allocations, and write the memory usage over time
    #[arg(long)]
    pub profile_memory: bool,
    /// Ops: write flame graphs
    #[arg(long)]
    pub flame: bool,
    /// Ops: write the floating-point operations and bytes of each op to traces
    #[arg(long)]
    pub with_flops: bool,
    /// Ops: write the stack of each op to traces
    ///
    /// A stack contains actions, modules, and the functions of --functions with file and line.
    #[arg(long)]
    pub with_stack: bool,
    /// Functions: maximum number of rows per table [default: all]
    #[arg(long, value_name = "N")]
    pub line_count: Option<usize>,
    /// Functions: write a .prof file per action, for Python's pstats and snakeviz
    #[arg(long)]
    pub dump_stats: bool,
    /// Lines: time unit of the tables in seconds, such as 1e-3 [default: 1e-6]
    #[arg(long, value_name = "SECONDS")]
    pub unit: Option<f64>,
    /// Lines: omit functions that never ran
    #[arg(long)]
    pub skip_zero: bool,
    /// Lines: interval in seconds at which results are written during the run
    ///
    /// By default, results are written only at the end.
    #[arg(long, value_name = "SECONDS")]
    pub output_interval: Option<f64>,
    /// Samples: compile all crates with frame pointers, and use them to walk stacks
    ///
    /// This is cheaper than the default, but it cannot walk through libraries without frame
    /// pointers.
    #[arg(long)]
    pub frame_pointers: bool,
    /// Command to run, usually `cargo run --release`
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
