//! Output of results as tables, CSV, JSON and Parquet.

use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::csv::Writer as CsvWriter;
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::json::ArrayWriter;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::arrow::util::pretty::pretty_format_batches_with_schema;
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::basic::{Compression, ZstdLevel};
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::prelude::DataFrame;
use futures::StreamExt;
use mlprof_events::files::{StandardStream, WholeFile};

use crate::Error;

/// Format of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Text table for a terminal
    Table,
    /// Comma-separated values with a header
    Csv,
    /// JSON array of objects
    Json,
    /// Parquet file
    Parquet,
}

impl Format {
    /// Returns the requested format, or the format of the output file's extension.
    pub(crate) fn of(asked: Option<Self>, output: Option<&Path>) -> Result<Self, Error> {
        if let (Some(Self::Parquet), None) = (asked, output) {
            return Err(Error::NoFile);
        }
        let Some(path) = output.filter(|_| asked.is_none()) else {
            return Ok(asked.unwrap_or(Self::Table));
        };
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("csv") => Ok(Self::Csv),
            Some("json") => Ok(Self::Json),
            Some("parquet") => Ok(Self::Parquet),
            Some("txt") => Ok(Self::Table),
            _ => Err(Error::Output { path: path.to_owned() }),
        }
    }
}

/// Writes a result incrementally. A console table is written after all rows are known, because they
/// determine the column widths. A file gets its final name when it is complete.
pub(crate) async fn write(
    answer: DataFrame,
    format: Format,
    path: Option<&Path>,
) -> Result<(), Error> {
    let Some(path) = path else {
        let written = rows(answer, format, BufWriter::new(StandardStream::Output)).await;
        return match written {
            Err(Failure::Write(error)) => ignore_closed_pipe(Err(error)),
            Err(Failure::Query(error)) => Err(error.into()),
            Ok(()) => Ok(()),
        };
    };
    let unwritable = |error| Error::Write { path: path.to_owned(), error };
    // The parent folder must exist, so that a misspelt path does not create folders.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.map_or(Ok(()), |folder| folder.metadata().map(drop)).map_err(unwritable)?;
    let mut file = WholeFile::create(path).map_err(unwritable)?;
    let written = rows(answer, format, BufWriter::new(&mut file)).await;
    match written {
        Ok(()) => file.finish().map_err(unwritable),
        Err(Failure::Write(error)) => Err(unwritable(error)),
        Err(Failure::Query(error)) => Err(error.into()),
    }
}

/// Ignores a closed pipe, because a reader such as `head` may stop early.
pub(crate) fn ignore_closed_pipe(written: io::Result<()>) -> Result<(), Error> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::Write { path: "standard output".into(), error })
        }
        _ => Ok(()),
    }
}

/// Cause of a failed output.
enum Failure {
    Query(DataFusionError),
    Write(io::Error),
}

impl From<DataFusionError> for Failure {
    fn from(error: DataFusionError) -> Self {
        Self::Query(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

impl From<ArrowError> for Failure {
    fn from(error: ArrowError) -> Self {
        match error {
            ArrowError::IoError(_, error) => Self::Write(error),
            ArrowError::ExternalError(error) => match error.downcast::<io::Error>() {
                Ok(error) => Self::Write(*error),
                Err(error) => Self::Query(DataFusionError::External(error)),
            },
            other => Self::Query(other.into()),
        }
    }
}

async fn rows<W: Write + Send>(
    answer: DataFrame,
    format: Format,
    mut out: W,
) -> Result<(), Failure> {
    if format == Format::Table {
        let schema = Arc::clone(answer.schema().inner());
        let batches = answer.collect().await?;
        let text = pretty_format_batches_with_schema(schema, &batches)?.to_string();
        writeln!(out, "{text}")?;
        return Ok(out.flush()?);
    }
    let mut stream = answer.execute_stream().await?;
    match format {
        Format::Csv => {
            // A result without rows still has a header.
            let empty = RecordBatch::new_empty(stream.schema());
            let mut writer = CsvWriter::new(&mut out);
            writer.write(&empty)?;
            each(&mut stream, |batch| Ok(writer.write(batch)?)).await?;
        }
        Format::Json => {
            let mut writer = ArrayWriter::new(&mut out);
            each(&mut stream, |batch| Ok(writer.write(batch)?)).await?;
            writer.finish()?;
            drop(writer);
            writeln!(out)?;
        }
        Format::Parquet | Format::Table => {
            let properties = WriterProperties::builder()
                .set_compression(Compression::ZSTD(ZstdLevel::default()))
                .build();
            let schema = stream.schema();
            let writer = ArrowWriter::try_new(&mut out, schema, Some(properties));
            let mut writer = writer.map_err(failed)?;
            each(&mut stream, |batch| writer.write(batch).map_err(failed)).await?;
            writer.close().map_err(failed)?;
        }
    }
    Ok(out.flush()?)
}

fn failed(error: datafusion::parquet::errors::ParquetError) -> Failure {
    ArrowError::from(error).into()
}

async fn each(
    stream: &mut SendableRecordBatchStream,
    mut write: impl FnMut(&RecordBatch) -> Result<(), Failure>,
) -> Result<(), Failure> {
    while let Some(batch) = stream.next().await {
        write(&batch?)?;
    }
    Ok(())
}
