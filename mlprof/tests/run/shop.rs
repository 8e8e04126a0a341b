//! The profiled program, copied to a temporary folder.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use mlprof_core::Report;
use mlprof_core::report::advanced::CallStatistics;
use tempfile::TempDir;

/// A copy of `tests/shop`, or of another program in `tests`.
pub struct TestProject {
    folder: TempDir,
    /// Folder of the program inside the copy.
    below: &'static str,
}

/// Output and exit code of a command.
#[derive(Debug)]
pub struct Finished {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl From<Output> for Finished {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self {
            code: output.status.code(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}

impl TestProject {
    pub fn open() -> Self {
        Self::copy_of("shop")
    }

    /// Copies another program of `tests`.
    pub fn copy_of(program: &str) -> Self {
        Self::below(program, "")
    }

    /// Copies a program of `tests` and makes it use the `mlprof-core` of this workspace.
    pub fn with_core(program: &str) -> Self {
        let project = Self::copy_of(program);
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let core = workspace.join("profiler-core").canonicalize().expect("it is there");
        let manifest = project.path("Cargo.toml");
        let text = std::fs::read_to_string(&manifest).expect("a manifest");
        let text = text.replace("PROFILER_CORE", core.to_str().expect("text"));
        std::fs::write(&manifest, text).expect("written");
        std::fs::copy(workspace.join("Cargo.lock"), project.path("Cargo.lock")).expect("copied");
        project
    }

    /// Copies a folder of `tests` whose subfolder `below` contains the program.
    pub fn below(name: &str, below: &'static str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let original = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name);
        copy(&original, &folder.path().join("shop"));
        Self { folder, below }
    }

    pub fn path(&self, below: &str) -> PathBuf {
        self.folder.path().join("shop").join(self.below).join(below)
    }

    /// Returns a command in the program's folder, without the variables that cargo set for this
    /// process.
    pub fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("CARGO_PKG") || text.starts_with("CARGO_MANIFEST") {
                command.env_remove(&name);
            }
        }
        command
            .args(arguments)
            .current_dir(self.path(""))
            .env("CARGO_TARGET_DIR", self.path("target"))
            .env("CARGO_NET_OFFLINE", "true")
            .env_remove("RUSTC_WRAPPER")
            .env_remove("RUSTFLAGS")
            .env_remove("CARGO_PROFILE_DEV_DEBUG")
            .env_remove("RUSTDOCFLAGS")
            .stdin(Stdio::null());
        command
    }

    pub fn run(&self, program: &str, arguments: &[&str]) -> Finished {
        self.command(program, arguments).output().expect("it runs").into()
    }

    /// Runs `mlprof run` with these options and this command.
    pub fn mlprof(&self, options: &str, command: &str) -> Finished {
        self.run(MLPROF, &arguments(options, command))
    }

    /// Runs `mlprof run` until the program waits, which `wait_for` detects. Then sends a signal to
    /// all processes, as a terminal does.
    pub fn end_while_waiting(
        &self,
        options: &str,
        signal: &str,
        wait_for: impl FnOnce(),
    ) -> Finished {
        let mut command = self.command(MLPROF, &arguments(options, "cargo run -- wait"));
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("runs");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        assert!(lines.any(|line| line.is_ok_and(|line| line == "waiting")));
        wait_for();
        let group = format!("-{}", child.id());
        let sent = self.run("kill", &[signal, "--", &group]);
        assert_eq!(sent.code, Some(0), "{sent:?}");
        let rest: Vec<String> = lines.map_while(Result::ok).collect();
        let status = child.wait().expect("it ends");
        Finished { code: status.code(), stdout: rest.join("\n"), stderr: String::new() }
    }

    /// Returns the reports in the folder of results, by file name.
    pub fn reports(&self) -> BTreeMap<String, Report> {
        let files = std::fs::read_dir(self.path("mlprof-results")).expect("results");
        let reports = files.filter_map(|file| {
            let path = file.expect("a file").path();
            let name = path.file_name()?.to_string_lossy().into_owned();
            let text = std::fs::read_to_string(&path).ok().filter(|_| name.ends_with(".json"))?;
            Some((name, Report::from_json(&text).expect("a report")))
        });
        reports.collect()
    }

    /// Returns the calls by function name, summed over all processes.
    pub fn calls(&self) -> BTreeMap<String, u64> {
        self.sums(|calls| calls.total_calls)
    }

    /// Returns the polls of async functions by function name.
    pub fn polls(&self) -> BTreeMap<String, u64> {
        self.sums(|calls| calls.polls)
    }

    fn sums(&self, of: impl Fn(&CallStatistics) -> u64) -> BTreeMap<String, u64> {
        let mut calls = BTreeMap::new();
        for report in self.reports().into_values() {
            let Report::Advanced(report) = report else { continue };
            for function in report.actions.into_iter().flat_map(|action| action.functions) {
                if function.function.file != "~" {
                    let sum = calls.entry(function.function.name).or_insert(0);
                    *sum += of(&function.calls);
                }
            }
        }
        calls
    }

    pub fn forget_results(&self) {
        std::fs::remove_dir_all(self.path("mlprof-results")).expect("results");
    }
}

pub const MLPROF: &str = env!("CARGO_BIN_EXE_mlprof");

pub fn arguments<'a>(options: &'a str, command: &'a str) -> Vec<&'a str> {
    let words = |text: &'a str| text.split_whitespace();
    std::iter::once("run").chain(words(options)).chain(["--"]).chain(words(command)).collect()
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("made");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a kind").is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).expect("copied");
        }
    }
}
