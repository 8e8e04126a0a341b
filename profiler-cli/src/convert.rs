//! `mlprof convert`: reports and traces in the formats of other tools.

mod outputs;
mod speedscope;
mod stacks;
pub(crate) mod trace;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use profiler_core::report::{AdvancedReport, prof};
use profiler_core::trace::flame;
use profiler_core::{Report, Stage};

use self::outputs::{Output, Stem};
use self::stacks::Stacks;
use self::trace::Trace;
pub use crate::report::Error;
use crate::report::read::{self, Content};

/// Converts a report (JSON that mlprof wrote) or a trace (.pt.trace.json, .pt.trace.json.gz) for
/// other tools.
///
/// What there is:
///
///   Advanced report    prof, folded, svg, speedscope, json
///   trace              chrome, folded, svg, speedscope, json
///   other reports      json
///
/// An Advanced report holds sums per place in the call tree: folded, svg and speedscope show its
/// call trees by self time, in no order of time, and there is no time line to be made from it. Of a
/// trace, folded and svg show what threads did, by self time; speedscope shows what happened when,
/// with a profile per thread and per stream of a device.
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// The report or trace; compressed by gzip or not
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
}

/// What can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, clap::ValueEnum)]
#[non_exhaustive]
pub enum Format {
    /// Chrome's trace events, for Perfetto and chrome://tracing
    Chrome,
    /// Lines of outermost;…;innermost and microseconds, for flame graph tools
    Folded,
    /// A flame graph to open in a browser
    Svg,
    /// A file per action as Python's cProfile writes it, for pstats, snakeviz and gprof2dot
    Prof,
    /// For https://www.speedscope.app
    Speedscope,
    /// The same as indented JSON, not compressed
    Json,
}

impl Format {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Chrome => "chrome",
            Self::Folded => "folded",
            Self::Svg => "svg",
            Self::Prof => "prof",
            Self::Speedscope => "speedscope",
            Self::Json => "json",
        }
    }

    /// What its files end in.
    const fn ending(self) -> &'static str {
        match self {
            Self::Chrome => "pt.trace.json",
            Self::Folded => "folded",
            Self::Svg => "svg",
            Self::Prof => "prof",
            Self::Speedscope => "speedscope.json",
            Self::Json => "json",
        }
    }
}

const OF_TRACES: [Format; 5] =
    [Format::Chrome, Format::Folded, Format::Svg, Format::Speedscope, Format::Json];
const OF_CALL_TREES: [Format; 5] =
    [Format::Prof, Format::Folded, Format::Svg, Format::Speedscope, Format::Json];

/// Does it, and says on standard error which files were written.
///
/// # Errors
///
/// If the file cannot be read, there is no such conversion, or the result cannot be written.
pub fn run(arguments: &Arguments) -> Result<(), Error> {
    let outputs = match read::read(&arguments.file)? {
        Content::Trace(trace) => vec![of_trace(&trace, arguments)?],
        Content::Reports(reports) => {
            let is_only = reports.len() == 1;
            let mut outputs = Vec::new();
            for report in &reports {
                let stage = if is_only { None } else { stage_of(report) };
                outputs.extend(of_report(report, stage, arguments)?);
            }
            outputs
        }
    };
    outputs::write(outputs, arguments)
}

fn stage_of(report: &Report) -> Option<Stage> {
    crate::report::header(report).and_then(|header| header.stage)
}

