//! Tests the recordings of several processes, and the messages about them.

use std::fs;
use std::io::BufReader;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use flate2::read::GzDecoder;
use mlprof_events::live::{
    Answer, LONGEST_ANSWER, ProcessIdentity, Question, RecordRequest, Request, connect, read_line,
    write_line,
};
use serde_json::Value;
use tempfile::TempDir;

use crate::program::{ENOUGH, Rank};

/// Timeout of a test.
const PATIENCE: Duration = Duration::from_secs(60);

const PORT: (&str, &str) = ("MASTER_PORT", "29500");

struct Place {
    runtime: TempDir,
    traces: TempDir,
}

/// Output of the command.
struct CommandOutput {
    is_success: bool,
    paths: Vec<PathBuf>,
    errors: String,
}

impl Place {
    fn new() -> Self {
        let folder = || tempfile::tempdir().expect("a folder");
        Self { runtime: folder(), traces: folder() }
    }

    fn rank(&self, rank: u32, world_size: u32, more: &[(&str, &str)]) -> Rank {
        Rank::start(self.runtime.path(), rank, world_size, more)
    }

    fn connect(&self, process: u32) -> UnixStream {
        let (folder, identity) = (self.runtime.path().join("mlprof"), ProcessIdentity::of(process));
        let stream = connect(&folder, &identity, Instant::now()).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        stream
    }

    fn is_recording(&self, rank: &Rank) -> bool {
        let stream = self.connect(rank.process());
        write_line(&stream, &Question::new(Request::State)).expect("written");
        let line = read_line(&mut BufReader::new(&stream), LONGEST_ANSWER).expect("a line");
        match serde_json::from_slice(&line.expect("an answer")).expect("an answer") {
            Answer::State(state) => state.is_recording,
            other => panic!("no state but {other:?}"),
        }
    }

    /// Starts the command, and waits until all of these processes have received the request.
    fn record(&self, of: &Rank, arguments: &[&str], ranks: &[&Rank]) -> Child {
        let command = Command::new(env!("CARGO_BIN_EXE_mlprof"))
            .args(["record", &of.process().to_string(), "-o"])
            .arg(self.traces.path())
            .args(arguments)
            .env("XDG_RUNTIME_DIR", self.runtime.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command runs");
        let began = Instant::now();
        while !ranks.iter().all(|rank| self.is_recording(rank)) {
            assert!(began.elapsed() < PATIENCE, "it never came to that");
            std::thread::sleep(Duration::from_millis(2));
        }
        command
    }
}

fn output_of(command: Child) -> CommandOutput {
    let output = command.wait_with_output().expect("it ends");
    let text = String::from_utf8(output.stdout).expect("text");
    CommandOutput {
        is_success: output.status.success(),
        paths: text.lines().map(PathBuf::from).collect(),
        errors: String::from_utf8(output.stderr).expect("text"),
    }
}

/// Returns the rank and the step names of a trace.
fn read(path: &Path) -> (u64, Vec<String>) {
    let file = fs::File::open(path).expect("a trace");
    let trace: Value = serde_json::from_reader(GzDecoder::new(file)).expect("JSON");
    let names = trace["traceEvents"].as_array().expect("events").iter().filter_map(|event| {
        let name = event["name"].as_str().filter(|_| event["ph"] == "X")?;
        name.starts_with("ProfilerStep#").then(|| name.to_owned())
    });
    let mut steps: Vec<_> = names.collect();
    // Each step appears once for the host and once per device. Sorting by length puts "#98" before
    // "#100".
    steps.sort_by_key(|step| (step.len(), step.clone()));
    steps.dedup();
    (trace["distributedInfo"]["rank"].as_u64().expect("a rank"), steps)
}

fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).expect("text")
}

pub fn all_at_the_same_steps() {
    let place = Place::new();
    let (mut first, mut second) = (place.rank(0, 3, &[PORT]), place.rank(1, 3, &[PORT]));
    let _stranger = place.rank(2, 3, &[("MASTER_PORT", "29501")]);
    // One rank is ahead of the other.
    first.steps(5);
    second.steps(9);
    let command = place.record(&second, &["--steps", "3"], &[&first, &second]);
    first.tell(ENOUGH);
    second.tell(ENOUGH);
    let said = output_of(command);
    assert!(said.is_success, "{}", said.errors);
    let [zero, one] = &said.paths[..] else { panic!("{:?}", said.paths) };
    assert!(name(zero).starts_with(&format!("{}-rank0.", first.process())), "{zero:?}");
    assert!(name(one).starts_with(&format!("{}-rank1.", second.process())), "{one:?}");
    let ((rank, steps), (other_rank, others)) = (read(zero), read(one));
    assert_eq!((rank, other_rank, steps.len()), (0, 1, 3));
    assert_eq!(steps, others);
    let errors = &said.errors;
    assert!(errors.contains("note: these of the 3 ranks are not recorded: 2; "), "{errors}");
    let step = steps[0].strip_prefix("ProfilerStep#").expect("a number");
    assert!(errors.contains(&format!("mlprof: rank 1: 3 steps ({step} to ")), "{errors}");
    first.await_done();
    second.await_done();
}

