//! `mlprof record`: a few steps of a training that runs, as a trace.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use profiler_events::live::{
    Answer, LONGEST_RECORDING, MOST_STEPS, RecordRequest, Recorded, Request,
};
use profiler_report::output::{safe_file_name, say, write_file};

use super::client::Client;
use super::{Error, print};

/// How many steps are recorded if nothing is said.
const STEPS: u64 = 5;

/// Records a few steps of a training that runs, and writes them as a trace (.pt.trace.json.gz).
///
/// The training goes on, and needs no profiler: what it has goes on measuring beside it. Steps are whole; the one
/// before them warms up and is not in the trace. With --seconds the steps are recorded that run during that time; where
/// none begins, whatever happens is, without steps.
///
/// The path of the trace is printed. mlprof analyze, mlprof report's tools, Perfetto and TensorBoard read it.
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// The number of its process: mlprof ps lists them
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

/// Has it recorded and writes the trace.
///
/// # Errors
///
/// If the process cannot be asked or has nothing to show, or the trace cannot be written.
pub fn run(arguments: &Arguments) -> Result<(), Error> {
    let mut client = Client::connect(arguments.process)?;
    // The next step may be far off.
    client.wait_for_ever()?;
    let mut answer = client.ask(Request::Record(arguments.request()))?;
    if matches!(answer, Answer::Recording) {
        answer = client.answer()?;
    }
    let recorded = match answer {
        Answer::Recorded(recorded) => recorded,
        other => return Err(Error::unexpected(arguments.process, other)),
    };
    let trace = client.bytes(recorded.bytes)?;
    let path = write(&trace, arguments)?;
    say(told(&recorded));
    print(&format!("{}\n", path.display())).map(drop)
}

fn write(trace: &[u8], arguments: &Arguments) -> Result<PathBuf, Error> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let name = safe_file_name(&arguments.process.to_string(), &format!("{now}.pt.trace.json.gz"));
    let path = Path::new(&arguments.output).join(name);
    write_file(&path, |file| file.write_all(trace))
        .map_err(|error| Error::Write { path: path.clone(), error })?;
    Ok(path)
}

/// What is in it, in a line, and what its reader must know.
fn told(recorded: &Recorded) -> String {
    let Recorded { steps, events, ops, dropped, .. } = recorded;
    let mut text = format!("mlprof: {steps} steps, {events} events, {ops} of them ops");
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
