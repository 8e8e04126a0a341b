//! Checks that a program with the setuid bit ignores the environment of the user that started it.

#![cfg(target_os = "linux")]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use mlprof_events::environment::{Environment, variable, variables};

const PLAYS: &str = "MLPROF_TEST_PRIVILEGED";
const NOBODY: u32 = 65534;

#[test]
fn program_of_another_process() {
    if std::env::var_os(PLAYS).is_none() {
        return;
    }
    // SAFETY: both functions have no preconditions.
    let (user, effective) = unsafe { (libc::getuid(), libc::geteuid()) };
    let named = [variable("MLPROF_DIRPATH"), variable("NVTX_INJECTION64_PATH")];
    let named = named.iter().flatten().count();
    println!("users {user} {effective}");
    println!("environment {} {named} {}", Environment::get().is_silent(), variables().len());
}

/// Returns the `environment …` line of a copy of this program with this mode. Another user starts
/// the copy. Returns `None` if the file system ignores setuid.
fn played(mode: u32) -> Option<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("program");
    fs::copy(std::env::current_exe().expect("this program"), &program).expect("copied");
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("set");
    fs::set_permissions(&program, Permissions::from_mode(mode)).expect("set");
    let output = Command::new(&program)
        .args(["program_of_another_process", "--exact", "--nocapture"])
        .env_clear()
        .env(PLAYS, "1")
        .env("MLPROF_DIRPATH", "/tmp/anywhere")
        .env("NVTX_INJECTION64_PATH", "/tmp/library.so")
        .uid(NOBODY)
        .gid(NOBODY)
        .current_dir("/")
        .output();
    let output = output.expect("started");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text} {}", String::from_utf8_lossy(&output.stderr));
    let is_privileged = text.contains(&format!("users {NOBODY} 0\n"));
    let expected = mode & 0o4000 != 0;
    if is_privileged != expected {
        println!("left out: the file system ignores setuid");
        return None;
    }
    let line = text.lines().find_map(|line| line.strip_prefix("environment "));
    Some(line.expect("said").to_owned())
}

#[test]
fn the_environment_of_a_setuid_program_is_its_callers() {
    // SAFETY: `geteuid` has no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        return println!("left out: only root can make programs that others run as root");
    }
    assert_eq!(played(0o755).expect("as it is"), "false 2 3", "an ordinary program");
    if let Some(said) = played(0o4755) {
        assert_eq!(said, "true 0 0");
    }
}
