//! The rustdoc that cargo calls: the user's, with programs made of examples linked as all others
//! are.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use super::argument_file::expanded;
use super::invocation::Invocation;
use super::platform;
use crate::run::plan::Plan;

/// Calls rustdoc. Options that are added here leave those of the user's environment and
/// configuration alone.
pub fn run(arguments: Vec<OsString>) -> io::Result<ExitStatus> {
    let (plan, run) = Plan::of_process()?;
    let rustdoc = plan.rustdoc.unwrap_or_else(|| PathBuf::from("rustdoc"));
    let mut command = Command::new(&rustdoc);
    command.args(&arguments);
    let invocation = Invocation::new(expanded(arguments));
    // Rustdoc describes its platform as rustc does, but that is not stable.
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

/// The compiler beside a rustdoc; the usual one for a rustdoc that is looked up.
fn rustc_of(rustdoc: &Path) -> OsString {
    let beside = rustdoc.with_file_name("rustc");
    if beside.is_absolute() && beside.is_file() {
        beside.into()
    } else {
        OsStr::new("rustc").into()
    }
}