fn of_trace(trace: &Trace, arguments: &Arguments) -> Result<Output, Error> {
    let name = arguments.file.display().to_string();
    let cut: u64 = trace.tracks.iter().map(|track| track.cut).sum();
    if cut > 0 && !matches!(arguments.to, Format::Chrome | Format::Json) {
        let _ = writeln!(
            io::stderr(),
            "note: {cut} slices outlive what is around them on their track; they end with it"
        );
    }
    let stem = Stem::default();
    match arguments.to {
        // It is in this format.
        Format::Chrome | Format::Json => {
            let file = arguments.file.clone();
            Ok(Output::new(stem, move |out| {
                io::copy(&mut read::open(&file)?, out)?;
                Ok(())
            }))
        }
        Format::Folded | Format::Svg => {
            let stacks = Stacks::of_trace(trace);
            let lines = lines_of(&stacks, "a trace", &OF_TRACES, arguments)?;
            Ok(Output::of_lines(stem, lines, format!("self time on the host: {name}"), arguments))
        }
        Format::Speedscope => Ok(Output::json(stem, speedscope::File::of_trace(&name, trace))),
        Format::Prof => Err(impossible(
            "a trace",
            arguments.to,
            "it says when ops ran, not which functions called which",
            &OF_TRACES,
        )),
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
    let (what, reason, possible) = match report {
        Report::Advanced(report) => match arguments.to {
            Format::Chrome => (
                "the report of an Advanced profiler",
                "it holds sums, which have no place on a time line; write a trace with the Tensor \
                 profiler",
                &OF_CALL_TREES[..],
            ),
            _ => return of_call_trees(report, stage, arguments),
        },
        Report::Simple(_) => (
            "the report of a Simple profiler",
            "it holds sums per action, not which action was inside which",
            &[Format::Json][..],
        ),
        Report::Tensor(_) => (
            "the report of a Tensor profiler",
            "it holds a table; convert the trace that was written beside it (.pt.trace.json.gz)",
            &[Format::Json][..],
        ),
        _ => ("this report", "it is of another kind", &[Format::Json][..]),
    };
    Err(impossible(what, arguments.to, reason, possible))
}

fn of_call_trees(
    report: &AdvancedReport,
    stage: Option<Stage>,
    arguments: &Arguments,
) -> Result<Vec<Output>, Error> {
    let what = "the report of an Advanced profiler";
    let stem = Stem::of_stage(stage);
    let name = arguments.file.display();
    if arguments.to == Format::Prof {
        if report.actions.is_empty() {
            let reason = "no action has ended in it";
            return Err(impossible(what, Format::Prof, reason, &OF_CALL_TREES));
        }
        let of_action = |action| {
            let bytes = prof::encode(action);
            Output::new(stem.clone().of_action(&action.label()), move |out| out.write_all(&bytes))
        };
        return Ok(report.actions.iter().map(of_action).collect());
    }
    let stacks = Stacks::of_report(report);
    let title = match report.header.stage {
        Some(stage) => format!("self time: {}, {name}", stage.as_str()),
        None => format!("self time: {name}"),
    };
    if arguments.to == Format::Speedscope {
        return Ok(vec![Output::json(stem, speedscope::File::of_stacks(&title, &stacks))]);
    }
    let lines = lines_of(&stacks, what, &OF_CALL_TREES, arguments)?;
    Ok(vec![Output::of_lines(stem, lines, title, arguments)])
}

/// Folded stacks; an error if there are none.
fn lines_of(
    stacks: &Stacks,
    what: &str,
    possible: &[Format],
    arguments: &Arguments,
) -> Result<Vec<String>, Error> {
    let lines = stacks.folded(arguments.by_thread);
    match lines.is_empty() {
        true => Err(impossible(what, arguments.to, "nothing in it took a microsecond", possible)),
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
    fn of_lines(stem: Stem, lines: Vec<String>, title: String, arguments: &Arguments) -> Self {
        let is_drawn = arguments.to == Format::Svg;
        Self::new(stem, move |out| match is_drawn {
            true => flame::draw(&lines, &title, "us", out),
            false => lines.iter().try_for_each(|line| writeln!(out, "{line}")),
        })
    }
}

/// The name of a file without the endings of reports and traces.
fn plain_stem(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut stem = name.as_str();
    for ending in [".gz", ".json", ".trace", ".pt"] {
        stem = stem.strip_suffix(ending).unwrap_or(stem);
    }
    stem.to_owned()
}
