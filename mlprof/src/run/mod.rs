//! `mlprof run`: builds a program with hooks, runs it, and prints where the results are.

mod arguments;
mod cargo_command;
mod cargo_config;
pub mod cargo_of_scripts;
mod child;
mod explain;
pub mod notes;
pub mod plan;
mod processes;
mod reasons;
pub mod record;
mod results;
mod target;
mod target_copy;
pub mod tools;
mod unmeasured;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};

use mlprof_events::run::RUN_VARIABLE;
use mlprof_report::output::TemporaryFolder;

pub use arguments::Arguments;
use cargo_config::CargoConfig;
use child::Ended;
use plan::{PLAN_VARIABLE, Plan};
use record::CrateRecord;
use tools::Tool;

use crate::exit_code::exit_code;
use crate::runtime;
use crate::say::say;
use mlprof_instrument::SelectError;

/// Error that prevents the command from running.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The arguments select no measurement.
    #[error(
        "nothing to measure: select ops (--ops candle) or functions (--functions 'my_model::*'), \
         or use --live; see `mlprof run --help`"
    )]
    Nothing,
    /// The environment forbids live requests.
    #[error("cannot use --live: MLPROF_LIVE=0 is set in the environment")]
    Forbidden,
    /// `cargo install` would install programs with hooks.
    #[error(
        "cannot measure `cargo install`: the installed program would keep its hooks\nhelp: measure \
         `cargo run --release` instead, and install without mlprof"
    )]
    Installs,
    /// The system is not Linux.
    #[error(
        "cannot run programs with hooks on this system: `mlprof run` requires Linux; `mlprof \
         report` and `mlprof convert` work everywhere"
    )]
    System,
    /// The selection is invalid.
    #[error(transparent)]
    Select(#[from] SelectError),
    /// The schedule is invalid.
    #[error("invalid --schedule: {0}")]
    Schedule(String),
    /// The folder of build output or of results cannot be written.
    #[error("cannot write to {path}: {error}{hint}")]
    Folder {
        /// Path of the folder.
        path: PathBuf,
        /// I/O error.
        error: io::Error,
        /// Suggestion that follows the message.
        hint: &'static str,
    },
    /// The command cannot be started.
    #[error("cannot run `{program}`")]
    Command {
        /// Name of the program.
        program: String,
        /// I/O error.
        #[source]
        error: io::Error,
    },
}

const TARGET_HINT: &str = "\nhelp: build output with hooks goes to a separate folder; set \
     CARGO_TARGET_DIR to use another one";

/// Runs the command and returns its exit status.
///
/// # Errors
///
/// Returns an [`Error`] if the command was not run. Later problems are reported on standard error.
pub fn run(arguments: &Arguments) -> Result<ExitStatus, Error> {
    if !cfg!(target_os = "linux") {
        return Err(Error::System);
    }
    if cargo_command::installs(&arguments.command) {
        return Err(Error::Installs);
    }
    let selection = arguments.selection()?;
    for framework in selection.frameworks_without_outputs() {
        say(&format!(
            "the values that {framework} ops return are not checked: its rules do not define how \
             to read them"
        ));
    }
    let hooks = target::Hooks {
        presets: &arguments.ops,
        outputs: arguments.numerics,
        frame_pointers: arguments.frame_pointers,
    };
    let folders = target::folders_of(&arguments.command, hooks);
    let (users, target) = (folders.users, folders.own);
    if let Some(from) = folders.alike
        && target_copy::begin_as_copy(&target, &from)
    {
        say(&format!("reusing a copy of the build output in {}", from.display()));
    }
    let folder = target.join(target_copy::STATE);
    let in_target = |error| Error::Folder { path: target.clone(), error, hint: TARGET_HINT };
    let runtime = runtime::install(&folder).map_err(in_target)?;
    // The session folder belongs to this process alone, even if a process in another container has
    // the same id. It is removed at the end.
    let session = TemporaryFolder::within(&folder).map_err(in_target)?;
    let processes = session.path().join("processes");
    let settings = arguments.settings(&selection, &processes)?;
    let config = CargoConfig::of(&arguments.command);
    let plan = Plan {
        selection,
        tracks_allocations: settings.measures_memory(),
        frame_pointers: arguments.frame_pointers,
        runtime,
        target: target.clone(),
        folder: folder.clone(),
        chained_wrapper: config.rustc_wrapper(),
        rustdoc: config.rustdoc(),
    };
    std::fs::create_dir_all(&processes).map_err(in_target)?;
    let results = results::Results::begin(&settings.directory).map_err(|error| Error::Folder {
        path: settings.directory.clone(),
        error,
        hint: "\nhelp: choose another folder with --output",
    })?;
    let changed = target::forget_changed(&target, &plan).map_err(in_target)?;
    if !changed.is_empty() {
        say(&format!("recompiling crates with changed hooks: {}", changed.join(", ")));
    }
    let (plan_file, run_file) = (session.path().join("plan.json"), session.path().join("run.json"));
    plan.write(&plan_file).map_err(in_target)?;
    settings.write(&run_file).map_err(in_target)?;
    let build = Build {
        rustc_wrapper: Tool::RustcWrapper.install(&folder).map_err(in_target)?,
        rustdoc: Tool::Rustdoc.install(&folder).map_err(in_target)?,
        cargo: Tool::Cargo.install(&folder.join(cargo_of_scripts::FOLDER)).map_err(in_target)?,
        target: target.clone(),
        has_build_dir: config.has_build_dir(),
        plan_file,
    };
    let ended = call(arguments, &build, &run_file);
    let mut new = results.new_files();
    let measured = ended.as_ref().map(|ended| processes::tell(&processes, ended, &new));
    let measured = measured.unwrap_or_default();
    drop(session);
    let status = ended?.status;
    let records: Vec<_> =
        CrateRecord::read_all(&plan.records()).into_iter().map(|(_, record)| record).collect();
    explain::warn_of_unmatched(&plan, &records);
    explain::warn_of_cautions(&plan, &records);
    if arguments.explain {
        explain::explain(&plan, &records);
    } else {
        explain::warn_of_unmeasured(&plan, &records);
    }
    if measured.any {
        reasons::tell(&settings, &plan, &records, &new, measured);
    }
    if !measured.any && new.is_empty() {
        let command = &arguments.command;
        unmeasured::lines(command, status.success(), &users, &plan, &records)
            .iter()
            .for_each(|line| say(line));
    }
    if arguments.html {
        results.write_page(&mut new);
    }
    results.tell(&new);
    Ok(status)
}

