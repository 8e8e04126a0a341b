//! The kinds of monitoring and their turns.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

use digits::overhead::{Clock, Estimate, paired};
use mlprof_tch::prelude::TrainResult;

/// Number of steps before the timed ones. A recording begins at the end of the first step, and the
/// second one warms up.
const BEFORE: u64 = 2;

/// A kind of monitoring during a training.
pub struct Way {
    /// Name in the table.
    pub name: &'static str,
    training: Which,
    watching: Watching,
}

#[derive(Clone, Copy)]
enum Which {
    Other,
    Live,
}

enum Watching {
    Nobody,
    Top,
    Record(&'static [&'static str]),
}

/// All kinds of monitoring.
const WAYS: [Way; 6] = [
    Way { name: "another process, unobserved", training: Which::Other, watching: Watching::Nobody },
    Way { name: "MLPROF_LIVE=1", training: Which::Live, watching: Watching::Nobody },
    Way { name: "mlprof top", training: Which::Live, watching: Watching::Top },
    Way { name: "mlprof record", training: Which::Live, watching: Watching::Record(&[]) },
    Way {
        name: "mlprof record --ops",
        training: Which::Live,
        watching: Watching::Record(&["--ops"]),
    },
    Way {
        name: "mlprof record --ops --shapes --memory",
        training: Which::Live,
        watching: Watching::Record(&["--ops", "--shapes", "--memory"]),
    },
];

/// Results of the measurement.
pub struct Measured {
    /// Median step of the training without monitoring, in µs.
    pub step_us: f64,
    /// Relative increase of the step length for each kind.
    pub ways: Vec<(Way, Estimate)>,
}

/// Measures all kinds in turn.
pub fn measure(mlprof: &Path, clock: Clock, rounds: u64, steps: u64) -> TrainResult<Measured> {
    let folder = tempfile::tempdir()?;
    let mut trainings = Trainings {
        unwatched: Training::start(clock, folder.path(), false)?,
        other: Training::start(clock, folder.path(), false)?,
        live: Training::start(clock, folder.path(), true)?,
    };
    let watcher = Watcher { mlprof, folder: folder.path(), process: trainings.live.child.id() };
    // All processes are warmed up first.
    for training in [&mut trainings.unwatched, &mut trainings.other, &mut trainings.live] {
        training.steps(100)?;
    }
    let mut shares = vec![Vec::new(); WAYS.len()];
    let mut unwatched_steps = Vec::new();
    for round in 0..rounds as usize {
        for turn in 0..WAYS.len() {
            let way = (turn + round) % WAYS.len();
            let without = trainings.unwatched.timed(steps)?;
            let with = trainings.turn(&WAYS[way], &watcher, steps)?;
            shares[way].push(paired(&with, &without));
            unwatched_steps.extend(without);
        }
    }
    let step_us = Estimate::of(&unwatched_steps).median / 1e3;
    let ways = WAYS.into_iter().zip(&shares).map(|(way, shares)| (way, Estimate::of(shares)));
    Ok(Measured { step_us, ways: ways.collect() })
}

struct Trainings {
    unwatched: Training,
    other: Training,
    live: Training,
}

impl Trainings {
    fn turn(&mut self, way: &Way, watcher: &Watcher<'_>, steps: u64) -> TrainResult<Vec<f64>> {
        let training = match way.training {
            Which::Other => &mut self.other,
            Which::Live => &mut self.live,
        };
        match &way.watching {
            Watching::Nobody => training.timed(steps),
            Watching::Top => {
                let top = watcher.follow()?;
                let durations = training.timed(steps);
                drop(top);
                durations
            }
            Watching::Record(wishes) => {
                let record = watcher.record(wishes, steps)?;
                let durations = training.timed(steps)?;
                record.succeed()?;
                Ok(durations)
            }
        }
    }
}

/// A training process.
struct Training {
    child: Child,
    asked: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Training {
    fn start(clock: Clock, folder: &Path, is_live: bool) -> TrainResult<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--trains", "--clock", &clock.to_string()]);
        command.env("MLPROF_LIVE", if is_live { "1" } else { "0" }).env("XDG_RUNTIME_DIR", folder);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (asked, answers) = (child.stdin.take(), child.stdout.take());
        let answers = BufReader::new(answers.ok_or("the training has no standard output")?);
        Ok(Self { child, asked, answers })
    }

    /// Runs `count` steps and returns their durations in nanoseconds.
    fn steps(&mut self, count: u64) -> TrainResult<Vec<f64>> {
        let asked = self.asked.as_mut().ok_or("the training has no standard input")?;
        writeln!(asked, "{count}")?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        let durations = serde_json::from_str::<Vec<f64>>(&line);
        Ok(durations.map_err(|error| format!("the training has ended: {error}"))?)
    }

    fn timed(&mut self, count: u64) -> TrainResult<Vec<f64>> {
        let mut durations = self.steps(BEFORE + count)?;
        durations.drain(..BEFORE as usize);
        Ok(durations)
    }
}

impl Drop for Training {
    fn drop(&mut self) {
        // The process exits at the end of its standard input.
        drop(self.asked.take());
        let _ = self.child.wait();
    }
}

/// Starts the monitoring commands.
struct Watcher<'a> {
    mlprof: &'a Path,
    folder: &'a Path,
    process: u32,
}

/// A monitoring command, which is stopped on drop unless it has exited.
struct Running(Child);

impl Watcher<'_> {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.mlprof);
        command.args(arguments).env("XDG_RUNTIME_DIR", self.folder).stdin(Stdio::null());
        command
    }

    /// Follows the training four times per second until the returned value is dropped.
    fn follow(&self) -> TrainResult<Running> {
        let process = self.process.to_string();
        let mut command = self.command(&["top", &process, "--json", "--interval", "0.25"]);
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let mut lines = BufReader::new(child.stdout.take().ok_or("mlprof has no standard output")?);
        let running = Running(child);
        let mut first = String::new();
        if lines.read_line(&mut first)? == 0 {
            return Err("mlprof top prints nothing".into());
        }
        // The output must be read, because the process blocks when the pipe is full.
        thread::spawn(move || lines.read_to_end(&mut Vec::new()));
        Ok(running)
    }

    /// Requests a recording and waits until the process has received the request.
    fn record(&self, wishes: &[&str], steps: u64) -> TrainResult<Running> {
        let (process, steps) = (self.process.to_string(), steps.to_string());
        let folder: PathBuf = self.folder.join("traces");
        let mut command = self.command(&["record", &process, "--steps", &steps]);
        command.args(wishes).arg("-o").arg(folder).stdout(Stdio::null()).stderr(Stdio::null());
        let mut running = Running(command.spawn()?);
        while !self.is_recording()? {
            if let Some(status) = running.0.try_wait()? {
                return Err(format!("mlprof record: {status}").into());
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(running)
    }

    fn is_recording(&self) -> TrainResult<bool> {
        let output = self.command(&["ps", "--json"]).output()?;
        let listed: serde_json::Value = serde_json::from_slice(&output.stdout)
            .map_err(|error| format!("mlprof ps: {error}"))?;
        Ok(listed.to_string().contains("\"is_recording\":true"))
    }
}

impl Running {
    fn succeed(mut self) -> TrainResult<()> {
        let status = self.0.wait()?;
        if status.success() { Ok(()) } else { Err(format!("mlprof record: {status}").into()) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
