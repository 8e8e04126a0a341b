//! `mlprof record`: a few steps of a training that runs, as a trace.

use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread::ScopedJoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

use profiler_events::live::{
    Answer, LONGEST_RECORDING, MOST_STEPS, RecordRequest, Recorded, Request,
};
use profiler_report::output::{safe_file_name, say, write_file};

use super::client::Client;
use super::ranks::{Group, Member};
use super::{Error, print, ranks};

/// How many steps are recorded if nothing is said.
const STEPS: u64 = 5;

/// Records a few steps of a training that runs, and writes them as a trace (.pt.trace.json.gz).
///
/// The training goes on, and needs no profiler: what it has goes on measuring beside it. Steps are whole; the one
/// before them warms up and is not in the trace. With --seconds the steps are recorded that run during that time; where
/// none begins, whatever happens is, without steps.
///
/// Of a training in several processes all that are on this machine are recorded, at the same steps: a file for each, with its
/// rank. Who cannot be is said, and the others are recorded.
///
/// The path of the trace is printed. mlprof analyze, mlprof report's tools, Perfetto and TensorBoard read it.
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// The number of its process, or of any one of them: mlprof ps lists them
    #[arg(value_name = "PID")]
    pub process: u32,
    /// How many steps; 5 if neither this nor --seconds is given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MOST_STEPS))]
    pub steps: Option<u64>,
    /// For how many seconds
    #[arg(long, value_name = "S", conflicts_with = "steps", value_parser = seconds)]
    pub seconds: Option<f64>,
    /// Record tensor ops and what devices do, beside actions, modules and functions
    #[arg(long)]
    pub ops: bool,
    /// Record the shapes of ops' inputs, and ops
    #[arg(long)]
    pub shapes: bool,
    /// Record allocations and frees
    #[arg(long)]
    pub memory: bool,
    /// Record this process only, and none that trains together with it
    #[arg(long)]
    pub only: bool,
    /// The folder that the trace is written to; it is made if need be
    #[arg(short, long, value_name = "FOLDER", default_value = ".")]
    pub output: PathBuf,
}

/// A time that can be recorded.
fn seconds(text: &str) -> Result<f64, String> {
    let longest = LONGEST_RECORDING as f64 / 1e3;
    match text.parse::<f64>() {
        Ok(seconds) if seconds >= 1e-3 && seconds <= longest => Ok(seconds),
        _ => Err(format!("between 0.001 and {longest} seconds can be recorded")),
    }
}

impl Arguments {
    /// Five steps of a process alone, into the current folder.
    pub(super) fn of_steps(process: u32) -> Self {
        let (steps, seconds) = (None, None);
        let (ops, shapes, memory) = (false, false, false);
        let output = PathBuf::from(".");
        Self { process, steps, seconds, ops, shapes, memory, only: true, output }
    }

    fn request(&self) -> RecordRequest {
        RecordRequest {
            steps: self.steps.or_else(|| self.seconds.is_none().then_some(STEPS)),
            milliseconds: self.seconds.map(|seconds| (seconds * 1e3).round() as u64),
            ops: self.ops || self.shapes,
            shapes: self.shapes,
            memory: self.memory,
            ..RecordRequest::default()
        }
    }
}

/// Has it recorded and writes the traces.
///
/// # Errors
///
/// If no process can be asked or has anything to show, or no trace can be written.
pub fn run(arguments: &Arguments) -> Result<(), Error> {
    let group = if arguments.only { None } else { ranks::group_of(arguments.process)? };
    let Some(group) = group else {
        let (path, recorded) = record(arguments)?;
        say(format_args!("mlprof: {}", told(&recorded)));
        return print(&format!("{}\n", path.display())).map(drop);
    };
    group.notes.iter().for_each(|note| say(format_args!("note: {note}")));
    let (mut paths, mut errors) = (String::new(), Vec::new());
    for (rank, process, result) in record_all(group, arguments) {
        match result {
            Ok((path, recorded)) => {
                say(format_args!("mlprof: rank {rank}: {}", told(&recorded)));
                paths += &format!("{}\n", path.display());
            }
            Err(error) => {
                say(format_args!(
                    "mlprof: rank {rank} (process {process}) is not recorded: {error}"
                ));
                errors.push(error);
            }
        }
    }
    if paths.is_empty() {
        return Err(Error::NoRank { ranks: errors.len() });
    }
    print(&paths).map(drop)
}

