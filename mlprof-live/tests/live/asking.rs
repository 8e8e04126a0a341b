//! Client side of the tests: starts a program and sends requests to it.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use flate2::read::GzDecoder;
use mlprof_analysis::Trace;
use mlprof_analysis::kineto;
use mlprof_core::Report;
use mlprof_events::live::{
    Answer, LONGEST_ANSWER, ProcessIdentity, ProcessState, Question, RecordRequest, Recorded,
    Request, read_line, socket_of, write_line,
};
use tempfile::TempDir;

use crate::program::SCENE;

/// Timeout of a test.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Running training program.
pub struct Program {
    pub child: Child,
    pub identity: ProcessIdentity,
    pub folder: TempDir,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Program {
    /// Starts the program with a scene. `live` is the value of `MLPROF_LIVE`.
    pub fn start_with(scene: &str, live: &str) -> Self {
        Self::start_in(scene, live, &HashMap::new())
    }

    /// Starts the program with a scene and additional environment variables.
    pub fn start_in(scene: &str, live: &str, more: &HashMap<&'static str, PathBuf>) -> Self {
        let command = Command::new(std::env::current_exe().expect("this program"));
        Self::start_by(command, scene, live, more)
    }

    /// Starts the program with a scene through another command.
    pub fn start_by(
        mut command: Command,
        scene: &str,
        live: &str,
        more: &HashMap<&'static str, PathBuf>,
    ) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        // A shell's background job inherits an ignored SIGINT, and the program would also ignore
        // it. SAFETY: the closure runs between `fork` and `exec`, and only calls `signal`, which is
        // async-signal-safe.
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                Ok(())
            });
        }
        let mut child = command
            .env(SCENE, scene)
            .env("MLPROF_LIVE", live)
            .env("XDG_RUNTIME_DIR", folder.path())
            .envs(more)
            .env("MLPROF_TEST_CHILD", folder.path().join("child"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let identity = ProcessIdentity::of(child.id());
        let mut program = Self { child, identity, folder, input, output };
        assert_eq!(program.line(), "ready");
        program
    }

    pub fn start(scene: &str) -> Self {
        Self::start_with(scene, "1")
    }

    /// Returns the next line on standard output.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("text");
        line.trim_end().to_owned()
    }

    /// Returns the next line on standard error. The following text remains unread.
    pub fn error_line(&mut self) -> String {
        // The line is read byte by byte, so that no byte after it is consumed.
        let stderr = self.child.stderr.as_mut().expect("piped");
        let (mut line, mut byte) = (Vec::new(), [0]);
        while stderr.read_exact(&mut byte).is_ok() && byte != *b"\n" {
            line.extend(byte);
        }
        String::from_utf8(line).expect("text")
    }

    /// Sends a command without waiting for its completion.
    pub fn tell(&mut self, what: &str) {
        let input = self.input.as_mut().expect("it has not been told to end");
        writeln!(input, "{what}").expect("it reads");
    }

    pub fn await_done(&mut self) {
        assert_eq!(self.line(), "done");
    }

    pub fn steps(&mut self, count: u64) {
        self.tell(&format!("steps {count}"));
        self.await_done();
    }

    pub fn socket(&self) -> PathBuf {
        socket_of(&self.folder.path().join("mlprof"), &self.identity)
    }

    pub fn connect(&self) -> Connection {
        Connection::to(UnixStream::connect(self.socket()).expect("it listens"))
    }

    pub fn state(&self) -> ProcessState {
        self.connect().state()
    }

    pub fn wait_until(&self, is_so: impl Fn(&ProcessState) -> bool) {
        wait_until(|| is_so(&self.state()));
    }

    /// Ends the program and checks that its socket is removed. Returns the exit status and the
    /// remaining text of standard output and standard error.
    pub fn end(mut self) -> (ExitStatus, String, String) {
        drop(self.input.take());
        let mut text = String::new();
        self.output.read_to_string(&mut text).expect("text");
        let mut errors = String::new();
        let mut stderr = self.child.stderr.take().expect("piped");
        stderr.read_to_string(&mut errors).expect("text");
        let status = self.child.wait().expect("it ends");
        // The check must precede the removal of the temporary folder.
        if status.success() {
            assert!(!self.socket().exists(), "it is removed at the end");
        }
        (status, text, errors)
    }
}

