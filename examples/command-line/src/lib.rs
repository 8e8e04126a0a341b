//! Code shared by the examples' command lines: selection of the profiler, destination of its
//! reports, and program exit.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use mlprof_core::prelude::*;
use mlprof_core::report::findings::Rules;
use mlprof_core::report::page;
use mlprof_core::tensor::{DeviceTiming, Schedule};
use mlprof_core::{IntoProfiler, Output, Report, TensorProfiler};

/// Options of the profiler and of its reports. Flatten them into the options of a program.
#[derive(Debug, Clone, clap::Args)]
pub struct ProfilerOptions {
    /// Profiler: simple, advanced, tensor, numerics, nvtx or none; join several with +
    #[arg(long, default_value = "none", value_name = "NAME")]
    pub profiler: String,
    /// Simple: report self time, first call, quantiles and a row per thread
    #[arg(long)]
    pub detailed: bool,
    /// Simple: --detailed, and the bytes that each action read and wrote (Linux)
    #[arg(long)]
    pub measure_io: bool,
    /// Simple: --detailed, and the CPU time of each action (Linux)
    ///
    /// The CPU time shows whether an action worked or waited.
    #[arg(long)]
    pub measure_cpu: bool,
    /// Simple, Advanced: measure the device time of each action with device clocks (GPUs)
    #[arg(long)]
    pub measure_devices: bool,
    /// Advanced: write a .prof file per action, for Python's pstats and snakeviz
    #[arg(long)]
    pub dump_stats: bool,
    /// Advanced: sample the stacks of all threads 1000 times per second (Linux)
    #[arg(long)]
    pub sampled: bool,
    /// Tensor: steps to record [default: wait=1,warmup=1,active=3,repeat=1]
    #[arg(long, value_name = "STEPS")]
    pub schedule: Option<Schedule>,
    /// Tensor: record kernels without individual times, if timing slows down steps (burn)
    #[arg(long)]
    pub names_only: bool,
    /// Tensor: maximum number of rows in the table
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub row_limit: usize,
    /// Tensor: group ops by name and input shapes
    #[arg(long)]
    pub input_shapes: bool,
    /// Tensor: record allocations, and write the memory usage over time
    #[arg(long)]
    pub profile_memory: bool,
    /// Tensor: record allocations, and write a snapshot for pytorch.org/memory_viz
    #[arg(long)]
    pub memory_snapshot: bool,
    /// Tensor: record the scalars, strides and overloads of ops in the trace (tch)
    #[arg(long)]
    pub record_inputs: bool,
    /// Tensor: write the floating-point operations of each op to the trace
    #[arg(long)]
    pub with_flops: bool,
    /// Tensor: write the stack of each op to the trace
    #[arg(long)]
    pub with_stack: bool,
    /// Tensor: write the recording as Parquet tables next to the trace (feature `parquet`)
    #[arg(long)]
    pub parquet: bool,
    /// Tensor: write flame graphs next to the trace
    #[arg(long)]
    pub flame: bool,
    /// Let mlprof ps, top and record inspect the program while it runs
    ///
    /// MLPROF_LIVE=1 in the environment has the same effect.
    #[arg(long)]
    pub live: bool,
    /// Numerics: stop the training at the first NaN or infinity
    #[arg(long)]
    pub stop_on_nan: bool,
    /// Numerics: also check the tensors that each op returns
    #[arg(long)]
    pub look_at_ops: bool,
    /// Numerics: interval in steps between recorded steps [default: 10]
    #[arg(long, value_name = "STEPS")]
    pub every: Option<u64>,
    /// Numerics: hash all tensors of recorded steps, including those on devices
    #[arg(long)]
    pub hash: bool,
    /// Numerics: rerun the forward pass of a batch with NaN or infinity
    ///
    /// This also happens if the training continues.
    #[arg(long)]
    pub rerun: bool,
    /// Numerics: save the first tensor with NaN or infinity to --dirpath
    #[arg(long)]
    pub save_tensors: bool,
    /// Folder for report files, used with --filename
    #[arg(long, value_name = "FOLDER")]
    pub dirpath: Option<PathBuf>,
    /// Write reports to the files {dirpath}/{stage}-{filename}.txt
    #[arg(long, value_name = "NAME")]
    pub filename: Option<String>,
    /// Also write each report as JSON next to its text file
    ///
    /// With several processes, the report of the first one states which rank delays the others.
    #[arg(long)]
    pub json_files: bool,
    /// Write all reports to FILE as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write all reports to FILE as one HTML page
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

impl ProfilerOptions {
    /// Creates the requested profiler with its options.
    ///
    /// # Errors
    ///
    /// Returns an error for an unknown profiler, with a list of the known ones.
    pub fn make_profiler(&self) -> Result<Arc<dyn Profiler>, Box<dyn Error>> {
        // This call returns the error for an invalid name or combination of names.
        self.profiler.as_str().into_profiler()?;
        let parts = self.profiler.split('+').map(|name| self.make_one(name));
        Ok(parts.collect::<Result<Vec<_>, _>>()?.into_profiler()?)
    }

