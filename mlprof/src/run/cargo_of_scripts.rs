//! The `cargo` that scripts find in `PATH`. It runs the user's cargo, with the build folder set by
//! options instead of the environment.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::process::{Command, ExitStatus};

use super::cargo_command;
use super::notes;
use super::plan::Plan;
use super::target::non_empty;
use super::target_copy::STATE;
use super::{FOLDER_VARIABLES, TOOL_VARIABLES};

/// Name of the subfolder with this `cargo`, inside the folder of `mlprof run`'s state.
pub const FOLDER: &str = "bin";

/// Replaces this process by the user's cargo.
///
/// # Errors
///
/// Returns an error if cargo cannot be started.
pub fn run(arguments: Vec<OsString>) -> io::Result<ExitStatus> {
    let mut command: Vec<_> = [OsString::from("cargo")].into_iter().chain(arguments).collect();
    let (mut removed, mut added) = (Vec::<&str>::new(), Vec::new());
    // Profiled programs run with the original environment, so they have no plan.
    if let Ok((plan, run)) = Plan::of_process() {
        let is_own = non_empty(FOLDER_VARIABLES[0]).is_some_and(|folder| folder == plan.target);
        if cargo_command::installs(&command) {
            let text = "programs built by `cargo install` have no hooks, because they would keep \
                        them after installation";
            notes::say_once(&run, text, text);
            removed.extend(TOOL_VARIABLES.iter().chain(&FOLDER_VARIABLES));
            added.extend(plan.chained_wrapper.map(|path| ("RUSTC_WRAPPER", path)));
            added.extend(plan.rustdoc.map(|path| ("RUSTDOC", path)));
        } else if is_own && cargo_command::option(&command, "--target-dir").is_none() {
            let redirected = cargo_command::redirected(&command, &plan.target, false);
            command = redirected.command;
            if !redirected.by_environment {
                removed.extend(&FOLDER_VARIABLES);
            }
        }
    }
    let mut cargo = Command::new("cargo");
    cargo.args(command.iter().skip(1));
    if let Some(path) = std::env::var_os("PATH").and_then(|path| without_own(&path)) {
        cargo.env("PATH", path);
    }
    for name in removed {
        cargo.env_remove(name);
    }
    cargo.envs(added);
    replace_by(cargo)
}

/// Returns the search path with `folder` prepended.
pub fn path_with(folder: &Path) -> Option<OsString> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = [folder.to_owned()].into_iter().chain(std::env::split_paths(&path));
    std::env::join_paths(folders).ok()
}

/// Returns the search path without the folders that `mlprof run` added.
fn without_own(path: &OsStr) -> Option<OsString> {
    let own = Path::new(STATE).join(FOLDER);
    std::env::join_paths(std::env::split_paths(path).filter(|folder| !folder.ends_with(&own))).ok()
}

#[cfg(unix)]
fn replace_by(mut command: Command) -> io::Result<ExitStatus> {
    Err(std::os::unix::process::CommandExt::exec(&mut command))
}

#[cfg(not(unix))]
fn replace_by(mut command: Command) -> io::Result<ExitStatus> {
    command.status()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_s_cargo_is_behind_all_of_ours() {
        let own = Path::new("/t/mlprof/functions").join(STATE).join(FOLDER);
        let path = std::env::join_paths([own.as_path(), "/usr/bin".as_ref(), "/bin".as_ref()])
            .expect("a path");
        let rest = without_own(&path).expect("a path");
        assert_eq!(
            std::env::split_paths(&rest).collect::<Vec<_>>(),
            [Path::new("/usr/bin"), "/bin".as_ref()]
        );
    }
}
