//! Tests the commands that read traces: `analyze`, `diff`, `merge`, `convert` and `sql`.

mod analyze;
mod diff;
mod flames;
mod foreign;
mod kernels;
mod merge;
mod recorded;
#[cfg(unix)]
mod sql;
mod what_if;

use std::path::Path;
use std::process::{Command, Output, Stdio};

fn mlprof(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mlprof"));
    command.args(arguments).stdin(Stdio::null()).output().expect("the command was built")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn path(path: &Path) -> &str {
    path.to_str().expect("temporary paths are text")
}
