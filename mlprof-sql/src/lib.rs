//! SQL over traces as tables (`mlprof convert --to parquet`): of one rank, or of a fleet.
//!
//! A crate of its own, and a workspace of its own: DataFusion's crates are built by those who want them. What it knows of
//! traces is the schema of their files, as any other engine does.

// Where standard output or standard error is closed, `println!` panics.
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

/// Asks traces as tables in SQL: of one rank, or of a fleet.
///
/// The tables are those that `mlprof convert --to parquet` writes, of any number of ranks and cycles in one folder;
/// `mlprof schema` prints their columns. A file that cannot be read is said, and the others are asked.
///
/// Exit status: 0; 1 if files were left out; 2 if there is no answer.
#[derive(Debug, Clone, clap::Parser)]
#[command(name = "mlprof-sql", bin_name = "mlprof sql", version, verbatim_doc_comment)]
pub struct Arguments {
    /// The folder of the tables, or its address in S3 (s3://BUCKET/PREFIX)
    ///
    /// Who asks S3, and where, say AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION and
    /// AWS_ENDPOINT_URL; AWS_SKIP_SIGNATURE=true asks as anybody.
    #[arg(value_name = "FOLDER", required_unless_present = "questions")]
    pub folder: Option<String>,
    /// A question by its name, as `--questions` lists them; SQL; or a file of SQL (.sql)
    #[arg(value_name = "QUESTION", required_unless_present = "questions")]
    pub query: Option<String>,
    /// How the answer is written; by default as the ending of --output says, else as a table
    #[arg(long, value_enum)]
    pub format: Option<Format>,
    /// Where to; by default standard output
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The most memory that a query may take, in MiB; sorts and sums go to the disk beyond it
    #[arg(long, value_name = "MIB", conflicts_with = "cluster")]
    pub memory: Option<NonZeroUsize>,
    /// Has a cluster of Ballista answer, whose scheduler is there (df://HOST:PORT)
    ///
    /// Its machines read the tables themselves: a folder must be at the same path on all of them, and for S3 they need
    /// variables of their own. Only a program that is built for it can: cargo install mlprof-sql --features cluster.
    #[arg(long, value_name = "ADDRESS")]
    pub cluster: Option<String>,
    /// Lists the questions, or with QUESTION prints the SQL of one
    #[arg(long)]
    pub questions: bool,
}

/// Answers as the program does: why there is no answer is a line on standard error.
pub fn answer(arguments: &Arguments) -> ExitCode {
    match run(arguments) {
        Ok(end) => end,
        Err(error) => {
            // Where standard error is closed there is nobody to tell.
            let _ = print(StandardStream::Error, format!("error: {}\n", Chain(&error)).as_bytes());
            ExitCode::from(2)
        }
    }
}

/// Answers. How the program is to end: files that cannot be read are said, and the others are asked.
///
/// # Errors
///
/// If there are no tables, the query is no SQL that can be run, or the answer cannot be written.
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

/// The SQL of a question, of a file, or what was given itself.
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

/// Prints all questions, or the SQL of one.
fn list(name: Option<&str>) -> Result<ExitCode, Error> {
    let text = match name {
        Some(name) => sql(name)?,
        None => questions::ALL
            .iter()
            .map(|question| format!("{:<15}{}\n", question.name, question.about()))
            .collect(),
    };
    output::heard(print(StandardStream::Output, text.as_bytes()))?;
    Ok(ExitCode::SUCCESS)
}
