//! `mlprof merge`: combines the traces of several ranks on one timeline.

mod archive;

use mlprof_events::error_chain::Chain;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use flate2::Compression;
use flate2::write::GzEncoder;
use mlprof_analysis::kineto::Merge;
use mlprof_analysis::ranks::{Placed, RankFacts, Ranks};
use mlprof_events::files::{StandardStream, print};
use mlprof_report::output::{say, write_file};

use crate::report::{self, unpack};
use crate::traces;

/// Merge the traces of several ranks into one timeline, and find the slowest rank
///
/// All times are converted to the clock of the first rank. The offset of a rank comes from the
/// clock of the machine if the ranks ran on the same one, and otherwise from collectives
/// (profile_collective!, NCCL kernels). The command prints the source and the error of each offset.
/// A rank without either keeps its own times.
///
/// The rank that delays the others is found without clocks. For each step and stage, the command
/// computes by how much the last rank delays the end. It compares hosts, and also devices by their
/// computation and copies. The result states what was not judged.
///
/// Several traces of one rank are cycles of the same run if they were recorded one after the other
/// and have no step in common.
///
/// Exit codes:
///
///   0    success
///   2    an error: a trace or most of its events cannot be read, or nothing can be written
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Traces (.json, .json.gz), or folders of traces
    ///
    /// The rank of a trace is stored in the file, or its file name contains it, as in rank3.
    /// RANK=TRACE sets the rank of any other trace.
    #[arg(value_name = "TRACE", required = true)]
    pub traces: Vec<PathBuf>,
    /// Output file of the merged trace: .json, .json.gz or .tar
    ///
    /// A .json or .json.gz file is one trace for any viewer. A .tar file is for Perfetto, which
    /// shows each rank as a separate machine. Without this option, only the analysis is printed.
    #[arg(long, short, value_name = "OUT")]
    pub output: Option<PathBuf>,
    /// Print the analysis as JSON
    #[arg(long)]
    pub json: bool,
}

/// Error that prevents the merge.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The traces cannot be found.
    #[error(transparent)]
    Find(#[from] traces::Error),
    /// The traces do not belong to the same run.
    #[error(transparent)]
    Ranks(#[from] mlprof_analysis::Error),
    /// An input is a folder of tables, but an output file is requested.
    #[error(
        "cannot merge {path} into a file: it is a folder of tables, and only JSON traces can be \
         merged"
    )]
    Tables {
        /// Path of the folder.
        path: String,
    },
    /// None of the traces can be read.
    #[error("cannot read any of the traces")]
    NoneReadable,
    /// The merged file cannot be written.
    #[error("cannot write {path}", path = .path.display())]
    Write {
        /// Path of the file.
        path: PathBuf,
        /// I/O error.
        #[source]
        error: io::Error,
    },
    /// The output's extension does not determine a format.
    #[error(
        "cannot write {path}: the name must end in .json, .json.gz or .tar",
        path = .path.display()
    )]
    Output {
        /// Path of the output.
        path: PathBuf,
    },
    /// The analysis cannot be printed.
    #[error(transparent)]
    Print(#[from] report::Error),
}

/// Format of the merged file.
#[derive(Clone, Copy)]
enum Form {
    Json,
    CompressedJson,
    Archive,
}

impl Form {
    fn of(path: &Path) -> Result<Self, Error> {
        let name = path.to_string_lossy();
        match () {
            () if name.ends_with(".json") => Ok(Self::Json),
            () if name.ends_with(".json.gz") => Ok(Self::CompressedJson),
            () if name.ends_with(".tar") => Ok(Self::Archive),
            () => Err(Error::Output { path: path.to_owned() }),
        }
    }
}

/// Prints the analysis across ranks, and writes the traces into one file. Returns the exit code.
/// Unreadable traces are reported, and the other traces are still merged.
///
/// # Errors
///
/// Returns an error if no trace can be read, if two traces conflict as the same rank, or if the
/// output cannot be written.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Error> {
    // An invalid output name is reported before any input is read.
    let form = arguments.output.as_deref().map(Form::of).transpose()?;
    let sources = traces::of(&arguments.traces)?;
    let mut end = ExitCode::SUCCESS;
    let mut facts = Vec::new();
    for source in &sources {
        let path = source.path().display().to_string();
        if let (traces::Source::Tables(_), Some(_)) = (source, form) {
            return Err(Error::Tables { path });
        }
        match traces::read(source) {
            Ok(trace) => {
                let status = traces::end_after_losses(&trace, &source.path(), "merged");
                end = status.unwrap_or(end);
                facts.push(RankFacts::of(path, &trace));
            }
            Err(error) => {
                say(format_args!("error: {}", Chain(&error)));
                end = ExitCode::from(2);
            }
        }
    }
    if facts.is_empty() {
        return Err(Error::NoneReadable);
    }
    let ranks = Ranks::of(&facts)?;
    if let (Some(path), Some(form)) = (&arguments.output, form) {
        write(path, form, &ranks).map_err(|error| Error::Write { path: path.clone(), error })?;
    }
    let text = match arguments.json {
        true => report::json(serde_json::to_string(&ranks))? + "\n",
        false => ranks.text(),
    };
    report::ignore_closed_pipe(print(StandardStream::Output, text.as_bytes()))?;
    Ok(end)
}

fn write(path: &Path, form: Form, ranks: &Ranks) -> io::Result<()> {
    write_file(path, |file| {
        let buffered = BufWriter::with_capacity(1 << 16, file);
        match form {
            Form::Json => merged(buffered, ranks, &ranks.files).map(drop),
            Form::CompressedJson => {
                let encoder = GzEncoder::new(buffered, Compression::fast());
                merged(encoder, ranks, &ranks.files)?.finish()?.flush()
            }
            Form::Archive => archive::write(buffered, ranks),
        }
    })
}

/// Writes the traces of the given files as one trace.
fn merged<W: Write>(out: W, ranks: &Ranks, files: &[Placed]) -> io::Result<W> {
    let mut merge = Merge::begin(out, ranks)?;
    for placed in files {
        let text = unpack::text(Path::new(&placed.file))?;
        merge.add(placed, text).map_err(|error| match error {
            mlprof_analysis::Error::Io(error) => error,
            other => io::Error::other(format!("{}: {other}", placed.file)),
        })?;
    }
    merge.finish()
}
