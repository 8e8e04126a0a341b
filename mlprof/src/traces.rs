//! Finds and reads the traces that the command line names.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use mlprof_analysis::Trace;
use mlprof_analysis::rollups::Rollups;
use mlprof_analysis::trace::Info;
use mlprof_report::output::say;

use crate::report::{self, unpack};
use crate::tables::{self, TraceFiles};

/// Error that prevents finding or reading traces.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The folder contains no traces.
    #[error("cannot find a trace in {path}: it contains no .json or .json.gz file",
        path = .path.display())]
    NoTraces {
        /// Path of the folder.
        path: PathBuf,
    },
    /// A rank was given for a folder of tables.
    #[error("cannot set the rank of {path}: its tables contain their ranks; omit RANK=",
        path = .path.display())]
    RankOfTables {
        /// Path of the folder.
        path: PathBuf,
    },
    /// Most of the trace cannot be read.
    #[error("{0}")]
    Unreadable(String),
    /// A folder or a trace cannot be read.
    #[error(transparent)]
    Read(#[from] report::Error),
}

/// Location of a trace.
pub(crate) enum Source {
    /// Trace in a JSON file.
    Json {
        /// Path of the file.
        path: PathBuf,
        /// Rank given on the command line, if any.
        rank: Option<u32>,
    },
    /// Trace in tables.
    Tables(TraceFiles),
}

impl Source {
    /// Returns the path shown in messages.
    pub(crate) fn path(&self) -> PathBuf {
        match self {
            Self::Json { path, .. } => path.clone(),
            Self::Tables(files) => tables::path(files),
        }
    }
}

/// Returns the named files, and the traces in the named folders, sorted by name. `3=FILE` gives the
/// rank.
pub(crate) fn of(named: &[PathBuf]) -> Result<Vec<Source>, Error> {
    let mut sources = Vec::new();
    for named in named {
        let (rank, path) = given_rank(named);
        match tables::is_folder_of_tables(path) {
            true if rank.is_some() => return Err(Error::RankOfTables { path: path.to_owned() }),
            true => sources.extend(tables::find(path)?.into_iter().map(Source::Tables)),
            false => sources.extend(files(path, rank)?),
        }
    }
    Ok(sources)
}

/// Splits `3=FILE` into rank and path, unless a file has that name.
fn given_rank(named: &Path) -> (Option<u32>, &Path) {
    let split = named.to_str().and_then(|text| text.split_once('='));
    match split.map(|(rank, path)| (rank.parse::<u32>(), Path::new(path))) {
        Some((Ok(rank), path)) if rank < Info::MOST_RANKS && !named.exists() => (Some(rank), path),
        _ => (None, named),
    }
}

/// Returns the traces in a file or folder for reading their rollups. The tables of slices may be
/// missing.
pub(crate) fn of_rollups(path: &Path) -> Result<Vec<Source>, Error> {
    match tables::is_folder_of_rollups(path) {
        true => Ok(tables::find_rollups(path)?.into_iter().map(Source::Tables).collect()),
        false => files(path, None),
    }
}

fn files(path: &Path, rank: Option<u32>) -> Result<Vec<Source>, Error> {
    let source = |path| Source::Json { path, rank };
    match path.is_dir() {
        true => Ok(inside(path)?.into_iter().map(source).collect()),
        false => Ok(vec![source(path.to_owned())]),
    }
}

fn inside(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let unreadable = |error| report::Error::Read { path: folder.to_owned(), error };
    let mut files = Vec::new();
    for entry in folder.read_dir().map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        if name.is_some_and(|name| name.ends_with(".json") || name.ends_with(".json.gz")) {
            files.push(path);
        }
    }
    // Reports may lie beside the traces. If some file names identify traces, only those files are
    // used.
    let is_trace = |path: &PathBuf| path.to_string_lossy().contains(".trace.json");
    if files.iter().any(is_trace) {
        files.retain(is_trace);
    }
    files.sort();
    if files.is_empty() {
        return Err(Error::NoTraces { path: folder.to_owned() });
    }
    Ok(files)
}

