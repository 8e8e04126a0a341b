//! Tests the list of `mlprof ps`, and the names in it.

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::program::{Rank, UNSHARE};

const MLPROF: &str = env!("CARGO_BIN_EXE_mlprof");

/// Timeout of a test.
const PATIENCE: Duration = Duration::from_secs(60);

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

fn run(runtime: &TempDir, arguments: &[&str]) -> Output {
    let mut command = Command::new(MLPROF);
    command.args(arguments).env("XDG_RUNTIME_DIR", runtime.path()).output().expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the listed processes that this test has started.
fn listed(output: &Output) -> Vec<Value> {
    let all: Vec<Value> = serde_json::from_slice(&output.stdout).expect("a list");
    let own = std::env::current_exe().expect("this program");
    let own = own.file_name().expect("a name").to_string_lossy().into_owned();
    all.into_iter().filter(|it| it["program"] == own.as_str() || it["program"] == "-").collect()
}

fn send(process: u32, signal: libc::c_int) {
    // SAFETY: `kill` takes two integers and no pointers. The child has not been reaped, so its
    // process id is not reused.
    assert_eq!(unsafe { libc::kill(libc::pid_t::try_from(process).expect("a number"), signal) }, 0);
}

pub fn one_that_is_stopped() {
    let runtime = folder();
    let (stopped, other) =
        (Rank::start(runtime.path(), 0, 1, &[]), Rank::start(runtime.path(), 0, 1, &[]));
    send(stopped.process(), libc::SIGSTOP);
    let output = run(&runtime, &["ps", "--json"]);
    let table = run(&runtime, &["ps"]);
    // The backlog of the stopped process is full, and `mlprof ps` must not wait for it either.
    let names: Vec<u64> = listed(&output).iter().filter_map(|it| it["process"].as_u64()).collect();
    let silent = listed(&output).into_iter().find(|it| it["process"] == stopped.process());
    send(stopped.process(), libc::SIGCONT);
    for process in [stopped.process(), other.process()] {
        assert_eq!(names.iter().filter(|it| **it == u64::from(process)).count(), 1, "{output:?}");
        let row = text(&table.stdout);
        assert!(
            row.lines().any(|line| line.trim_start().starts_with(&process.to_string())),
            "{row}"
        );
    }
    let silent = silent.expect("it is listed");
    if cfg!(target_os = "linux") {
        assert_eq!(silent["unanswered"], "stopped", "{silent}");
    }
    let now = listed(&run(&runtime, &["ps", "--json"]));
    assert!(now.iter().all(|it| it["unanswered"].is_null()), "it answers again: {now:?}");
}

pub fn waiting_requests_are_cancelled() {
    let (runtime, traces) = (folder(), folder());
    let rank = Rank::start(runtime.path(), 0, 1, &[]);
    let process = rank.process().to_string();
    let cancel = || {
        let output = run(&runtime, &["record", &process, "--cancel"]);
        assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
        text(&output.stderr)
    };
    assert_eq!(cancel(), format!("mlprof: process {process} has no recording to cancel\n"));
    // No step begins, so the recording waits.
    let waits = Command::new(MLPROF)
        .args(["record", &process, "--only", "-o"])
        .arg(traces.path())
        .env("XDG_RUNTIME_DIR", runtime.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    let holder = format!("mlprof record (process {})", waits.id());
    let began = Instant::now();
    let told = loop {
        let told = cancel();
        if !told.contains("has no recording to cancel") {
            break told;
        }
        assert!(began.elapsed() < PATIENCE, "it never came to that");
        std::thread::sleep(Duration::from_millis(5));
    };
    assert!(
        told.starts_with(&format!("mlprof: cancelled the recording requested by {holder} ")),
        "{told}"
    );
    let waits = waits.wait_with_output().expect("it ends");
    assert!(!waits.status.success(), "{waits:?}");
    assert!(text(&waits.stderr).contains("the user cancelled the recording"), "{waits:?}");
}

/// Two containers share the socket folder. In each of them, the training is process 1.
pub fn processes_of_containers() {
    let tried = Command::new("unshare").args(UNSHARE).arg("true").output();
    match tried {
        Ok(output) if output.status.success() => {}
        tried => return println!("    skipped: unshare is not permitted: {tried:?}"),
    }
    let runtime = folder();
    let all = [(); 2].map(|()| Rank::start_in_container(runtime.path()));
    // Outside the containers, each process has its own process id.
    let outside = listed(&run(&runtime, &["ps", "--json"]));
    let names: Vec<String> =
        outside.iter().map(|it| it["name"].as_str().expect("a name").to_owned()).collect();
    assert_eq!(names.len(), 2, "{outside:?}");
    for (name, state) in names.iter().zip(&outside) {
        assert_eq!(state["process"], 1, "{state}");
        assert!(name.parse::<u32>().is_ok_and(|number| number > 1), "{name}");
        let dump = run(&runtime, &["dump", name]);
        assert!(dump.status.success(), "{dump:?}");
    }
    // In a third container, neither process has a process id.
    let inside = |arguments: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(UNSHARE).arg(MLPROF).args(arguments);
        command.env("XDG_RUNTIME_DIR", runtime.path()).output().expect("it runs")
    };
    let third = listed(&inside(&["ps", "--json"]));
    let names: Vec<&str> = third.iter().map(|it| it["name"].as_str().expect("a name")).collect();
    assert!(names.len() == 2 && names.iter().all(|name| name.starts_with("1@")), "{third:?}");
    assert!(inside(&["dump", names[0]]).status.success());
    // There, `mlprof` itself is process 1, and it does not listen.
    let error = text(&inside(&["dump", "1"]).stderr);
    assert!(
        error.contains("process 1 is ambiguous, because several containers have one"),
        "{error}"
    );
    assert!(names.iter().all(|name| error.contains(name)), "{error}");
    let [one, _other] = all;
    drop(one);
    assert!(inside(&["dump", "1"]).status.success(), "there is only one left");
}