/// Waits for a condition, up to the timeout.
pub fn wait_until(is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "it never came to that");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub struct Connection(BufReader<UnixStream>);

impl Connection {
    pub fn to(stream: UnixStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        Self(BufReader::new(stream))
    }

    pub fn write(&self, text: &[u8]) {
        self.0.get_ref().write_all(text).expect("written");
    }

    pub fn ask(&self, request: Request) {
        write_line(self.0.get_ref(), &Question::new(request)).expect("written");
    }

    /// Returns the next answer, or `None` if the process has disconnected.
    pub fn answer(&mut self) -> Option<Answer> {
        let line = read_line(&mut self.0, LONGEST_ANSWER).expect("a line")?;
        Some(serde_json::from_slice(&line).expect("an answer"))
    }

    /// Reads until the process disconnects, which may happen in the middle of an answer.
    pub fn read_to_its_end(&mut self) {
        while let Ok(Some(_)) = read_line(&mut self.0, LONGEST_ANSWER) {}
    }

    /// Returns `true` if the process answers a request. A rejected connection may close before the
    /// request is sent.
    pub fn is_heard(&mut self) -> bool {
        let is_asked = write_line(self.0.get_ref(), &Question::new(Request::State)).is_ok();
        let line =
            is_asked.then(|| read_line(&mut self.0, LONGEST_ANSWER).ok().flatten()).flatten();
        let answer = line.and_then(|line| serde_json::from_slice(&line).ok());
        matches!(answer, Some(Answer::State(_)))
    }

    pub fn error(&mut self) -> String {
        match self.answer() {
            Some(Answer::Error { message }) => message,
            other => panic!("no error but {other:?}"),
        }
    }

    pub fn state(&mut self) -> ProcessState {
        self.ask(Request::State);
        match self.answer() {
            Some(Answer::State(state)) => state,
            other => panic!("no state but {other:?}"),
        }
    }

    /// Returns the recording and its trace, after it has begun and ended.
    pub fn recorded(&mut self) -> (Recorded, Trace) {
        match self.answer() {
            Some(Answer::Recording) => {}
            other => panic!("it has not begun but {other:?}"),
        }
        let recorded = match self.answer() {
            Some(Answer::Recorded(recorded)) => recorded,
            other => panic!("nothing was recorded but {other:?}"),
        };
        let mut bytes = vec![0; recorded.bytes as usize];
        self.0.read_exact(&mut bytes).expect("as many bytes as it says");
        (recorded, kineto::read(GzDecoder::new(&bytes[..])).expect("a trace"))
    }
}

impl Connection {
    /// Returns the report of samples that follows a recording.
    pub fn samples(&mut self, recorded: &Recorded) -> Report {
        let mut bytes = vec![0; recorded.sample_bytes.expect("they were asked for") as usize];
        self.0.read_exact(&mut bytes).expect("as many bytes as it says");
        Report::from_json(&String::from_utf8(bytes).expect("text")).expect("a report")
    }
}

pub fn steps(count: u64) -> RecordRequest {
    RecordRequest { steps: Some(count), ops: true, ..RecordRequest::default() }
}

pub fn milliseconds(count: u64) -> RecordRequest {
    RecordRequest { milliseconds: Some(count), ..RecordRequest::default() }
}

/// Returns the number of slices with this name in a trace.
pub fn slices(trace: &Trace, name: &str) -> usize {
    trace.slices.iter().filter(|slice| trace.name(slice) == name).count()
}
