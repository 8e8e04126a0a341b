//! A compiler wrapper for loom tests. It adds `--cfg loom` only for the crates of this workspace.
//! In `RUSTFLAGS`, the flag would rebuild all other crates, which takes minutes.

use std::env;
use std::ffi::OsString;
use std::process::{Command, ExitCode};

use crate::libtorch::Variables;

/// Environment variable that is set when cargo calls this program as its compiler.
const VARIABLE: &str = "MLPROF_LOOM_COMPILER";

/// Returns variables that make cargo use the wrapper. cargo also queries the wrapper for its target
/// configuration, and therefore applies `[target.'cfg(loom)']`.
pub fn variables() -> Result<Variables, String> {
    let own = env::current_exe().map_err(|error| {
        format!(
            "cannot find the program cargo xtask: \
                                                          {error}"
        )
    })?;
    Ok(vec![("RUSTC_WORKSPACE_WRAPPER", Some(own.into())), (VARIABLE, Some("1".into()))])
}

/// Returns `true` if cargo calls this program as its compiler.
pub fn is_called() -> bool {
    env::var_os(VARIABLE).is_some()
}

/// Runs the real compiler. The arguments are its path and its own arguments.
pub fn compile() -> ExitCode {
    let mut arguments = env::args_os().skip(1);
    let compiler = arguments.next().unwrap_or_else(|| OsString::from("rustc"));
    match Command::new(compiler).args(arguments).args(["--cfg", "loom"]).status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(status) => ExitCode::from(status.code().map_or(1, |code| code.to_le_bytes()[0])),
        Err(error) => {
            eprintln!("error: cannot run the compiler: {error}");
            ExitCode::FAILURE
        }
    }
}
