//! The nightly toolchain, for tasks that stable does not support. No user-facing feature depends on
//! it.

use std::path::Path;
use std::process::{Command, Stdio};

/// Returns the output of a program of the toolchain, or `None` if it is missing or fails.
pub fn answer(arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly"]).args(arguments);
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Returns `true` if the standard library's source (the component rust-src) is installed.
pub fn has_source() -> bool {
    let library = "lib/rustlib/src/rust/library/std/Cargo.toml";
    let has_it = |sysroot: String| Path::new(&sysroot).join(library).exists();
    answer(&["rustc", "--print", "sysroot"]).is_some_and(has_it)
}
