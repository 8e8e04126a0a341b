//! Training process, one of several. Commands on standard input control its steps.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use mlprof_core::{ProfilerExt, RunContext, Session, Stage, profile};

/// Environment variable that makes this program run as a training process.
pub const PLAYS: &str = "MLPROF_TEST_PLAYS";

/// Maximum number of steps, those of one second, between the request and the first recorded step.
pub const ENOUGH: u64 = 120;

/// Environment variables that launchers set.
const LAUNCHERS: [&str; 9] = [
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_RUN_ID",
    "PMIX_NAMESPACE",
    "SLURM_STEP_ID",
    "SLURM_JOB_ID",
];

/// Options of `unshare` that create a PID namespace.
pub const UNSHARE: [&str; 3] = ["--pid", "--fork", "--mount-proc"];

/// Runs as many steps as each line of standard input requests, and then prints `done`.
pub fn play() {
    let session =
        Session::begin("none", Stage::Fit, &RunContext::from_environment()).expect("a profiler");
    println!("ready");
    for line in std::io::stdin().lock().lines() {
        let steps: u64 = line.expect("text").parse().expect("a number");
        for _ in 0..steps {
            {
                let _scope = profile!("training_step");
                // At most one hundred steps run per second.
                std::thread::sleep(Duration::from_millis(10));
            }
            session.profiler().step();
        }
        println!("done");
        std::io::stdout().flush().expect("written");
    }
}

/// A training process.
pub struct Rank {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Rank {
    pub fn start(runtime: &Path, rank: u32, world_size: u32, more: &[(&str, &str)]) -> Self {
        let command = Command::new(std::env::current_exe().expect("this program"));
        Self::start_by(command, runtime, (rank, world_size), more)
    }

    /// Starts the process as the first one of a PID namespace, as in a container.
    pub fn start_in_container(runtime: &Path) -> Self {
        let mut command = Command::new("unshare");
        command.args(UNSHARE).arg(std::env::current_exe().expect("this program"));
        Self::start_by(command, runtime, (0, 1), &[])
    }

    fn start_by(
        mut command: Command,
        runtime: &Path,
        (rank, world_size): (u32, u32),
        more: &[(&str, &str)],
    ) -> Self {
        for name in LAUNCHERS {
            command.env_remove(name);
        }
        let mut child = command
            .env(PLAYS, "1")
            .env("MLPROF_LIVE", "1")
            .env("XDG_RUNTIME_DIR", runtime)
            .env("RANK", rank.to_string())
            .env("WORLD_SIZE", world_size.to_string())
            .envs(more.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let mut rank = Self { child, input, output };
        rank.expect("ready");
        rank
    }

    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Requests a number of steps without waiting for them.
    pub fn tell(&mut self, steps: u64) {
        let input = self.input.as_mut().expect("it goes on");
        writeln!(input, "{steps}").expect("it reads");
    }

    pub fn await_done(&mut self) {
        self.expect("done");
    }

    pub fn steps(&mut self, steps: u64) {
        self.tell(steps);
        self.await_done();
    }

    fn expect(&mut self, what: &str) {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("text");
        assert_eq!(line.trim_end(), what);
    }

    pub fn kill(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("gone");
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}