pub fn a_parent_is_enough() {
    let place = Place::new();
    let (mut first, mut second) = (place.rank(0, 2, &[]), place.rank(1, 2, &[]));
    let command = place.record(&first, &["--steps", "1"], &[&first, &second]);
    first.tell(ENOUGH);
    second.tell(ENOUGH);
    let said = output_of(command);
    assert_eq!((said.is_success, said.paths.len()), (true, 2), "{}", said.errors);
    assert_eq!(read(&said.paths[0]).1, read(&said.paths[1]).1);
    assert!(!said.errors.contains("note: "), "{}", said.errors);
}

pub fn a_time_begins_for_all() {
    let place = Place::new();
    let (mut first, mut second) = (place.rank(0, 2, &[PORT]), place.rank(1, 2, &[PORT]));
    // The recording is long, because another program on the machine may delay a step, and only
    // complete steps count.
    let command = place.record(&first, &["--seconds", "3"], &[&first, &second]);
    first.tell(6 * ENOUGH);
    second.tell(6 * ENOUGH);
    let said = output_of(command);
    assert_eq!((said.is_success, said.paths.len()), (true, 2), "{}", said.errors);
}

pub fn an_active_recording_is_named() {
    let place = Place::new();
    let (mut first, mut second) = (place.rank(0, 2, &[PORT]), place.rank(1, 2, &[PORT]));
    let busy = place.connect(second.process());
    let wishes = RecordRequest { steps: Some(10_000), ..RecordRequest::default() };
    write_line(&busy, &Question::new(Request::Record(wishes))).expect("written");
    let command = place.record(&first, &["--steps", "2"], &[&first, &second]);
    first.tell(ENOUGH);
    second.tell(ENOUGH);
    let recorded = output_of(command);
    assert_eq!((recorded.is_success, recorded.paths.len()), (true, 1), "{}", recorded.errors);
    assert_eq!(read(&recorded.paths[0]).1.len(), 2);
    let expected = format!(
        "mlprof: rank 1 (process {}) is not recorded: process {0}: cannot record: a recording requested by \
         mlprof record (process {1}) ",
        second.process(),
        std::process::id()
    );
    assert!(recorded.errors.contains(&expected), "{}", recorded.errors);
}

pub fn disconnected_ranks_are_reported() {
    let place = Place::new();
    let (mut first, mut second) = (place.rank(0, 2, &[PORT]), place.rank(1, 2, &[PORT]));
    let command = place.record(&first, &["--steps", "2"], &[&first, &second]);
    second.kill();
    first.tell(ENOUGH);
    let one = output_of(command);
    assert_eq!((one.is_success, one.paths.len()), (true, 1), "{}", one.errors);
    let expected = format!("rank 1 (process {}) is not recorded: ", second.process());
    assert!(one.errors.contains(&expected), "{}", one.errors);
    first.await_done();
    // The command fails if all ranks end.
    let second = place.rank(1, 2, &[PORT]);
    let command = place.record(&first, &["--steps", "2"], &[&first, &second]);
    first.kill();
    drop(second);
    let none = output_of(command);
    assert!(!none.is_success && none.paths.is_empty(), "{}", none.errors);
    assert!(none.errors.contains("cannot record any of the 2 reachable ranks"), "{}", none.errors);
}

pub fn one_alone() {
    let place = Place::new();
    let (mut first, second) = (place.rank(0, 2, &[PORT]), place.rank(1, 2, &[PORT]));
    let command = place.record(&first, &["--steps", "2", "--only"], &[&first]);
    assert!(!place.is_recording(&second), "nobody asked for it");
    first.tell(ENOUGH);
    let said = output_of(command);
    let [path] = &said.paths[..] else { panic!("{:?}", said.paths) };
    assert!(name(path).starts_with(&format!("{}.", first.process())), "{path:?}");
    assert_eq!((said.is_success, read(path).1.len()), (true, 2), "{}", said.errors);
}
