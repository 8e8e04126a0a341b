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

/// Puts the traces of several ranks on one time line, and says who holds the others up.
///
/// How the ranks' times differ is found by the machine's clock where they ran on one machine, else by collectives
/// (profile_collective!, NCCL's kernels), else by nothing: it is said for each rank, with the error. All times
/// become those of the first rank.
///
/// Who holds the others up is found without clocks: in each step, stage by stage, by how much the last rank moves
/// the end of it on. Devices are judged beside hosts, by what they compute and copy for a step. The
/// verdict says what was not judged.
///
/// Several traces of one rank are its cycles if they were recorded one after the other and have no
/// step in common.
///
/// Exit status: 0; 2 if a trace or most of its events cannot be read, or nothing can be written.
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// The traces (.json, .json.gz), or folders with traces; RANK=TRACE gives the rank of one that
    /// does not state it (distributedInfo, or rank3 in its name)
    #[arg(value_name = "TRACE", required = true)]
    pub traces: Vec<PathBuf>,
    /// Where to: OUT.json or OUT.json.gz for one trace that any viewer shows, OUT.tar for Perfetto, in which each
    /// rank is a machine of its own
    #[arg(long, short, value_name = "OUT")]
    pub output: Option<PathBuf>,
    /// Print what was found as JSON
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
    #[error("{path} is a folder of tables: what is merged into one file are traces as JSON")]
    Tables {
        /// Path of the folder.
        path: String,
    },
    /// None of the traces can be read.
    #[error("none of the traces can be read")]
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
    #[error("{path}: the name must end in .json, .json.gz or .tar", path = .path.display())]
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
                let status = traces::end_after_losses(&trace, &source.path(), "put together");
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
    report::heard(print(StandardStream::Output, text.as_bytes()))?;
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
