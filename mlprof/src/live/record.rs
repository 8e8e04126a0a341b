//! `mlprof record`: records a few steps of a running training as a trace.

use mlprof_events::error_chain::Chain;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread::ScopedJoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

use mlprof_events::live::{
    Answer, LONGEST_RECORDING, MOST_STEPS, RecordRequest, Recorded, Request,
};
use mlprof_report::internals::counted;
use mlprof_report::output::{safe_file_name, say, write_file};

use super::client::Client;
use super::ranks::{Group, Member};
use super::{Error, ProcessName, print, ps, ranks};

/// Default number of steps to record.
const STEPS: u64 = 5;

/// Record a few steps of a running training as a trace
///
/// The training continues and needs no profiler. Its own profilers also continue to measure. The
/// command records whole steps, after one warm-up step that is not part of the trace. With
/// --seconds, it records the steps that run during that time, or everything else that happens if no
/// step begins.
///
/// If a training has several processes on this machine, the command records the same steps of all
/// of them, and writes one file per rank. It reports ranks that cannot be recorded, and records the
/// others.
///
/// With --sample, the command also samples the stacks of all threads, in any language, and writes
/// them next to the trace (.samples.json), for mlprof report and mlprof convert.
///
/// A process can have one recording at a time. --cancel ends a recording that TensorBoard, dynolog
/// or another mlprof record has started. For the next ten seconds, only mlprof record can start
/// another one.
///
/// The command prints the paths of the traces (.pt.trace.json.gz) on standard output. mlprof
/// analyze, Perfetto and TensorBoard can read them.
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Process id of the training, or of one of its ranks, as printed by mlprof ps
    #[arg(value_name = "PID")]
    pub process: ProcessName,
    /// Number of steps to record [default: 5, without --seconds]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MOST_STEPS))]
    pub steps: Option<u64>,
    /// Duration of the recording in seconds, from 0.001 to 600
    #[arg(long, value_name = "SECONDS", conflicts_with = "steps", value_parser = seconds)]
    pub seconds: Option<f64>,
    /// Record tensor ops and device work, in addition to actions, modules and functions
    #[arg(long)]
    pub ops: bool,
    /// Record the input shapes of ops; implies --ops
    #[arg(long)]
    pub shapes: bool,
    /// Record allocations and frees
    #[arg(long)]
    pub memory: bool,
    /// Sample the stacks of all threads HZ times per second (Linux)
    #[arg(long, value_name = "HZ")]
    pub sample: Option<u32>,
    /// Record only this process, and not the other ranks of its training
    #[arg(long)]
    pub only: bool,
    /// Cancel the current or pending recording of the process, whichever tool started it
    #[arg(
        long,
        conflicts_with_all = ["steps", "seconds", "ops", "shapes", "memory", "sample", "only", "output"]
    )]
    pub cancel: bool,
    /// Folder for the trace, which is created if it does not exist
    #[arg(short, long, value_name = "FOLDER", default_value = ".")]
    pub output: PathBuf,
}

/// Parses a duration and checks that it is within the supported range.
fn seconds(text: &str) -> Result<f64, String> {
    let longest = LONGEST_RECORDING as f64 / 1e3;
    match text.parse::<f64>() {
        Ok(seconds) if seconds >= 1e-3 && seconds <= longest => Ok(seconds),
        _ => Err(format!("expected a duration between 0.001 and {longest} seconds")),
    }
}

impl Arguments {
    /// Creates arguments that record five steps of one process into the current folder.
    pub(super) fn of_steps(process: ProcessName) -> Self {
        let (steps, seconds) = (None, None);
        let (ops, shapes, memory, sample) = (false, false, false, None);
        let output = PathBuf::from(".");
        let (only, cancel) = (true, false);
        Self { process, steps, seconds, ops, shapes, memory, sample, only, cancel, output }
    }

    fn request(&self) -> RecordRequest {
        RecordRequest {
            steps: self.steps.or_else(|| self.seconds.is_none().then_some(STEPS)),
            milliseconds: self.seconds.map(|seconds| (seconds * 1e3).round() as u64),
            ops: self.ops || self.shapes,
            shapes: self.shapes,
            memory: self.memory,
            sample: self.sample,
            ..RecordRequest::default()
        }
    }
}

