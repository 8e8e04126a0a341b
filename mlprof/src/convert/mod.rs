//! `mlprof convert`: converts reports and traces to the formats of other tools.

mod format;
mod outputs;
mod reports;
mod speedscope;
mod stacks;
mod timelines;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use mlprof_report::folded;

pub use self::format::Format;
use self::outputs::{Output, Stem};
use self::stacks::{Stacks, Unit};
pub use crate::report::Error;
use crate::report::read::{self, Content};
use crate::report::unpack;
use crate::say;
use crate::tables;

/// Convert a report or a trace to the file format of another tool
///
/// FILE is a report that mlprof wrote as JSON, or a trace (.pt.trace.json, .pt.trace.json.gz).
///
/// Formats, by content of FILE:
///
///   Advanced report    prof, folded, svg, speedscope, json
///   samples, memory    folded, svg, speedscope, json
///   trace              chrome, folded, svg, speedscope, json, pftrace, xplane, parquet
///   other reports      json
///
/// Reports hold totals and no timeline. For reports, folded, svg and speedscope contain call trees,
/// weighted by self time, by estimated working or waiting time (samples) or by bytes (memory).
///
/// For traces, folded and svg contain the self time of host threads, and with --devices also
/// kernels and copies. speedscope contains a timeline for each thread and for each stream of a
/// device.
///
/// The paths of the written files are printed on standard error.
///
/// Exit codes:
///
///   0    success
///   2    an error: FILE or most of the events of a trace cannot be read, or nothing can be written
///
/// Readable events are converted even if most of a trace is unreadable.
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Report or trace, plain or gzip-compressed; for pftrace and xplane also a folder of tables
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Output format
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub to: Format,
    /// Output file, or folder for several outputs; - is standard output
    ///
    /// By default, outputs are written next to FILE and named after it, and JSON goes to standard
    /// output. An existing file is replaced.
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<PathBuf>,
    /// folded, svg: keep threads separate, each below a frame of its own
    #[arg(long)]
    pub by_thread: bool,
    /// folded, svg of a trace: include device work, below a frame for each device and stream
    ///
    /// Threads and devices work in parallel, so the total exceeds the duration of the trace. If a
    /// trace has no threads, its device work is always included.
    #[arg(long)]
    pub devices: bool,
    /// Convert the samples of an Advanced report instead of its call trees
    #[arg(long)]
    pub samples: bool,
    /// Samples: weight stacks by waiting time instead of working time
    #[arg(long)]
    pub waiting: bool,
    /// Memory: blocks to convert
    #[arg(long, value_name = "BLOCKS", value_enum, default_value_t = Blocks::Peak)]
    pub memory: Blocks,
}

/// Memory blocks to convert.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Blocks {
    /// Blocks that were alive when the process used the most memory
    Peak,
    /// Blocks that were still alive at the end
    Alive,
    /// Large copies
    Copies,
}

/// Converts the file and prints the paths of the written files to standard error. Returns the exit
/// code.
///
/// # Errors
///
/// Returns an error if the file cannot be read, if the conversion is not supported, or if the
/// result cannot be written.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Error> {
    if arguments.to == Format::Parquet {
        let beside = || arguments.file.with_file_name(plain_stem(&arguments.file) + ".parquet");
        let trace = unpack::trace(&arguments.file)?;
        let end = say::losses(&trace, &arguments.file);
        tables::write(&trace, &arguments.output.clone().unwrap_or_else(beside))?;
        return Ok(end);
    }
    if tables::is_folder_of_tables(&arguments.file) {
        return timelines::of_tables(arguments);
    }
    let trace = match arguments.to {
        Format::Xplane => unpack::trace_for_xprof,
        _ => unpack::trace,
    };
    let mut end = ExitCode::SUCCESS;
    let outputs = match read::read(&arguments.file, trace)? {
        Content::Trace(trace) => {
            end = say::losses(&trace, &arguments.file);
            vec![timelines::of_trace(*trace, arguments)?]
        }
        Content::Reports(reports) => {
            let is_only = reports.len() == 1;
            let mut outputs = Vec::new();
            for report in &reports {
                let stage = if is_only { None } else { report.header().stage };
                outputs.extend(reports::of_report(report, stage, arguments)?);
            }
            outputs
        }
    };
    outputs::write(outputs, arguments)?;
    Ok(end)
}

/// Prints a note if stacks were truncated.
fn tell_cut(stacks: &Stacks) {
    let cut = stacks.cut;
    if cut > 0 {
        mlprof_report::output::say(format_args!(
            "note: {cut} calls or slices exceed the limits of stacks ({} frames, {} stacks, {} MiB \
             of folded text); those with the same parent are merged into one frame, {}",
            folded::MOST_FRAMES,
            folded::MOST_STACKS,
            folded::MOST_BYTES >> 20,
            folded::CUT
        ));
    }
}

/// Returns the folded stacks.
///
/// # Errors
///
/// Returns an error if there are no stacks.
fn lines_of(
    stacks: &Stacks,
    what: &str,
    possible: &[Format],
    arguments: &Arguments,
) -> Result<Vec<String>, Error> {
    tell_cut(stacks);
    let lines = stacks.folded(arguments.by_thread);
    match lines.is_empty() {
        true => Err(impossible(what, arguments.to, "it contains no data", possible)),
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
    /// Creates an output with folded stacks, either as text or drawn as SVG.
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

/// Returns the file name without the extensions of reports and traces.
fn plain_stem(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut stem = name.as_str();
    for ending in [".gz", ".json", ".trace", ".pt", ".parquet"] {
        stem = stem.strip_suffix(ending).unwrap_or(stem);
    }
    stem.to_owned()
}