    fn make_one(&self, name: &str) -> Result<Arc<dyn Profiler>, Box<dyn Error>> {
        let profiler = match name.trim().to_ascii_lowercase().as_str() {
            "simple" => self.simple().into_profiler(),
            "advanced" => self.advanced().into_profiler(),
            "tensor" | "pytorch" => self.tensor()?.into_profiler(),
            "numerics" => self.numerics().into_profiler(),
            other => other.into_profiler(),
        }?;
        Ok(profiler)
    }

    /// Returns the destination of the reports.
    fn output(&self) -> Output {
        let mut output = Output::new().json(self.json_files);
        if let Some(dirpath) = &self.dirpath {
            output = output.dirpath(dirpath);
        }
        if let Some(filename) = &self.filename {
            output = output.filename(filename);
        }
        output
    }

    fn simple(&self) -> SimpleProfiler {
        let profiler =
            SimpleProfiler::new().output_to(self.output()).measure_devices(self.measure_devices);
        let profiler = if self.detailed { profiler.detailed() } else { profiler };
        let profiler = if self.measure_io { profiler.measure_io() } else { profiler };
        if self.measure_cpu { profiler.measure_cpu() } else { profiler }
    }

    fn tensor(&self) -> Result<TensorProfiler, Box<dyn Error>> {
        let profiler = TensorProfiler::new()
            .output_to(self.output())
            .row_limit(self.row_limit)
            .device_timing(if self.names_only { DeviceTiming::NamesOnly } else { DeviceTiming::On })
            .group_by_input_shapes(self.input_shapes)
            .profile_memory(self.profile_memory)
            .memory_timeline(self.profile_memory)
            .memory_snapshot(self.memory_snapshot)
            .record_inputs(self.record_inputs)
            .with_flops(self.with_flops)
            .with_stack(self.with_stack)
            .flame(self.flame);
        #[cfg(feature = "parquet")]
        let profiler = profiler.parquet(self.parquet);
        #[cfg(not(feature = "parquet"))]
        if self.parquet {
            return Err("cannot write Parquet tables: build with the feature parquet".into());
        }
        Ok(match self.schedule {
            Some(schedule) => profiler.schedule(schedule),
            None => profiler,
        })
    }

    fn numerics(&self) -> NumericsProfiler {
        let profiler = NumericsProfiler::new()
            .output_to(self.output())
            .stop_on_nan(self.stop_on_nan)
            .ops(self.look_at_ops)
            .rerun(self.rerun)
            .save_tensors(self.save_tensors);
        let profiler = if self.hash { profiler.hash(true) } else { profiler };
        match self.every {
            Some(steps) => profiler.every(steps),
            None => profiler,
        }
    }

    fn advanced(&self) -> AdvancedProfiler {
        let profiler = AdvancedProfiler::new()
            .output_to(self.output())
            .dump_stats(self.dump_stats)
            .measure_devices(self.measure_devices);
        if self.sampled { profiler.sampled(1000) } else { profiler }
    }

    /// Writes reports with their findings to the files of `--json` and `--html`, if given.
    ///
    /// # Errors
    ///
    /// Returns an error with the file name and the reason why the file could not be written.
    pub fn write_reports(&self, reports: &[Report]) -> io::Result<()> {
        if self.json.is_none() && self.html.is_none() {
            return Ok(());
        }
        let rules = Rules::new();
        let reports: Vec<_> = reports.iter().map(|report| rules.annotate(report.clone())).collect();
        if let Some(file) = &self.json {
            write(file, serde_json::to_string_pretty(&reports)? + "\n")?;
        }
        if let Some(file) = &self.html {
            write(file, page::html(&reports))?;
        }
        Ok(())
    }
}

fn write(file: &Path, text: String) -> io::Result<()> {
    std::fs::write(file, text)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", file.display())))
}

/// Returns the report of a profiler's last stage. A combination of profilers returns one report
/// each.
pub fn reports_of(profiler: &Arc<dyn Profiler>) -> Vec<Report> {
    match profiler.parts() {
        [] => profiler.report().into_iter().collect(),
        parts => parts.iter().filter_map(|part| part.report()).collect(),
    }
}

/// Runs the body of a program with the requested profiler. The exit code is 0, 1 after an error, or
/// 2 for an unknown profiler.
pub fn run(
    program: &str,
    options: &ProfilerOptions,
    body: impl FnOnce(&Arc<dyn Profiler>) -> Result<(), Box<dyn Error>>,
) -> ExitCode {
    let profiler = match options.make_profiler() {
        Ok(profiler) => profiler,
        Err(error) => {
            eprintln!("{program}: {}", with_causes(&*error));
            return ExitCode::from(2);
        }
    };
    match body(&profiler) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{program}: {}", with_causes(&*error));
            ExitCode::FAILURE
        }
    }
}