/// Files and folders that are passed to cargo.
struct Build {
    rustc_wrapper: PathBuf,
    rustdoc: PathBuf,
    cargo: PathBuf,
    target: PathBuf,
    /// Set when the user has a separate folder for intermediate artifacts.
    has_build_dir: bool,
    plan_file: PathBuf,
}

fn call(arguments: &Arguments, build: &Build, run_file: &Path) -> Result<Ended, Error> {
    let has_variable = target::non_empty("CARGO_TARGET_DIR").is_some();
    let redirected = cargo_command::redirected(&arguments.command, &build.target, has_variable);
    let (program, rest) = redirected.command.split_first().ok_or(Error::Nothing)?;
    let failed = |error| Error::Command { program: program.to_string_lossy().into_owned(), error };
    let tools = [&build.plan_file, &build.rustc_wrapper, &build.rustdoc];
    let mut command = Command::new(program);
    command.args(rest).envs(TOOL_VARIABLES.into_iter().zip(tools)).env(RUN_VARIABLE, run_file);
    if redirected.by_environment {
        // Without a separate folder for intermediate artifacts, only the first variable is set. If
        // the command then names another build folder, all artifacts go there, and none of them has
        // hooks.
        let count = if build.has_build_dir { 2 } else { 1 };
        command.envs(FOLDER_VARIABLES.iter().take(count).map(|name| (name, &build.target)));
        let path = build.cargo.parent().and_then(cargo_of_scripts::path_with);
        if let Some(path) = path.filter(|_| !has_variable) {
            command.env("PATH", path);
        }
    }
    child::run(&mut command).map_err(failed)
}

/// Ends with the exit code of the command, or by the termination signal that ended it.
pub fn end_as(status: ExitStatus) -> ExitCode {
    child::die_of(status);
    exit_code(status)
}

/// Environment variables that make cargo use the tools of this run.
///
/// rustdoc calls no compiler wrapper, so mlprof's own rustdoc adds the flags for examples in
/// documentation. Environment variables with flags would override the user's configuration.
const TOOL_VARIABLES: [&str; 3] = [PLAN_VARIABLE, "RUSTC_WRAPPER", "RUSTDOC"];

/// Environment variables with the folder of build output, for final and for intermediate artifacts.
const FOLDER_VARIABLES: [&str; 2] = ["CARGO_TARGET_DIR", "CARGO_BUILD_BUILD_DIR"];

/// Returns the values of these variables before the run. The profiled program gets these values
/// back.
fn changed_variables() -> BTreeMap<String, Option<OsString>> {
    let all = TOOL_VARIABLES.iter().chain(&FOLDER_VARIABLES);
    all.map(|name| ((*name).to_owned(), std::env::var_os(name))).collect()
}
