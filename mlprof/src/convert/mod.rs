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

/// Memory blocks to convert.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Blocks {
    /// Those that were alive when the process had most
    Peak,
    /// Those that were still alive at the end
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
            "note: {cut} calls or slices are further inside than stacks go ({} frames, {} stacks, {} MiB \
             of folded text); all below the same frame are one frame, {}",
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