/// Where a trace is, and what is in it.
type Outcome = Result<(PathBuf, Recorded), Error>;

/// What became of each rank, in their order: its number, its process, the result.
fn record_all(group: Group, arguments: &Arguments) -> Vec<(u32, u32, Outcome)> {
    let (request, now) = (group.request(arguments.request()), nanoseconds());
    std::thread::scope(|scope| {
        let ask = |member: Member| {
            let Member { rank, process, client, .. } = member;
            let stem = format!("{process}-rank{rank}");
            let path = path(&stem, now, arguments);
            let wishes = request.clone();
            (rank, process, scope.spawn(move || record_to(&path, client, wishes)))
        };
        let asked: Vec<_> = group.members.into_iter().map(ask).collect();
        let wait = |(rank, process, thread): (_, _, ScopedJoinHandle<'_, _>)| {
            (rank, process, thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
        };
        asked.into_iter().map(wait).collect()
    })
}

/// Has one process recorded and writes the trace: where, and what is in it.
pub(super) fn record(arguments: &Arguments) -> Outcome {
    let client = Client::connect(arguments.process)?;
    let path = path(&arguments.process.to_string(), nanoseconds(), arguments);
    record_to(&path, client, arguments.request())
}

fn record_to(path: &Path, mut client: Client, wishes: RecordRequest) -> Outcome {
    // The next step may be far off.
    client.wait_for_ever()?;
    let mut answer = client.ask(Request::Record(wishes))?;
    if matches!(answer, Answer::Recording) {
        answer = client.answer()?;
    }
    let recorded = match answer {
        Answer::Recorded(recorded) => recorded,
        other => return Err(Error::unexpected(client.process(), other)),
    };
    let trace = client.bytes(recorded.bytes)?;
    write_file(path, |file| file.write_all(&trace))
        .map_err(|error| Error::Write { path: path.to_owned(), error })?;
    Ok((path.to_owned(), recorded))
}

/// Since 1970: names of recordings differ by it, and ranks of one have the same.
fn nanoseconds() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()
}

fn path(stem: &str, now: u128, arguments: &Arguments) -> PathBuf {
    arguments.output.join(safe_file_name(stem, &format!("{now}.pt.trace.json.gz")))
}

/// What is in it, in a line, and what its reader must know.
fn told(recorded: &Recorded) -> String {
    let Recorded { steps, events, ops, dropped, .. } = recorded;
    let which = recorded.first_step.map(|first| format!(" ({first} to {})", first + steps - 1));
    let which = which.unwrap_or_default();
    let mut text = format!("{steps} steps{which}, {events} events, {ops} of them ops");
    if *dropped > 0 {
        text += &format!("; there was no room for {dropped} more");
    }
    for note in &recorded.notes {
        text += &format!("\nnote: {note}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_asked_for_unless_it_is_a_time() {
        let arguments = Arguments {
            process: 1,
            steps: None,
            seconds: None,
            ops: false,
            shapes: true,
            memory: false,
            only: false,
            output: PathBuf::new(),
        };
        let request = arguments.request();
        assert_eq!((request.steps, request.milliseconds), (Some(STEPS), None));
        assert!(request.ops && request.shapes && !request.memory);
        let timed = Arguments { seconds: Some(0.5), ..arguments }.request();
        assert_eq!((timed.steps, timed.milliseconds), (None, Some(500)));
        assert_eq!(timed.check(), Ok(()));
    }

    #[test]
    fn times_are_bounded() {
        assert_eq!(seconds("0.5"), Ok(0.5));
        for text in ["0", "601", "NaN", "soon", "-1"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
