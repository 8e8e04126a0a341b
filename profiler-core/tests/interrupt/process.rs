//! The parent's side of a child process.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::{PATIENCE, PROGRAM, SIGNALS};

/// Child process that plays one of the programs.
pub struct Program {
    pub process: Child,
    output: BufReader<ChildStdout>,
    errors: ChildStderr,
}

impl Program {
    pub fn start(name: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("a path"));
        Self::spawn(command.args(["--ignored", "--exact", "child", "--nocapture"]), name)
    }

    /// Starts a program with a folder for its files.
    pub fn start_in(folder: &std::path::Path, name: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("a path"));
        command.env(super::FOLDER, folder);
        Self::spawn(command.args(["--ignored", "--exact", "child", "--nocapture"]), name)
    }

    /// Starts a program as process 1 of a container.
    #[cfg(target_os = "linux")]
    pub fn start_as_number_one(way: &[&str], name: &str) -> Self {
        let mut command =
            super::own_numbers::wrapped(way, &std::env::current_exe().expect("a path"));
        Self::spawn(command.args(["--ignored", "--exact", "child", "--nocapture"]), name)
    }

    /// Starts a program with `signal` ignored, like a background job of a shell.
    pub fn start_ignoring(signal: &str, name: &str) -> Self {
        let script = format!(r#"trap '' {signal}; exec "$0" --ignored --exact child --nocapture"#);
        let mut command = Command::new("sh");
        Self::spawn(
            command.arg("-c").arg(script).arg(std::env::current_exe().expect("a path")),
            name,
        )
    }

    fn spawn(command: &mut Command, name: &str) -> Self {
        // Tests that run as a background job of a shell inherit an ignored SIGINT.
        let receives_signals = || {
            for signal in SIGNALS {
                // SAFETY: `signal` is async-signal-safe, so it may be called between fork and exec.
                unsafe { libc::signal(signal, libc::SIG_DFL) };
            }
            Ok(())
        };
        // SAFETY: the closure only calls `signal`, which is async-signal-safe.
        unsafe { command.pre_exec(receives_signals) };
        let mut process = command
            .env(PROGRAM, name)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a child process");
        let output = BufReader::new(process.stdout.take().expect("piped"));
        let errors = process.stderr.take().expect("piped");
        Self { process, output, errors }
    }

    /// Reads output until the child prints `word`. Returns `false` if the output ends before.
    pub fn says(&mut self, word: &str) -> bool {
        let wanted = format!("child: {word}");
        self.output.by_ref().lines().map_while(Result::ok).any(|line| line.ends_with(&wanted))
    }

    pub fn signal(&self, signal: i32) {
        let status = Command::new("kill")
            .args([format!("-{signal}"), self.process.id().to_string()])
            .status()
            .expect("the program `kill`");
        assert!(status.success());
    }

    /// Waits for the end. Returns the standard output, the exit status, and the standard error.
    pub fn end_with_output(mut self) -> (String, ExitStatus, String) {
        let mut output = String::new();
        self.output.read_to_string(&mut output).expect("text");
        let (status, errors) = self.end();
        (output, status, errors)
    }

    pub fn end(mut self) -> (ExitStatus, String) {
        let mut errors = String::new();
        self.errors.read_to_string(&mut errors).expect("text");
        (self.process.wait().expect("ends"), errors)
    }

    /// Sends `signal` repeatedly until the process has ended. The second signal of a test must not
    /// arrive before the first one was delivered.
    pub fn signal_until_it_ends(mut self, signal: i32) -> ExitStatus {
        let started = Instant::now();
        loop {
            if let Some(status) = self.process.try_wait().expect("a child") {
                return status;
            }
            assert!(started.elapsed() < PATIENCE, "it does not end");
            self.signal(signal);
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
