//! Processes that have a numbering of their own, as those of a container do.

#![allow(dead_code, reason = "not every test needs all of it")]

use std::path::Path;
use std::process::Command;

/// What makes one: as root, or as anybody where the system lets them.
const WAYS: [&[&str]; 2] = [
    &["unshare", "--pid", "--fork", "--mount-proc"],
    &["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"],
];

/// What a program is called with, as its arguments, to be process 1 of its own numbering. `None`, which is
/// said, where this system lets nobody make one.
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

/// A program that another one, given with its arguments, is called with; by itself without one.
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
