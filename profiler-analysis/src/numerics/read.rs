//! Reads a record.

use std::io::{self, BufRead};

use profiler_report::numerics::{RECORD_VERSION, RecordHeader, RecordedTensor};

use super::NumericsRecord;

/// Why a record cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadRecordError {
    /// The file cannot be read.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// It is something else.
    #[error(
        "it is no record of numbers: its first line is none that the numerics profiler writes ({0})"
    )]
    NoHeader(serde_json::Error),
    /// A later version changed what fields mean.
    #[error(
        "it was written by a newer mlprof: its layout has the version {0}, and this mlprof knows those up to {RECORD_VERSION}"
    )]
    Newer(u32),
    /// A line in the middle is none of a record.
    #[error("line {line} is none of a record: {error}")]
    Line {
        /// Which line, counted from 1.
        line: u64,
        /// What is wrong with it.
        error: serde_json::Error,
    },
}

/// Reads a record line by line. One whose last line is cut off is that of a run that was killed, and is read up to there.
///
/// # Errors
///
/// [`ReadRecordError`].
pub fn read(mut text: impl BufRead) -> Result<NumericsRecord, ReadRecordError> {
    let mut line = String::new();
    text.read_line(&mut line)?;
    let header = RecordHeader::from_line(&line).map_err(ReadRecordError::NoHeader)?;
    if header.numerics_version > RECORD_VERSION {
        return Err(ReadRecordError::Newer(header.numerics_version));
    }
    let mut record = NumericsRecord { header, tensors: Vec::new(), is_cut_off: false };
    for number in 2.. {
        line.clear();
        if text.read_line(&mut line)? == 0 {
            break;
        }
        match RecordedTensor::from_line(&line) {
            Ok(tensor) => record.tensors.push(tensor),
            Err(_) if !line.ends_with('\n') => record.is_cut_off = true,
            Err(error) => return Err(ReadRecordError::Line { line: number, error }),
        }
    }
    Ok(record)
}
