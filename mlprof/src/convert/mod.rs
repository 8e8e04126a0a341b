//! `mlprof convert`: reports and traces in the formats of other tools.

mod format;
mod outputs;
mod speedscope;
mod stacks;

use std::cell::Cell;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;

use mlprof_analysis::trace::TrackKind;
use mlprof_analysis::{Trace, perfetto, xplane};
use mlprof_events::Stage;
use mlprof_report::Report;
use mlprof_report::folded;
use mlprof_report::samples::Samples;
use mlprof_report::{AdvancedReport, prof};

pub use self::format::Format;
use self::format::{OF_CALL_TREES, OF_SUMS, OF_TRACES};
use self::outputs::{Output, Stem};
use self::stacks::{Stacks, Unit};
pub use crate::report::Error;
use crate::report::read::{self, Content};
use crate::report::unpack;
use crate::say;
use crate::tables::{self, TraceFiles};
use crate::traces;

/// Converts a report (JSON that mlprof wrote) or a trace (.pt.trace.json, .pt.trace.json.gz) for
/// other tools.
///
/// What there is:
///
///   Advanced report    prof, folded, svg, speedscope, json
///   samples, memory    folded, svg, speedscope, json
///   trace              chrome, folded, svg, speedscope, json, pftrace, xplane, parquet
///   other reports      json
///
/// Reports hold sums: folded, svg and speedscope show call trees by self time (of samples by the
/// work that they stand for, or with --waiting by waiting; of memory by bytes) in no order of time, and there is no time line to be
/// made from them. Of a trace, folded and svg show what threads of the host did, by self time, and
/// with --devices also kernels and copies; speedscope shows what happened when, with a profile per
/// thread and per stream of a device.
///
/// Exit status: 0; 2 if the file or most of a trace's events cannot be read, or nothing can be
/// written. Events that can be read are converted all the same.
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// The report or trace, compressed by gzip or not; for pftrace and xplane also a folder of tables
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// What to convert it to
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub to: Format,
    /// The file to write, or the folder if there are several; - for standard output
    ///
    /// By default beside FILE and named after it; JSON goes to standard output. A file that is there
    /// already is replaced.
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<PathBuf>,
    /// folded, svg: do not put threads together, but below a frame for each
    #[arg(long)]
    pub by_thread: bool,
    /// folded, svg of a trace: add what devices did, below a frame for each device and stream
    ///
    /// Threads and devices work at the same time: the sum of all is longer than the trace. A trace
    /// without threads has its devices without this option.
    #[arg(long)]
    pub devices: bool,
    /// Advanced reports that were sampled, too: the samples, not the call trees
    #[arg(long)]
    pub samples: bool,
    /// Samples: where threads waited, not where they worked
    #[arg(long)]
    pub waiting: bool,
    /// Memory: which blocks
    #[arg(long, value_name = "BLOCKS", value_enum, default_value_t = Blocks::Peak)]
    pub memory: Blocks,
}

/// Which blocks of memory are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Blocks {
    /// Those that were alive when the process had most
    Peak,
    /// Those that were still alive at the end
    Alive,
    /// Large copies
    Copies,
}

/// Converts the file, and says on standard error which files were written. Returns the status that
/// the command ends with.
///
/// # Errors
///
/// If the file cannot be read, there is no such conversion, or the result cannot be written.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Error> {
    if arguments.to == Format::Parquet {
        let beside = || arguments.file.with_file_name(plain_stem(&arguments.file) + ".parquet");
        let trace = unpack::trace(&arguments.file)?;
        let end = say::losses(&trace, &arguments.file);
        tables::write(&trace, &arguments.output.clone().unwrap_or_else(beside))?;
        return Ok(end);
    }
    if tables::is_folder_of_tables(&arguments.file) {
        return of_tables(arguments);
    }
    let trace = match arguments.to {
        Format::Xplane => unpack::trace_for_xprof,
        _ => unpack::trace,
    };
    let mut end = ExitCode::SUCCESS;
    let outputs = match read::read(&arguments.file, trace)? {
        Content::Trace(trace) => {
            end = say::losses(&trace, &arguments.file);
            vec![of_trace(*trace, arguments)?]
        }
        Content::Reports(reports) => {
            let is_only = reports.len() == 1;
            let mut outputs = Vec::new();
            for report in &reports {
                let stage = if is_only { None } else { report.header().stage };
                outputs.extend(of_report(report, stage, arguments)?);
            }
            outputs
        }
    };
    outputs::write(outputs, arguments)?;
    Ok(end)
}

