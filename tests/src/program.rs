//! Builds and runs programs.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::builds;

/// Timeout after which a program is killed and its test fails.
const PATIENCE: Duration = Duration::from_secs(300);

/// Variables for the number of threads in rayon and libtorch.
const THREADS: [&str; 2] = ["RAYON_NUM_THREADS", "OMP_NUM_THREADS"];

/// Builds a package's programs once, together with all packages of the same build, and returns the
/// path of `binary`.
pub fn build(package: &str, binary: &str) -> PathBuf {
    static BUILT: Mutex<Option<HashMap<String, PathBuf>>> = Mutex::new(None);
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    let built = built.get_or_insert_default();
    if !built.contains_key(binary) {
        built.extend(run_cargo_build(package));
    }
    built.get(binary).cloned().unwrap_or_else(|| panic!("cargo built no program called {binary}"))
}

/// Returns `true` if burn's programs are built with burn 0.23, only for the CPU.
pub fn is_burn_next() -> bool {
    std::env::var_os(builds::BURN_NEXT_VARIABLE).is_some()
}

/// Builds all programs in one command, so that all cores are used until the end.
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

/// A program run in preparation: without input, in its own folder, and without environment
/// variables that would change its behaviour. rayon (with candle and burn) and libtorch use one
/// thread, because their threads wait actively and other tests run in parallel.
#[derive(Debug)]
pub struct Run {
    command: Command,
}

/// Exit status and output of a program.
#[derive(Debug)]
pub struct Finished {
    /// Exit status.
    pub status: ExitStatus,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Run {
    /// Prepares a run of the program at `path` in the folder `directory`.
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
        // Tests read complete tables.
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

    /// Adds arguments after a `--`, if there are any.
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

    /// Uses the default number of threads for ops.
    #[must_use]
    pub fn on_all_threads(mut self) -> Self {
        THREADS.into_iter().for_each(|variable| {
            self.command.env_remove(variable);
        });
        self
    }

    /// Runs the program to its end.
    pub fn finish(self) -> Finished {
        self.start().finish()
    }

    /// Runs the program to its end and asserts success.
    pub fn succeed(self) -> Finished {
        let finished = self.finish();
        assert!(finished.status.success(), "{finished:#?}");
        finished
    }

    /// Starts the program.
    pub fn start(mut self) -> Running {
        let mut child = self.command.spawn().expect("the program starts");
        let stdout = child.stdout.take().map(Collected::from);
        let stderr = child.stderr.take().map(Collected::from);
        Running { child, stdout, stderr, started: Instant::now() }
    }

    /// Starts the program and returns its standard output, which the caller may close.
    pub fn start_with_output(mut self) -> (Running, std::process::ChildStdout) {
        let mut child = self.command.spawn().expect("the program starts");
        let stdout = child.stdout.take().expect("piped");
        let stderr = child.stderr.take().map(Collected::from);
        (Running { child, stdout: None, stderr, started: Instant::now() }, stdout)
    }
}

/// Output that a separate thread reads, so that the program never blocks on a full pipe.
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
            // An error also ends the stream.
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

/// A running program, which is killed if its test fails.
#[derive(Debug)]
pub struct Running {
    child: Child,
    stdout: Option<Collected>,
    stderr: Option<Collected>,
    started: Instant,
}

impl Running {
    /// Sends SIGINT, as Ctrl-C in a terminal does.
    #[cfg(unix)]
    pub fn interrupt(&mut self) {
        if !self.is_alive() {
            return;
        }
        let id = libc::pid_t::try_from(self.child.id()).expect("a process id");
        // SAFETY: `kill` takes plain integers. The child has not been waited for, so its process id
        // is not reused. A signal to a process that has already exited has no effect.
        unsafe { libc::kill(id, libc::SIGINT) };
    }

    /// Sends SIGKILL, which the program cannot handle.
    pub fn kill(&mut self) {
        self.child.kill().expect("a child can be killed");
    }

    /// Returns the process id.
    pub fn number(&self) -> u32 {
        self.child.id()
    }

    /// Returns `true` if the program has not exited.
    pub fn is_alive(&mut self) -> bool {
        self.child.try_wait().expect("a child can be waited for").is_none()
    }

    /// Waits until the program has written `text` to standard output or standard error.
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

    /// Waits until the program has written a line with `text`, and returns the rest of that line.
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

    /// Waits for the program's end, with a timeout.
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
        // Both calls fail if the program has already exited, which is acceptable.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Enables SIGINT. Tests in the background of a shell inherit an ignored SIGINT, and the program
/// would correctly keep it ignored.
#[cfg(unix)]
fn receive_interrupts(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    // SAFETY: the closure only calls `signal`, which is async-signal-safe and may be called between
    // fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            Ok(())
        });
    }
}

#[cfg(not(unix))]
fn receive_interrupts(_command: &mut Command) {}
