//! Building and running programs.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::builds;

/// A program that runs longer is killed, and its test fails.
const PATIENCE: Duration = Duration::from_secs(300);

/// Among how many threads rayon and libtorch divide ops.
const THREADS: [&str; 2] = ["RAYON_NUM_THREADS", "OMP_NUM_THREADS"];

/// Builds the programs of a package once, with those of the packages that are built together with it, and
/// returns the path of the one that is named.
pub fn build(package: &str, binary: &str) -> PathBuf {
    static BUILT: Mutex<Option<HashMap<String, PathBuf>>> = Mutex::new(None);
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    let built = built.get_or_insert_default();
    if !built.contains_key(binary) {
        built.extend(run_cargo_build(package));
    }
    built.get(binary).cloned().unwrap_or_else(|| panic!("cargo built no program called {binary}"))
}

/// Whether programs of burn are built with burn 0.23, on the processor alone.
pub fn is_burn_next() -> bool {
    std::env::var_os(builds::BURN_NEXT_VARIABLE).is_some()
}

/// All programs at once, so that no processor waits while the last part of one is built.
fn run_cargo_build(package: &str) -> Vec<(String, PathBuf)> {
    let all = [builds::CANDLE, builds::BURN, builds::TCH, builds::COMMAND];
    let together = all.into_iter().find(|together| together.packages.contains(&package));
    let together = together.unwrap_or_else(|| panic!("no programs of {package} are built"));
    let is_next = package == "burn-digits" && is_burn_next();
    let (together, manifest, folder) = if is_next {
        let folder = crate::target_directory().join(builds::BURN_NEXT_FOLDER);
        (builds::BURN_NEXT, builds::BURN_NEXT_MANIFEST, folder)
    } else {
        (together, "Cargo.toml", crate::target_directory())
    };
    let output = Command::new(env!("CARGO"))
        .args(["build", "--bins", "--message-format=json-render-diagnostics"])
        .args(together.arguments())
        .args(["--manifest-path", manifest, "--target-dir"])
        .arg(folder)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "cargo build of {package}: {}", output.status);
    let executable = |message: serde_json::Value| {
        let name = message["target"]["name"].as_str()?;
        Some((name.to_owned(), PathBuf::from(message["executable"].as_str()?)))
    };
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| executable(serde_json::from_str(line).ok()?))
        .collect()
}

/// A run of a program that is being prepared: no input, in a folder of its own, and without those
/// variables of the environment that would change what it does. What divides ops among threads (rayon with candle and burn,
/// libtorch) has one: such threads wait in circles for their part, and other tests run beside this one.
#[derive(Debug)]
pub struct Run {
    command: Command,
}

/// How a program ended and what it said.
#[derive(Debug)]
pub struct Finished {
    /// Its exit status.
    pub status: ExitStatus,
    /// What it wrote to standard output.
    pub stdout: String,
    /// What it wrote to standard error.
    pub stderr: String,
}

impl Run {
    /// Of the program at `path`, in the folder `directory`.
    pub fn of(path: &Path, directory: &Path) -> Self {
        let mut command = Command::new(path);
        command.current_dir(directory).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let tells_a_rank = |name: &str| {
            ["SLURM_", "OMPI_", "PMI_"].iter().any(|launcher| name.starts_with(launcher))
                || ["RANK", "WORLD_SIZE", "LOCAL_RANK", "RUST_LOG"].contains(&name)
        };
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(tells_a_rank) {
                command.env_remove(name);
            }
        }
        command.envs(THREADS.map(|variable| (variable, "1")));
        // Tests read the tables that are printed.
        command.env("MLPROF_ALL_ROWS", "1");
        receive_interrupts(&mut command);
        Self { command }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<S: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.command.args(arguments);
        self
    }

    /// Adds arguments behind a `--`, if there are any.
    #[must_use]
    pub fn arg_list(self, arguments: &[&str]) -> Self {
        if arguments.is_empty() { self } else { self.args(["--"]).args(arguments) }
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Ops are divided among as many threads as they are without anybody's saying.
    #[must_use]
    pub fn on_all_threads(mut self) -> Self {
        THREADS.into_iter().for_each(|variable| {
            self.command.env_remove(variable);
        });
        self
    }

    /// Runs it to its end.
    pub fn finish(self) -> Finished {
        self.start().finish()
    }

    /// Runs it to its end, which must be success.
    pub fn succeed(self) -> Finished {
        let finished = self.finish();
        assert!(finished.status.success(), "{finished:#?}");
        finished
    }

    /// Starts it.
    pub fn start(mut self) -> Running {
        let mut child = self.command.spawn().expect("the program starts");
        let stdout = child.stdout.take().map(Collected::from);
        let stderr = child.stderr.take().map(Collected::from);
        Running { child, stdout, stderr, started: Instant::now() }
    }

    /// Starts it and hands its output to the caller, who may close it.
    pub fn start_with_output(mut self) -> (Running, std::process::ChildStdout) {
        let mut child = self.command.spawn().expect("the program starts");
        let stdout = child.stdout.take().expect("piped");
        let stderr = child.stderr.take().map(Collected::from);
        (Running { child, stdout: None, stderr, started: Instant::now() }, stdout)
    }
}