/// Each trace of a folder of tables, one after the other: there may be many.
fn of_tables(arguments: &Arguments) -> Result<ExitCode, Error> {
    if !matches!(arguments.to, Format::Pftrace | Format::Xplane) {
        return Err(impossible(
            "a folder of tables",
            arguments.to,
            "it may hold many traces; convert the traces that they were made of",
            &[Format::Pftrace, Format::Xplane],
        ));
    }
    let to = arguments.to;
    let end = Rc::new(Cell::new(ExitCode::SUCCESS));
    let output = |files: TraceFiles| {
        let end = end.clone();
        let path = tables::path(&files);
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Output::new(Stem::default().of_action(&name), move |out| {
            let trace = tables::read(&files).map_err(io::Error::other)?;
            if let Some(status) = traces::end_after_losses(&trace, &path, "converted") {
                end.set(status);
            }
            write_binary(&trace, to, out)
        })
    };
    let outputs = tables::find(&arguments.file)?.into_iter().map(output).collect();
    outputs::write(outputs, arguments)?;
    Ok(end.get())
}

fn of_trace(trace: Trace, arguments: &Arguments) -> Result<Output, Error> {
    let name = arguments.file.display().to_string();
    let stem = Stem::default();
    match arguments.to {
        // It is in this format.
        Format::Chrome | Format::Json => {
            let file = arguments.file.clone();
            Ok(Output::new(stem, move |out| {
                io::copy(&mut unpack::text(&file)?, out)?;
                Ok(())
            }))
        }
        Format::Folded | Format::Svg => {
            tell_crossing(&trace);
            let stacks = Stacks::of_trace(&trace, arguments.devices);
            let lines = lines_of(&stacks, "a trace", &OF_TRACES, arguments)?;
            let has_devices = stacks.threads.iter().any(|stacks| stacks.thread.is_none());
            let title = match has_devices {
                true => format!("self time on the host, and time of devices: {name}"),
                false => format!("self time on the host: {name}"),
            };
            if !has_devices {
                tell_without_devices(&trace);
            }
            Ok(Output::of_lines(stem, lines, title, stacks.unit, arguments))
        }
        Format::Speedscope => Ok(Output::json(stem, speedscope::File::of_trace(&name, &trace))),
        Format::Pftrace | Format::Xplane => {
            let to = arguments.to;
            Ok(Output::new(stem, move |out| write_binary(&trace, to, out)))
        }
        Format::Prof | Format::Parquet => Err(impossible(
            "a trace",
            arguments.to,
            "it says when ops ran, not which functions called which",
            &OF_TRACES,
        )),
    }
}

/// In Perfetto's own format or XProf's.
fn write_binary(trace: &Trace, to: Format, out: &mut dyn Write) -> io::Result<()> {
    match to {
        Format::Xplane => xplane::write(trace, out),
        _ => {
            tell_left_out(&perfetto::write(trace, out)?);
            Ok(())
        }
    }
}

/// Says that the work of devices is left out, if there is any.
fn tell_without_devices(trace: &Trace) {
    let count = trace.slices.iter().filter(|slice| slice.category.is_device_work()).count();
    if count > 0 {
        mlprof_report::output::say(format_args!(
            "note: the stacks are those of the host: {count} kernels, copies and fills of devices are left out \
             (--devices adds them)"
        ));
    }
}

/// Says which slices have no place in a tree.
fn tell_crossing(trace: &Trace) {
    let crossing = trace
        .tracks
        .iter()
        .filter(|track| track.overlaps.is_some() && track.kind != TrackKind::Stream);
    let count: usize = crossing.map(|track| track.slices.len()).sum();
    if count > 0 {
        mlprof_report::output::say(format_args!(
            "note: {count} slices cross others of their track and are left out: their time would be counted twice"
        ));
    }
}

fn tell_left_out(written: &perfetto::Written) {
    if written.flows_left_out > 0 {
        mlprof_report::output::say(format_args!(
            "note: {} of {} arrows are left out: they lead back in time, as Perfetto's cannot",
            written.flows_left_out,
            written.flows + written.flows_left_out
        ));
    }
}

fn of_report(
    report: &Report,
    stage: Option<Stage>,
    arguments: &Arguments,
) -> Result<Vec<Output>, Error> {
    if arguments.to == Format::Json {
        let report = report.clone();
        return Ok(vec![Output::json(Stem::of_stage(stage), report)]);
    }
    let sums = |what: &str, stacks: &Stacks, title: &str| {
        of_stacks(what, stacks, (title, report), stage, arguments).map(|output| vec![output])
    };
    let of_samples = |samples: &Samples| {
        let title = if arguments.waiting { "waiting, estimated" } else { "work, estimated" };
        sums("samples", &Stacks::of_samples(samples, arguments.waiting), title)
    };
    match report {
        Report::Advanced(report) if arguments.samples => match &report.samples {
            Some(samples) => of_samples(samples),
            None => Err(impossible(
                "the report of an Advanced profiler",
                arguments.to,
                "nothing was sampled; leave --samples away",
                &OF_CALL_TREES,
            )),
        },
        Report::Advanced(report) if arguments.to == Format::Prof => profs(report, stage),
        Report::Advanced(report) => {
            let what = "the report of an Advanced profiler";
            sums(what, &Stacks::of_report(report), "self time")
        }
        Report::Samples(report) => of_samples(&report.samples),
        Report::Memory(report) => {
            let (tree, title) = match arguments.memory {
                Blocks::Peak => (&report.peak, "memory at its peak"),
                Blocks::Alive => (&report.alive, "memory that is still alive"),
                Blocks::Copies => (&report.copies, "large copies"),
            };
            sums("the report of memory", &Stacks::of_memory(tree), title)
        }
        other => {
            let (what, reason) = without_stacks(other);
            Err(impossible(what, arguments.to, reason, &[Format::Json]))
        }
    }
}

