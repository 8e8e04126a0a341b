//! SQL queries over traces as tables (`mlprof convert --to parquet`), for one rank or a whole
//! fleet.
//!
//! This is a separate crate and workspace, so that only users of SQL need to build DataFusion's
//! crates. It knows traces only through the schema of their files, as any other engine does.

// `println!` panics if standard output is closed, and `eprintln!` does so for standard error.
#![deny(clippy::print_stderr, clippy::print_stdout)]

mod cluster;
mod error;
mod output;
pub mod questions;
mod store;
mod tables;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use mlprof_events::error_chain::Chain;
use mlprof_events::files::{StandardStream, print};

pub use self::error::Error;
use self::output::Format;
use self::tables::Folder;

/// Query traces of one rank or of many ranks with SQL
///
/// FOLDER contains tables that mlprof convert --to parquet wrote, for any number of ranks and
/// cycles. mlprof schema prints their columns. Unreadable files are reported, and the query uses
/// the others.
///
/// Exit codes:
///
///   0    success
///   1    unreadable files were left out
///   2    an error: there is no result
///
/// Examples:
///
///   mlprof sql FOLDER straggler
///   mlprof sql FOLDER "select * from steps limit 10" --format csv
#[derive(Debug, Clone, clap::Parser)]
#[command(name = "mlprof-sql", bin_name = "mlprof sql", version, verbatim_doc_comment)]
pub struct Arguments {
    /// Folder of the tables, or its address in S3 (s3://BUCKET/PREFIX)
    ///
    /// These environment variables contain the credentials and the endpoint of S3:
    /// AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION and
    /// AWS_ENDPOINT_URL. AWS_SKIP_SIGNATURE=true reads public buckets without credentials.
    #[arg(value_name = "FOLDER", required_unless_present = "questions")]
    pub folder: Option<String>,
    /// Query: a name that --questions lists, SQL text, or the path of a .sql file
    #[arg(value_name = "QUERY", required_unless_present = "questions")]
    pub query: Option<String>,
    /// Format of the result [default: by the extension of --output, otherwise table]
    #[arg(long, value_enum)]
    pub format: Option<Format>,
    /// Output file [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Memory limit of the query in MiB [default: none]
    ///
    /// Sorts and aggregations beyond the limit use the disk.
    #[arg(long, value_name = "MIB", conflicts_with = "cluster")]
    pub memory: Option<NonZeroUsize>,
    /// Run the query on a Ballista cluster with the scheduler at ADDRESS (df://HOST:PORT)
    ///
    /// The machines of the cluster read the tables themselves. A folder must have the same path on
    /// all of them, and for S3 they need their own environment variables. The option requires a
    /// build with cluster support: cargo install mlprof-sql --features cluster.
    #[arg(long, value_name = "ADDRESS")]
    pub cluster: Option<String>,
    /// List the named queries, or print the SQL of QUERY
    #[arg(long)]
    pub questions: bool,
}

/// Runs the program. An error is printed as one line on standard error.
pub fn answer(arguments: &Arguments) -> ExitCode {
    match run(arguments) {
        Ok(end) => end,
        Err(error) => {
            // If standard error is closed, the message cannot be printed.
            let _ = print(StandardStream::Error, format!("error: {}\n", Chain(&error)).as_bytes());
            ExitCode::from(2)
        }
    }
}

/// Runs a query and returns the exit code. Unreadable files are reported and skipped.
///
/// # Errors
///
/// Returns an error if there are no tables, the query cannot be executed, or the result cannot be
/// written.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Error> {
    if arguments.questions {
        return list(arguments.query.as_deref().or(arguments.folder.as_deref()));
    }
    let (folder, query) = (arguments.folder.as_deref(), arguments.query.as_deref());
    let sql = sql(query.unwrap_or_default())?;
    let format = Format::of(arguments.format, arguments.output.as_deref())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(Error::Start)?;
    runtime.block_on(async {
        let context = match &arguments.cluster {
            Some(address) => cluster::context(address).await?,
            None => context(arguments.memory)?,
        };
        let folder = Folder::open(&context, folder.unwrap_or_default()).await?;
        let left_out = folder.register_for(&context, &sql).await?;
        let answer = context.sql(&sql).await?;
        output::write(answer, format, arguments.output.as_deref()).await?;
        Ok(if left_out == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
    })
}

fn context(memory: Option<NonZeroUsize>) -> Result<SessionContext, Error> {
    let config = SessionConfig::new().with_information_schema(true);
    let builder = RuntimeEnvBuilder::new();
    let builder = match memory {
        Some(mebibytes) => {
            let bytes = mebibytes.get().saturating_mul(1 << 20);
            builder.with_memory_limit(bytes, 1.0)
        }
        None => builder,
    };
    Ok(SessionContext::new_with_config_rt(config, builder.build_arc()?))
}

/// Returns the SQL of a named query or of a file. Any other text is returned unchanged.
fn sql(query: &str) -> Result<String, Error> {
    if Path::new(query).extension().is_some_and(|extension| extension == "sql") {
        let unreadable = |error| Error::Read { path: query.to_owned(), error };
        return std::fs::read_to_string(query).map_err(unreadable);
    }
    let is_name = !query.is_empty()
        && query.chars().all(|character| character.is_alphanumeric() || "_-".contains(character));
    if !is_name {
        return Ok(query.to_owned());
    }
    match questions::find(query) {
        Some(question) => Ok(question.sql.to_owned()),
        None => Err(Error::NoQuestion { name: query.to_owned() }),
    }
}

/// Prints the list of all named queries, or the SQL of one.
fn list(name: Option<&str>) -> Result<ExitCode, Error> {
    let text = match name {
        Some(name) => sql(name)?,
        None => questions::ALL
            .iter()
            .map(|question| format!("{:<15}{}\n", question.name, question.about()))
            .collect(),
    };
    output::ignore_closed_pipe(print(StandardStream::Output, text.as_bytes()))?;
    Ok(ExitCode::SUCCESS)
}
