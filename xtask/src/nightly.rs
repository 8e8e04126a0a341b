//! The nightly toolchain, for what stable cannot do. Nothing that users need needs it.

use std::path::Path;
use std::process::{Command, Stdio};

/// What a program of the toolchain prints; `None` if it is not there, or fails.
pub fn answer(arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly"]).args(arguments);
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Whether it has the source of the standard library (the component rust-src).
pub fn has_source() -> bool {
    let library = "lib/rustlib/src/rust/library/std/Cargo.toml";
    let has_it = |sysroot: String| Path::new(&sysroot).join(library).exists();
    answer(&["rustc", "--print", "sysroot"]).is_some_and(has_it)
}
