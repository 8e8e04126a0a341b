//! `mlprof report --roofline`: compares Tensor reports with the peaks of their machine.

use std::fmt::Write;

use mlprof_report::{LineCountRestriction, Report};

use super::limit::Limit;
use super::{Arguments, Error, json, print, reports_of};
use crate::machine;
use crate::roofline::{self, Devices};

/// Default number of rows per table.
const ROWS: usize = 20;

/// Prints the comparison of each Tensor report.
pub(super) fn run(arguments: &Arguments) -> Result<(), Error> {
    let devices = Devices::read(arguments.devices.as_deref())?;
    let peaks = machine::kept();
    let (mut text, mut all) = (String::new(), Vec::new());
    for file in &arguments.files {
        for report in reports_of(file)? {
            let Report::Tensor(report) = report else { continue };
            let path = file.display();
            let found = roofline::of_report(&report, peaks.clone(), &devices)
                .map_err(|reason| Error::Roofline { path: file.clone(), reason })?;
            if arguments.json {
                all.push(found);
                continue;
            }
            let limit = arguments
                .limit
                .unwrap_or(Limit(LineCountRestriction::Lines(ROWS)))
                .of(found.ops.len());
            let between = if text.is_empty() { "" } else { "\n" };
            // Writing into a string cannot fail.
            let _ = write!(text, "{between}{path}\n{}", roofline::text(&found, limit));
        }
    }
    if arguments.json {
        text = json(serde_json::to_string(&all))?;
    } else if text.is_empty() {
        return Err(Error::Roofline {
            path: arguments.files.first().cloned().unwrap_or_default(),
            reason: "it has no report of the Tensor profiler".to_owned(),
        });
    }
    print(&text, arguments.json)
}
