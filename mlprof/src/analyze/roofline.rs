//! `mlprof analyze --roofline`: compares traces with the peaks of their device.

use std::process::ExitCode;

use mlprof_analysis::Analysis;
use mlprof_events::error_chain::Chain;
use mlprof_report::output::say;

use super::{Arguments, Error, write};
use crate::roofline::{self, Devices};
use crate::traces::{self, Source};
use crate::{machine, report};

/// Prints the comparison of each trace. A trace without known peaks is reported, and the others are
/// still compared.
pub(super) fn print_all(arguments: &Arguments, sources: &[Source]) -> Result<ExitCode, Error> {
    let devices = Devices::read(arguments.devices.as_deref()).map_err(report::Error::from)?;
    let peaks = machine::kept();
    let mut end = ExitCode::SUCCESS;
    let mut all = Vec::new();
    for source in sources {
        let path = source.path();
        let trace = match traces::read(source) {
            Ok(trace) => trace,
            Err(error) => {
                say(format_args!("error: {}", Chain(&error)));
                end = ExitCode::from(2);
                continue;
            }
        };
        end = traces::end_after_losses(&trace, &path, "compared").unwrap_or(end);
        let analysis = Analysis::of(&trace);
        match roofline::of_trace(&trace, &analysis, peaks.clone(), &devices) {
            Ok(found) if arguments.json => all.push(found),
            Ok(found) => {
                let text = roofline::text(&found, arguments.limit);
                report::ignore_closed_pipe(write(&format!("{}\n{text}", path.display())))?;
            }
            Err(reason) => {
                let path = path.clone();
                say(format_args!("error: {}", report::Error::Roofline { path, reason }));
                end = ExitCode::from(2);
            }
        }
    }
    if arguments.json {
        let json = report::json(serde_json::to_string(&all))?;
        report::ignore_closed_pipe(write(&(json + "\n")))?;
    }
    Ok(end)
}
