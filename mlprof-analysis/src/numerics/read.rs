//! Reader for numerics records.

use crate::Error;
use std::io::BufRead;

use mlprof_events::TensorRole;
use mlprof_report::numerics::{RECORD_VERSION, RecordHeader, RecordedTensor};

use super::NumericsRecord;

/// Reads a record line by line. If the last line is incomplete because the run was killed, the
/// record ends with the last complete step.
///
/// # Errors
///
/// Returns an [`Error`] if the text is not a readable record.
pub fn read(mut text: impl BufRead) -> Result<NumericsRecord, Error> {
    let mut bytes = Vec::new();
    text.read_until(b'\n', &mut bytes)?;
    let header = RecordHeader::from_line(&String::from_utf8_lossy(&bytes));
    let header = header.map_err(Error::NoHeader)?;
    if header.numerics_version > RECORD_VERSION {
        return Err(Error::NewerRecord(header.numerics_version));
    }
    let mut record = NumericsRecord { header, tensors: Vec::new(), is_cut_off: false };
    for number in 2.. {
        bytes.clear();
        if text.read_until(b'\n', &mut bytes)? == 0 {
            break;
        }
        // The text may end in the middle of a multi-byte character.
        let line = String::from_utf8_lossy(&bytes);
        match RecordedTensor::from_line(&line) {
            Ok(mut tensor) => {
                // In the first version, this was the hash of the parameter after the update.
                if record.header.numerics_version < 2 && tensor.role == TensorRole::Update {
                    tensor.hash = None;
                }
                record.tensors.push(tensor);
            }
            Err(_) if !line.ends_with('\n') => cut_off(&mut record, &line),
            Err(error) => return Err(Error::RecordLine { line: number, source: error }),
        }
    }
    Ok(record)
}

/// Removes the step of the incomplete line, because its other lines may be incomplete too.
fn cut_off(record: &mut NumericsRecord, line: &str) {
    record.is_cut_off = true;
    let begun = line.strip_prefix("{\"step\":").and_then(|rest| rest.split_once(','));
    let begun = begun.and_then(|(step, _)| step.parse().ok());
    let last = record.tensors.last().map(|tensor| tensor.step);
    if let Some(step) = begun.or(last) {
        record.tensors.retain(|tensor| tensor.step != step);
    }
}
