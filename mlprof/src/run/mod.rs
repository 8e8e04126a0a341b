//! `mlprof run`: builds a program with hooks in it, runs it, and says where the results are.

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

/// Why a command was not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing to measure was named.
    #[error(
        "nothing to measure: name ops (--ops candle) or functions (--functions 'my_model::*'), or have it listen \
         (--live); see `mlprof run --help`"
    )]
    Nothing,
    /// What was asked for is forbidden.
    #[error("--live: MLPROF_LIVE=0 in the environment forbids it")]
    Forbidden,
    /// Programs with hooks would be installed.
    #[error(
        "cannot measure `cargo install`: the installed program would keep its hooks\nmeasure `cargo run --release` \
         instead, and install without mlprof"
    )]
    Installs,
    /// The system is not Linux.
    #[error(
        "`mlprof run` works on Linux only so far; `mlprof report` and `mlprof convert` work everywhere"
    )]
    System,
    /// What was named cannot be.
    #[error(transparent)]
    Select(#[from] SelectError),
    /// The schedule cannot be.
    #[error("--schedule: {0}")]
    Schedule(String),
    /// The folder of build output, or that of results.
    #[error("cannot write to {path}: {error}{hint}")]
    Folder {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
        /// What to do.
        hint: &'static str,
    },
    /// The command itself.
    #[error("cannot run `{program}`")]
    Command {
        /// Its name.
        program: String,
        /// Why.
        #[source]
        error: io::Error,
    },
}

const TARGET_HINT: &str = "\nbuild output of programs with hooks goes to a folder of its own; name another one in \
     CARGO_TARGET_DIR";

/// Runs the command; its exit status.
///
/// # Errors
///
/// [`Error`], if it was not run. What goes wrong afterwards is said on standard error.
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
            "what ops of {framework} return is not looked at: its rules do not say how their numbers are read"
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
        say(&format!("begins with what is built in {}", from.display()));
    }
    let folder = target.join(target_copy::STATE);
    let in_target = |error| Error::Folder { path: target.clone(), error, hint: TARGET_HINT };
    let runtime = runtime::install(&folder).map_err(in_target)?;
    // Of this process alone, also where others in containers have its number. Gone at the end.
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
        hint: "\nname another folder with --output",
    })?;
    let changed = target::forget_changed(&target, &plan).map_err(in_target)?;
    if !changed.is_empty() {
        say(&format!("other hooks than the last time: {}", changed.join(", ")));
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

/// What cargo is told.
struct Build {
    rustc_wrapper: PathBuf,
    rustdoc: PathBuf,
    cargo: PathBuf,
    target: PathBuf,
    /// Whether the user's intermediate artifacts are apart from final ones.
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
        // Where it need not be named, the second folder stays the first one, also if the command
        // names another first one: then hooks are in neither.
        let count = if build.has_build_dir { 2 } else { 1 };
        command.envs(FOLDER_VARIABLES.iter().take(count).map(|name| (name, &build.target)));
        let path = build.cargo.parent().and_then(cargo_of_scripts::path_with);
        if let Some(path) = path.filter(|_| !has_variable) {
            command.env("PATH", path);
        }
    }
    child::run(&mut command).map_err(failed)
}

/// Ends as the command has ended: with its exit code, or by the signal that told it to end.
pub fn end_as(status: ExitStatus) -> ExitCode {
    child::die_of(status);
    exit_code(status)
}

/// Name the tools of this run to cargo.
///
/// Flags for examples in documentation are given by a rustdoc of ours, since rustdoc calls no
/// wrapper: variables with flags would override those of the user's configuration.
const TOOL_VARIABLES: [&str; 3] = [PLAN_VARIABLE, "RUSTC_WRAPPER", "RUSTDOC"];

/// Name the folder of build output to cargo, for final artifacts and for intermediate ones.
const FOLDER_VARIABLES: [&str; 2] = ["CARGO_TARGET_DIR", "CARGO_BUILD_BUILD_DIR"];

/// The values of these variables before the run; the program gets them back.
fn changed_variables() -> BTreeMap<String, Option<OsString>> {
    let all = TOOL_VARIABLES.iter().chain(&FOLDER_VARIABLES);
    all.map(|name| ((*name).to_owned(), std::env::var_os(name))).collect()
}
