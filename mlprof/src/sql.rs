//! `mlprof sql`: runs the program `mlprof-sql`, which is installed separately.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use crate::exit_code::exit_code;

/// Name of the program.
const PROGRAM: &str = "mlprof-sql";

/// Query traces of one rank or of many ranks with SQL
///
/// The command runs the separate program mlprof-sql, which contains a database engine. To install
/// it:
///
///   cargo install mlprof-sql
///
/// mlprof sql --help prints its arguments, and mlprof sql --questions lists its named queries.
///
/// Examples:
///
///   mlprof sql FOLDER straggler
///   mlprof sql FOLDER "select * from steps limit 10"
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment, disable_help_flag = true)]
pub struct Arguments {
    /// Arguments of mlprof-sql
    #[arg(value_name = "ARGUMENT", trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<OsString>,
}

/// Error that prevents the query.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The program is not installed.
    #[error(
        "cannot find the program mlprof-sql next to mlprof or in PATH; install it with `cargo \
         install mlprof-sql`, which also builds the database engine DataFusion"
    )]
    NotInstalled,
    /// The program cannot be started.
    #[error("cannot run {program}", program = .program.display())]
    Start {
        /// Path of the program.
        program: PathBuf,
        /// I/O error.
        #[source]
        error: io::Error,
    },
}

/// Runs the program and returns its exit code.
///
/// # Errors
///
/// Returns an error if the program is not installed or cannot be started.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Error> {
    let program = beside_this_one().unwrap_or_else(|| PROGRAM.into());
    match Command::new(&program).args(&arguments.arguments).status() {
        Ok(status) => Ok(exit_code(status)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Error::NotInstalled),
        Err(error) => Err(Error::Start { program, error }),
    }
}

fn beside_this_one() -> Option<PathBuf> {
    let name = format!("{PROGRAM}{}", std::env::consts::EXE_SUFFIX);
    let path = std::env::current_exe().ok()?.with_file_name(name);
    path.is_file().then_some(path)
}
