//! Exit codes that the commands pass on from profiled programs.

use std::process::{ExitCode, ExitStatus};

/// Returns the program's exit code, or 128 plus the signal number, as shells do.
pub fn exit_code(status: ExitStatus) -> ExitCode {
    #[cfg(unix)]
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    #[cfg(not(unix))]
    let signal: Option<i32> = None;
    let code = status.code().or(signal.map(|signal| 128 + signal)).unwrap_or(1);
    ExitCode::from(u8::try_from(code & 0xff).unwrap_or(1))
}