/// Records the process or its ranks, and writes the traces.
///
/// # Errors
///
/// Returns an error if no process can be queried or recorded, or if no trace can be written.
pub fn run(arguments: &Arguments) -> Result<(), Error> {
    if arguments.cancel {
        return cancel(arguments.process);
    }
    let group = if arguments.only { None } else { ranks::group_of(arguments.process)? };
    let Some(group) = group else {
        let (files, recorded) = record(arguments)?;
        say(format_args!("mlprof: {}", summary_of(&recorded)));
        return print(&files.lines()).map(drop);
    };
    group.notes.iter().for_each(|note| say(format_args!("note: {note}")));
    let (mut paths, mut errors) = (String::new(), Vec::new());
    for (rank, process, result) in record_all(group, arguments) {
        match result {
            Ok((files, recorded)) => {
                say(format_args!("mlprof: rank {rank}: {}", summary_of(&recorded)));
                paths += &files.lines();
            }
            Err(error) => {
                say(format_args!(
                    "mlprof: rank {rank} (process {process}) is not recorded: {}",
                    Chain(&error)
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

/// Cancels the current recording and prints which one was cancelled.
fn cancel(process: ProcessName) -> Result<(), Error> {
    let mut client = Client::connect(process)?;
    match client.ask(Request::Cancel)? {
        Answer::Cancelled { recording: Some(recording) } => {
            say(format_args!("mlprof: cancelled the recording {recording}"));
        }
        Answer::Cancelled { recording: None } => {
            say(format_args!("mlprof: process {process} has no recording to cancel"));
        }
        other => return Err(Error::unexpected(client.process(), other)),
    }
    Ok(())
}

/// Paths of the written files.
pub(super) struct Files {
    pub(super) trace: PathBuf,
    samples: Option<PathBuf>,
}

impl Files {
    fn lines(&self) -> String {
        let paths = [Some(&self.trace), self.samples.as_ref()].into_iter().flatten();
        paths.map(|path| format!("{}\n", path.display())).collect()
    }
}

/// Written files and a summary of their content, or an error.
type Outcome = Result<(Files, Recorded), Error>;

/// Records all ranks in parallel. Returns the rank, process and result of each, in rank order.
fn record_all(group: Group, arguments: &Arguments) -> Vec<(u32, ProcessName, Outcome)> {
    let (request, now) = (group.request(arguments.request()), nanoseconds());
    std::thread::scope(|scope| {
        let ask = |member: Member| {
            let Member { rank, process, client, .. } = member;
            let stem = format!("{process}-rank{rank}");
            let files = Names { stem, now, folder: &arguments.output };
            let wishes = request.clone();
            (rank, process, scope.spawn(move || record_to(&files, client, wishes)))
        };
        let asked: Vec<_> = group.members.into_iter().map(ask).collect();
        let wait = |(rank, process, thread): (_, _, ScopedJoinHandle<'_, _>)| {
            (rank, process, thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
        };
        asked.into_iter().map(wait).collect()
    })
}

/// Records one process and writes the trace. Returns the paths and a summary of the content.
pub(super) fn record(arguments: &Arguments) -> Outcome {
    let mut client = Client::connect(arguments.process)?;
    let request = arguments.request();
    if request.steps.is_some() && ps::state(&mut client)?.trainings.is_empty() {
        say(format_args!("mlprof: {}", waits_for_a_stage(arguments.process)));
    }
    let stem = arguments.process.to_string();
    let names = Names { stem, now: nanoseconds(), folder: &arguments.output };
    record_to(&names, client, request)
}

/// Returns the message for a process that has no steps to record yet.
fn waits_for_a_stage(process: ProcessName) -> String {
    format!(
        "process {process} has no running stage, so the recording waits for the first step of the \
         next one. A loop of its own has a stage and steps with `Session::begin` and \
         `session.profiler().step()`; `--seconds 2` records without steps"
    )
}

fn record_to(names: &Names<'_>, mut client: Client, wishes: RecordRequest) -> Outcome {
    // The next step may start much later, so the read timeout is removed.
    client.wait_for_ever()?;
    let is_sampled = wishes.sample.is_some();
    let mut answer = client.ask(Request::Record(wishes))?;
    if matches!(answer, Answer::Recording) {
        answer = client.answer()?;
    }
    let mut recorded = match answer {
        Answer::Recorded(recorded) => recorded,
        other => return Err(Error::unexpected(client.process(), other)),
    };
    let trace = client.bytes(recorded.bytes)?;
    let samples = recorded.sample_bytes.map(|count| client.bytes(count)).transpose()?;
    if is_sampled && samples.is_none() {
        let note = "there are no samples: the program uses an older mlprof, which cannot sample";
        recorded.notes.push(note.to_owned());
    }
    let trace = names.write("pt.trace.json.gz", &trace)?;
    let samples = samples.map(|samples| names.write("samples.json", &samples)).transpose()?;
    Ok((Files { trace, samples }, recorded))
}

/// Returns the time since 1970 in nanoseconds. It makes file names unique, and all ranks of one
/// recording share it.
fn nanoseconds() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()
}

/// Name parts of the files of one recording.
struct Names<'arguments> {
    stem: String,
    now: u128,
    folder: &'arguments Path,
}

impl Names<'_> {
    /// Writes one file and returns its path.
    fn write(&self, ending: &str, bytes: &[u8]) -> Result<PathBuf, Error> {
        let ending = format!("{}.{ending}", self.now);
        let path = self.folder.join(safe_file_name(&self.stem, &ending));
        match write_file(&path, |file| file.write_all(bytes)) {
            Ok(()) => Ok(path),
            Err(error) => Err(Error::Write { path, error }),
        }
    }
}

/// Formats a one-line summary of a recording, with notes such as dropped events.
fn summary_of(recorded: &Recorded) -> String {
    let Recorded { steps, events, ops, dropped, .. } = recorded;
    let last = |first: u64| first.saturating_add(*steps).saturating_sub(1);
    let which = recorded.first_step.map(|first| format!(" ({first} to {})", last(first)));
    let which = which.unwrap_or_default();
    let (steps, events) = (counted(*steps, "step", "steps"), counted(*events, "event", "events"));
    let mut text = format!("{steps}{which}, {events}, {ops} of them ops");
    if *dropped > 0 {
        text += &format!("; {dropped} more were dropped, because the buffer was full");
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
            process: 1.into(),
            steps: None,
            seconds: None,
            ops: false,
            shapes: true,
            memory: false,
            sample: Some(99),
            only: false,
            cancel: false,
            output: PathBuf::new(),
        };
        let request = arguments.request();
        assert_eq!((request.steps, request.milliseconds), (Some(STEPS), None));
        assert!(request.ops && request.shapes && !request.memory);
        assert_eq!(request.sample, Some(99));
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
