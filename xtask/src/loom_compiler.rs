//! The compiler for models of threads: the real one, with `--cfg loom` for the crates of this workspace. In `RUSTFLAGS` it would have all
//! others built a second time, which takes minutes.

use std::env;
use std::ffi::OsString;
use std::process::{Command, ExitCode};

use crate::libtorch::Variables;

/// Tells this program that cargo calls it as its compiler.
const VARIABLE: &str = "MLPROF_LOOM_COMPILER";

/// Has cargo compile so. It asks this compiler, too, for which platform it compiles, and so finds `[target.'cfg(loom)']`.
pub fn variables() -> Result<Variables, String> {
    let own = env::current_exe().map_err(|error| format!("cargo xtask is nowhere: {error}"))?;
    Ok(vec![("RUSTC_WORKSPACE_WRAPPER", Some(own.into())), (VARIABLE, Some("1".into()))])
}

/// Whether cargo calls this program as its compiler.
pub fn is_called() -> bool {
    env::var_os(VARIABLE).is_some()
}

/// Compiles: the arguments are the real compiler and what that is asked for.
pub fn compile() -> ExitCode {
    let mut arguments = env::args_os().skip(1);
    let compiler = arguments.next().unwrap_or_else(|| OsString::from("rustc"));
    match Command::new(compiler).args(arguments).args(["--cfg", "loom"]).status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(status) => ExitCode::from(status.code().map_or(1, |code| code.to_le_bytes()[0])),
        Err(error) => {
            eprintln!("error: the compiler cannot be run: {error}");
            ExitCode::FAILURE
        }
    }
}
