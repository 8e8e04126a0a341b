//! The rustdoc that cargo calls. It runs the user's rustdoc and links documentation examples with
//! the runtime library.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use super::argument_file::expanded;
use super::invocation::Invocation;
use super::platform;
use crate::run::plan::Plan;

/// Runs rustdoc. The link option is added on the command line, so options from the user's
/// environment and configuration stay in effect.
pub fn run(arguments: Vec<OsString>) -> io::Result<ExitStatus> {
    let (plan, run) = Plan::of_process()?;
    let rustdoc = plan.rustdoc.unwrap_or_else(|| PathBuf::from("rustdoc"));
    let mut command = Command::new(&rustdoc);
    command.args(&arguments);
    let invocation = Invocation::new(expanded(arguments));
    // rustdoc can print its platform only with an unstable option, so rustc is queried instead.
    let compiler = rustc_of(&rustdoc);
    let is_linked =
        invocation.is_test() && platform::obstacle(&compiler, &invocation, &run).is_none();
    if is_linked {
        let mut option = OsString::from("link-arg=");
        option.push(&plan.runtime);
        command.arg("-C").arg(option);
    }
    command.status()
}

/// Returns the compiler next to a rustdoc, or the default compiler for a rustdoc found by `PATH`.
fn rustc_of(rustdoc: &Path) -> OsString {
    let beside = rustdoc.with_file_name("rustc");
    if beside.is_absolute() && beside.is_file() {
        beside.into()
    } else {
        OsStr::new("rustc").into()
    }
}
