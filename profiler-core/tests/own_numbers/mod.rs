//! Processes in a PID namespace of their own, like those of a container.

#![allow(dead_code, reason = "not every test needs all of it")]

use std::path::Path;
use std::process::Command;

/// Commands that create a namespace: as root, or as any user where the system permits it.
const WAYS: [&[&str]; 2] = [
    &["unshare", "--pid", "--fork", "--mount-proc"],
    &["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"],
];

/// Returns a command prefix that makes a program process 1 of its own PID namespace. Prints a
/// message and returns `None` if this system does not permit it.
pub fn way() -> Option<&'static [&'static str]> {
    let works = |way: &&&[&str]| {
        let tried = wrapped(way, Path::new("true")).output();
        tried.is_ok_and(|tried| tried.status.success())
    };
    let found = WAYS.iter().find(works).copied();
    if found.is_none() {
        println!("left out: this system lets nobody make process numbers of their own (unshare)");
    }
    found
}

/// Returns a command that runs `program`, wrapped by the command `around` if that is not empty.
pub fn wrapped(around: &[&str], program: &Path) -> Command {
    match around.split_first() {
        Some((other, arguments)) => {
            let mut command = Command::new(other);
            command.args(arguments).arg(program);
            command
        }
        None => Command::new(program),
    }
}