/// Reports that hold no call trees, and why they cannot be converted.
fn without_stacks(report: &Report) -> (&'static str, &'static str) {
    match report {
        Report::Simple(_) => (
            "the report of a Simple profiler",
            "it holds sums per action, not which action was inside which",
        ),
        Report::Tensor(_) => (
            "the report of a Tensor profiler",
            "it holds a table; convert the trace that was written beside it (.pt.trace.json.gz)",
        ),
        Report::Lines(_) => (
            "the report of a line profiler",
            "it holds sums per line, not which function called which",
        ),
        Report::Numerics(_) => {
            ("the report of a numerics profiler", "it holds the numbers of tensors, and no times")
        }
        _ => ("this report", "it is of a kind that this version does not know"),
    }
}

fn profs(report: &AdvancedReport, stage: Option<Stage>) -> Result<Vec<Output>, Error> {
    if report.actions.is_empty() {
        let (what, reason) = ("the report of an Advanced profiler", "no action has ended in it");
        return Err(impossible(what, Format::Prof, reason, &OF_CALL_TREES));
    }
    let of_action = |action| {
        let bytes = prof::encode(action);
        let stem = Stem::of_stage(stage).of_action(&action.label());
        Output::new(stem, move |out| out.write_all(&bytes))
    };
    Ok(report.actions.iter().map(of_action).collect())
}

/// Stacks as folded lines, a picture or for speedscope.
fn of_stacks(
    what: &str,
    stacks: &Stacks,
    (title, report): (&str, &Report),
    stage: Option<Stage>,
    arguments: &Arguments,
) -> Result<Output, Error> {
    let (stem, name) = (Stem::of_stage(stage), arguments.file.display());
    let title = match report.header().stage {
        Some(stage) => format!("{title}: {}, {name}", stage.as_str()),
        None => format!("{title}: {name}"),
    };
    let is_sampled_or_memory = !matches!(report, Report::Advanced(_)) || arguments.samples;
    let possible = if is_sampled_or_memory { &OF_SUMS[..] } else { &OF_CALL_TREES[..] };
    match arguments.to {
        Format::Speedscope => {
            tell_cut(stacks);
            Ok(Output::json(stem, speedscope::File::of_stacks(&title, stacks)))
        }
        Format::Folded | Format::Svg => {
            let lines = lines_of(stacks, what, possible, arguments)?;
            Ok(Output::of_lines(stem, lines, title, stacks.unit, arguments))
        }
        _ => Err(impossible(
            what,
            arguments.to,
            "it holds sums, which have no place on a time line and are not those of calls; the \
             Tensor profiler writes time lines",
            possible,
        )),
    }
}

/// Says how much of the stacks was cut.
fn tell_cut(stacks: &Stacks) {
    let cut = stacks.cut;
    if cut > 0 {
        mlprof_report::output::say(format_args!(
            "note: {cut} calls or slices are further inside than stacks go ({} frames, {} stacks, {} MiB \
             of folded text); all below the same frame are one frame, {}",
            folded::MOST_FRAMES,
            folded::MOST_STACKS,
            folded::MOST_BYTES >> 20,
            folded::CUT
        ));
    }
}

/// Folded stacks; an error if there are none.
fn lines_of(
    stacks: &Stacks,
    what: &str,
    possible: &[Format],
    arguments: &Arguments,
) -> Result<Vec<String>, Error> {
    tell_cut(stacks);
    let lines = stacks.folded(arguments.by_thread);
    match lines.is_empty() {
        true => Err(impossible(what, arguments.to, "there is nothing in it", possible)),
        false => Ok(lines),
    }
}

fn impossible(what: &str, format: Format, reason: &str, possible: &[Format]) -> Error {
    let possible: Vec<_> = possible.iter().map(|format| format.as_str()).collect();
    Error::NoConversion {
        what: what.to_owned(),
        format: format.as_str(),
        reason: reason.to_owned(),
        possible: possible.join(", "),
    }
}

impl Output {
    /// Folded stacks as they are, or drawn.
    fn of_lines(
        stem: Stem,
        lines: Vec<String>,
        title: String,
        unit: Unit,
        arguments: &Arguments,
    ) -> Self {
        let is_drawn = arguments.to == Format::Svg;
        Self::new(stem, move |out| match is_drawn {
            true => folded::draw(&lines, &title, unit.of_folded(), out),
            false => lines.iter().try_for_each(|line| writeln!(out, "{line}")),
        })
    }
}

/// The name of a file without the endings of reports and traces.
fn plain_stem(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut stem = name.as_str();
    for ending in [".gz", ".json", ".trace", ".pt", ".parquet"] {
        stem = stem.strip_suffix(ending).unwrap_or(stem);
    }
    stem.to_owned()
}
