//! Converts a captured cycle to an `XSpace` for XProf.

use bytes::Bytes;
use flate2::read::GzDecoder;
use mlprof_analysis::xplane;
use mlprof_analysis::{Error, kineto};
use mlprof_core::tensor::Cycle;
use prost::Message;

use super::grpc::LONGEST_MESSAGE;
use super::messages::Remarks;
use crate::service::recorded::compressed;

/// Maximum size in bytes of the answer's other parts, in addition to the trace.
const ROOM: usize = 1 << 16;

/// Returns the trace of a cycle. It equals the result of `mlprof convert --to xplane` for a trace
/// from `mlprof record`.
///
/// *Cost*: some microseconds per event, because the trace is written as text, parsed and written
/// again. The text is kept compressed. The parsed trace takes about 200 bytes per event, and the
/// result takes a similar amount.
///
/// `copies` is the number of copies of the trace in one answer.
pub(super) fn of_cycle(cycle: Box<Cycle>, warnings: Vec<String>, copies: usize) -> Bytes {
    match converted(cycle, (LONGEST_MESSAGE - ROOM) / copies) {
        Ok(mut space) => {
            // The appended bytes are an `XSpace` with warnings only, which a reader merges with the
            // trace.
            space.extend(Remarks { errors: Vec::new(), warnings }.encode_to_vec());
            space.into()
        }
        Err(why) => of_fault(why, warnings),
    }
}

/// Returns a trace that contains only an error. For a gRPC error, the client would show its own
/// text instead of this one.
pub(super) fn of_fault(why: String, warnings: Vec<String>) -> Bytes {
    Remarks { errors: vec![format!("mlprof: {why}")], warnings }.encode_to_vec().into()
}

fn converted(cycle: Box<Cycle>, longest: usize) -> Result<Vec<u8>, String> {
    let fault = |error: std::io::Error| format!("cannot write the trace: {error}");
    let text = compressed(&cycle).map_err(fault)?;
    drop(cycle);
    let trace = kineto::read_for_xprof(GzDecoder::new(&text[..])).map_err(|error| match error {
        Error::Empty => "the recording has no trace: no event occurred".to_owned(),
        error => format!("cannot convert the trace: {error}"),
    })?;
    drop(text);
    let mut space = Vec::new();
    xplane::write(&trace, &mut space).map_err(fault)?;
    match space.len() <= longest {
        true => Ok(space),
        false => Err(format!(
            "cannot send a trace of {} bytes: the limit is {longest}; capture a shorter time",
            space.len()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_a_space_that_says_so() {
        let bytes = of_fault("why".to_owned(), vec!["beside".to_owned()]);
        let remarks = Remarks::decode(bytes).expect("as it was written");
        assert_eq!(remarks.errors, ["mlprof: why"]);
        assert_eq!(remarks.warnings, ["beside"]);
    }
}
