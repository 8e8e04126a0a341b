//! Tests signals that reach `mlprof` alone, as those of a supervisor do.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use super::own_numbers;
use super::shop::{MLPROF, TestProject, arguments};

/// Returns the state of a process as reported by the system. Returns `None` if it has ended or is
/// in another session.
pub fn state_of(process: &str, session: Option<&str>) -> Option<char> {
    let status = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let mut words = status.rsplit(')').next()?.split_whitespace();
    let state = words.next()?.chars().next().filter(|state| !"ZX".contains(*state))?;
    let own = words.nth(2)?;
    session.is_none_or(|session| session == own).then_some(state)
}

fn is_alive(process: &str) -> bool {
    state_of(process, None).is_some()
}

pub fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn interrupt(project: &TestProject, mlprof: &Child) {
    let sent = project.run("kill", &["-INT", &mlprof.id().to_string()]);
    assert_eq!(sent.code, Some(0), "{sent:?}");
}

#[test]
fn the_program_is_told_and_its_report_is_there() {
    let project = TestProject::copy_of("endings");
    let words = arguments("--functions endings::leaf", "cargo run -- wait");
    let mut command = project.command(MLPROF, &words);
    let mut mlprof =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    let mut lines = BufReader::new(mlprof.stdout.take().expect("piped")).lines();
    assert!(lines.any(|line| line.is_ok_and(|line| line == "waiting")));
    interrupt(&project, &mlprof);
    let ended = mlprof.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.signal(), Some(2), "{said}");
    assert_eq!(project.calls().get("endings::leaf"), Some(&100), "{said}");
    assert!(
        said.contains("ended by SIGINT") && said.contains("to print tables in another order"),
        "{said}"
    );
}

/// Runs `mlprof` as process 1, as in a container. The system drops signals to process 1 without a
/// handler, and only `mlprof` can reap its children.
#[test]
fn the_first_process_of_a_container_passes_signals_on_and_ends() {
    let Some(way) = own_numbers::way() else { return };
    let project = TestProject::copy_of("endings");
    let contained = |words: &str| {
        let words = arguments("--functions endings::leaf", words);
        project.command(way[0], &[&way[1..], &[MLPROF], &words].concat())
    };
    let run = contained("cargo run").output().expect("it runs");
    assert!(run.status.success(), "{run:?}");
    assert_eq!(project.calls().get("endings::leaf"), Some(&100), "{run:?}");
    assert!(String::from_utf8_lossy(&run.stdout).contains("end\n"), "{run:?}");
    project.forget_results();

    let mut unshare = contained("cargo run -- wait");
    let mut unshare =
        unshare.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    let mut lines = BufReader::new(unshare.stdout.take().expect("piped")).lines();
    assert!(lines.any(|line| line.is_ok_and(|line| line == "waiting")));
    let parent = unshare.id();
    let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
    let first = children.expect("it has some").trim().to_owned();
    let sent = project.run("kill", &["-TERM", &first]);
    assert_eq!(sent.code, Some(0), "{sent:?}");
    let ended = unshare.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(128 + 15), "{said}");
    assert_eq!(project.calls().get("endings::leaf"), Some(&100), "{said}");
    assert!(said.contains("ended by SIGTERM"), "{said}");
}

#[test]
fn a_build_ends() {
    let project = TestProject::copy_of("endings");
    let told = project.path("building");
    let words = arguments("--functions endings::leaf", "cargo run");
    let mut command = project.command(MLPROF, &words);
    command.env("ENDINGS_SLOW_BUILD", &told).stdout(Stdio::null()).stderr(Stdio::null());
    let mut mlprof = command.spawn().expect("it runs");
    eventually("the build script runs", || Path::new(&told).exists());
    let script = std::fs::read_to_string(&told).expect("its number");
    interrupt(&project, &mlprof);
    let status = mlprof.wait().expect("it ends");
    assert!(!status.success(), "{status}");
    eventually("the build script ends", || !is_alive(&script));
}