/// Reads a trace. Its rank is the given one, otherwise the one stored in the file, otherwise the
/// one in the file name.
pub(crate) fn read(source: &Source) -> Result<Trace, report::Error> {
    let (path, rank) = match source {
        Source::Tables(files) => return tables::read(files),
        Source::Json { path, rank } => (path, *rank),
    };
    let mut trace = unpack::trace(path)?;
    let info = &mut trace.info;
    let of_name = || if info.has_rank { None } else { rank_in_name(path) };
    if let Some(rank) = rank.or_else(of_name) {
        (info.rank, info.has_rank) = (rank, true);
        info.world_size = info.world_size.max(rank.saturating_add(1));
    }
    Ok(trace)
}

/// Returns the rank in the name of a file or its folder, such as `rank3.json` and
/// `trace_rank-3.json.gz`.
fn rank_in_name(path: &Path) -> Option<u32> {
    let folder = path.parent().and_then(Path::file_name);
    let names = [path.file_name(), folder].into_iter().flatten();
    names.map(|name| name.to_string_lossy().to_ascii_lowercase()).find_map(|name| {
        let places = name.rmatch_indices("rank");
        places.map(|(place, _)| &name[place + 4..]).find_map(|after| {
            let digits = after.trim_start_matches(['_', '-', '.', '=', '[', ' ']);
            let end = digits.find(|letter: char| !letter.is_ascii_digit());
            let rank = digits[..end.unwrap_or(digits.len())].parse::<u32>().ok();
            rank.filter(|rank| *rank < Info::MOST_RANKS)
        })
    })
}

/// Exit code for a file that cannot be read, or whose events mostly cannot be read.
const MOST_IS_LOST: u8 = 2;

/// Returns an error message if most of the trace cannot be read.
fn mostly_unreadable(info: &Info, path: &Path) -> Option<String> {
    info.is_mostly_unreadable().then(|| {
        format!(
            "cannot read most of {}: {} of {} events are lost",
            path.display(),
            info.not_understood,
            info.events
        )
    })
}

/// Prints an error if most of a trace is lost, and returns the resulting exit code. `others`
/// describes what happens to the readable events.
pub(crate) fn end_after_losses(trace: &Trace, path: &Path, others: &str) -> Option<ExitCode> {
    let reason = mostly_unreadable(&trace.info, path)?;
    say(format_args!("error: {reason}; the other events are {others}"));
    Some(ExitCode::from(MOST_IS_LOST))
}

/// Reads the rollups of a trace.
pub(crate) fn read_rollups(source: &Source) -> Result<Rollups, Error> {
    let sums = match source {
        Source::Tables(files) => tables::read_rollups(files)?,
        Source::Json { .. } => Rollups::of(&read(source)?),
    };
    match mostly_unreadable(&sums.info, &source.path()) {
        Some(reason) => Err(Error::Unreadable(reason)),
        None => Ok(sums),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_state_ranks() {
        for (name, expected) in [
            ("rank3.json", Some(3)),
            ("a/trace_rank-12.pt.trace.json.gz", Some(12)),
            ("Rank_[4]_step_10.json", Some(4)),
            ("dp0_pp0_tp3_rank5.123.pt.trace.json.gz", Some(5)),
            ("rank_7/trace.json", Some(7)),
            ("franking.json", None),
            ("rank20261127.json", None),
            ("node1_400.1700000000.pt.trace.json", None),
        ] {
            assert_eq!(rank_in_name(Path::new(name)), expected, "{name}");
        }
    }

    #[test]
    fn ranks_are_given_before_files() {
        assert_eq!(given_rank(Path::new("3=a.json")), (Some(3), Path::new("a.json")));
        for name in ["a.json", "a=b.json", "=b", "-1=b", "4000000000=b"] {
            assert_eq!(given_rank(Path::new(name)), (None, Path::new(name)));
        }
    }
}