/// Returns an error's message with the messages of its causes, without duplicates.
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let message = error.to_string();
        if !text.contains(&message) {
            text = format!("{text}: {message}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use mlprof_core::{RunContext, Stage};

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        options: ProfilerOptions,
    }

    fn parse(arguments: &[&str]) -> Result<ProfilerOptions, clap::Error> {
        let arguments = ["program"].iter().chain(arguments);
        Program::try_parse_from(arguments).map(|program| program.options)
    }

    #[test]
    fn a_profiler_is_made_as_asked_for() {
        let options = parse(&["--profiler", " Simple", "--detailed"]).expect("valid");
        assert!(options.make_profiler().is_ok());
        for (flags, measured) in [
            (vec!["--measure-cpu"], (false, true)),
            (vec!["--measure-io", "--measure-cpu"], (true, true)),
        ] {
            let options = parse(&[&["--profiler", "simple"], flags.as_slice()].concat());
            let profiler = options.expect("valid").make_profiler().expect("a profiler");
            drop(profiler.profile("step"));
            let Some(Report::Simple(report)) = profiler.report() else { panic!("{flags:?}") };
            let step = report.actions.iter().find(|row| row.action == "step").expect("a row");
            let there = cfg!(target_os = "linux");
            let (io, cpu) = (step.io.is_some(), step.cpu.is_some());
            assert_eq!((io, cpu), (measured.0 && there, measured.1 && there), "{flags:?}");
        }
        let options = parse(&["--profiler", "tensor", "--schedule", "wait=0, active=2"]);
        assert!(options.expect("valid").make_profiler().is_ok());
        let options = parse(&["--profiler", "simple + tensor", "--schedule", "active=2"]);
        let several = options.expect("valid").make_profiler().expect("two profilers");
        assert_eq!(several.parts().len(), 2);
        let error = parse(&["--schedule", "active=0"]).expect_err("nothing would be recorded");
        assert!(error.to_string().contains("active = 0"), "{error}");
        let options = parse(&["--profiler", "simpel"]).expect("any text");
        let error = options.make_profiler().expect_err("there is none of this name");
        assert!(error.to_string().contains("simple"), "{error}");
    }

    /// Checks that tables are written, or rejected if the program is built without the feature.
    #[test]
    fn tables_are_asked_for() {
        let directory = tempfile::tempdir().expect("a folder");
        let dirpath = directory.path().to_string_lossy();
        let schedule = "wait=0, warmup=0, active=1";
        let arguments =
            ["--profiler", "tensor", "--schedule", schedule, "--dirpath", &dirpath, "--parquet"];
        for (asks, arguments) in [(true, &arguments[..]), (false, &arguments[..6])] {
            let made = parse(arguments).expect("valid").make_profiler();
            if asks && cfg!(not(feature = "parquet")) {
                let error = made.expect_err("tables cannot be written").to_string();
                assert!(error.contains("build with the feature parquet"), "{error}");
                continue;
            }
            let profiler = made.expect("a profiler");
            profiler.setup(Stage::Fit, &RunContext::default());
            drop(profiler.profile("training_step"));
            profiler.step();
            profiler.teardown(Some(Stage::Fit));
            let tables = directory.path().join("fit.parquet");
            assert_eq!(tables.is_dir(), asks);
            drop(std::fs::remove_dir_all(tables));
        }
    }

    #[test]
    fn an_error_is_printed_with_its_causes_once() {
        let inner = std::fs::read("/no/such/file").expect_err("it is not there");
        let cause = inner.to_string();
        let error = io::Error::other(inner);
        assert_eq!(with_causes(&error), cause);
        #[derive(Debug)]
        struct Refused(io::Error);
        impl std::fmt::Display for Refused {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("cannot resume")
            }
        }
        impl Error for Refused {
            fn source(&self) -> Option<&(dyn Error + 'static)> {
                Some(&self.0)
            }
        }
        assert_eq!(with_causes(&Refused(error)), format!("cannot resume: {cause}"));
    }

    #[test]
    fn a_page_holds_all_reports() {
        let directory = tempfile::tempdir().expect("a folder");
        let file = directory.path().join("reports.html");
        let options = parse(&["--profiler", "simple", "--html", &file.to_string_lossy()]);
        let profiler = SimpleProfiler::new();
        drop(profiler.profile("load"));
        let report = profiler.report().expect("a report");
        options.expect("valid").write_reports(&[report.clone(), report]).expect("written");
        let html = std::fs::read_to_string(&file).expect("a file");
        assert!(html.contains("<th scope=row>load<td") && html.contains("id=r1"), "{html}");
    }

    #[test]
    fn json_holds_all_reports_or_names_its_file() {
        let directory = tempfile::tempdir().expect("a folder");
        let file = directory.path().join("reports.json");
        let options = parse(&["--profiler", "simple", "--json", &file.to_string_lossy()]);
        let options = options.expect("valid");
        let reports: Vec<_> = SimpleProfiler::new().report().into_iter().collect();
        options.write_reports(&reports).expect("written");
        let json = std::fs::read_to_string(&file).expect("a file");
        assert_eq!(serde_json::from_str::<Vec<Report>>(&json).expect("reports"), reports);

        let options = parse(&["--json", "/no/such/folder/file"]).expect("valid");
        let error = options.write_reports(&reports).expect_err("refused").to_string();
        assert!(error.starts_with("/no/such/folder/file: "), "{error}");
    }
}