/// Output that a thread of its own reads while the program runs, so that the program never waits.
#[derive(Debug)]
struct Collected {
    reader: JoinHandle<()>,
    bytes: Arc<Mutex<Vec<u8>>>,
}

impl Collected {
    fn from(mut stream: impl Read + Send + 'static) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let written = Arc::clone(&bytes);
        let reader = std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            // An error is the end of the stream as well.
            while let Ok(length @ 1..) = stream.read(&mut chunk) {
                let mut bytes = written.lock().unwrap_or_else(PoisonError::into_inner);
                bytes.extend_from_slice(&chunk[..length]);
            }
        });
        Self { reader, bytes }
    }

    fn so_far(&self) -> String {
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn all(self) -> String {
        let Self { reader, bytes } = self;
        reader.join().expect("the reader ends");
        let bytes = bytes.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// A program that runs. Killed if its test fails meanwhile.
#[derive(Debug)]
pub struct Running {
    child: Child,
    stdout: Option<Collected>,
    stderr: Option<Collected>,
    started: Instant,
}

impl Running {
    /// Sends it what Ctrl-C in a terminal sends.
    #[cfg(unix)]
    pub fn interrupt(&mut self) {
        if !self.is_alive() {
            return;
        }
        let id = libc::pid_t::try_from(self.child.id()).expect("a process id");
        // SAFETY: the child was not waited for when last seen, so the id is still its own. A
        // signal to one that has ended meanwhile goes nowhere.
        unsafe { libc::kill(id, libc::SIGINT) };
    }

    /// Kills it, which it cannot prevent.
    pub fn kill(&mut self) {
        self.child.kill().expect("a child can be killed");
    }

    /// The process's number.
    pub fn number(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has not ended yet.
    pub fn is_alive(&mut self) -> bool {
        self.child.try_wait().expect("a child can be waited for").is_none()
    }

    /// Waits until it has written `text` to one of its outputs.
    pub fn wait_until_it_says(&mut self, text: &str) {
        loop {
            let has_ended = self.child.try_wait().expect("a child can be waited for").is_some();
            let outputs = [&self.stdout, &self.stderr]
                .map(|output| output.as_ref().map(Collected::so_far).unwrap_or_default());
            if outputs.iter().any(|output| output.contains(text)) {
                return;
            }
            let is_late = self.started.elapsed() > PATIENCE;
            assert!(!has_ended && !is_late, "it never said {text:?} but {outputs:#?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// What it has written behind `text` on the same line of one of its outputs, once it has.
    pub fn rest_of_line(&mut self, text: &str) -> String {
        self.wait_until_it_says(text);
        loop {
            for output in [&self.stdout, &self.stderr].into_iter().flatten() {
                let so_far = output.so_far();
                let rest = so_far.split_once(text).and_then(|(_, rest)| rest.split_once('\n'));
                if let Some((line, _)) = rest {
                    return line.to_owned();
                }
            }
            assert!(self.started.elapsed() < PATIENCE, "it never ended the line with {text:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for its end, but not for ever.
    pub fn finish(mut self) -> Finished {
        let status = loop {
            match self.child.try_wait().expect("a child can be waited for") {
                Some(status) => break status,
                None if self.started.elapsed() > PATIENCE => panic!("it runs for {PATIENCE:?}"),
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        let text = |output: Option<Collected>| output.map(Collected::all).unwrap_or_default();
        let (stdout, stderr) = (text(self.stdout.take()), text(self.stderr.take()));
        Finished { status, stdout, stderr }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail if it has ended, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Tests that run in the background of a shell inherit an ignored SIGINT, which the program would
/// rightly go on to ignore.
#[cfg(unix)]
fn receive_interrupts(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    // SAFETY: the closure calls nothing but `signal`, which may be called between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            Ok(())
        });
    }
}

#[cfg(not(unix))]
fn receive_interrupts(_command: &mut Command) {}
