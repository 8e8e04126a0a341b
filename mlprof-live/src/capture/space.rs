//! What was captured, as XProf reads it.

use bytes::Bytes;
use flate2::read::GzDecoder;
use mlprof_analysis::xplane;
use mlprof_analysis::{Error, kineto};
use mlprof_core::tensor::Cycle;
use prost::Message;

use super::grpc::LONGEST_MESSAGE;
use super::messages::Remarks;
use crate::service::recorded::compressed;

/// What the answer has beside the trace, at most.
const ROOM: usize = 1 << 16;

/// The trace of a cycle: the same that `mlprof convert --to xplane` makes of what `mlprof record` hands over.
///
/// *Cost*: some microseconds for each event, as its text is written, read and written again. The text is kept compressed;
/// what is read of it has some 200 bytes for each event, and what is sent as many.
///
/// `copies`: how many of it an answer has.
pub(super) fn of_cycle(cycle: Box<Cycle>, warnings: Vec<String>, copies: usize) -> Bytes {
    match converted(cycle, (LONGEST_MESSAGE - ROOM) / copies) {
        Ok(mut space) => {
            // An `XSpace` of warnings only: the two are one, as they are read.
            space.extend(Remarks { errors: Vec::new(), warnings }.encode_to_vec());
            space.into()
        }
        Err(why) => of_fault(why, warnings),
    }
}

/// A trace in which there is nothing but why. As an error of gRPC the client would show a text of its own in its place.
pub(super) fn of_fault(why: String, warnings: Vec<String>) -> Bytes {
    Remarks { errors: vec![format!("mlprof: {why}")], warnings }.encode_to_vec().into()
}

fn converted(cycle: Box<Cycle>, longest: usize) -> Result<Vec<u8>, String> {
    let fault = |error: std::io::Error| format!("the trace cannot be written: {error}");
    let text = compressed(&cycle).map_err(fault)?;
    drop(cycle);
    let trace = kineto::read_for_xprof(GzDecoder::new(&text[..])).map_err(|error| match error {
        Error::Empty => "there is nothing to show: nothing happened".to_owned(),
        error => format!("the trace cannot be converted: {error}"),
    })?;
    drop(text);
    let mut space = Vec::new();
    xplane::write(&trace, &mut space).map_err(fault)?;
    match space.len() <= longest {
        true => Ok(space),
        false => Err(format!(
            "the trace has {} bytes, and {longest} can be sent: capture a shorter time",
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
