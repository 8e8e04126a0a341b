//! Converts traces, and folders of tables made from traces, to the formats of other tools.

use std::cell::Cell;
use std::io::{self, Write};
use std::process::ExitCode;
use std::rc::Rc;

use mlprof_analysis::trace::TrackKind;
use mlprof_analysis::{Trace, perfetto, xplane};

use super::format::{Format, OF_TRACES};
use super::outputs::{self, Output, Stem};
use super::stacks::Stacks;
use super::{Arguments, Error, impossible, lines_of, speedscope};
use crate::report::unpack;
use crate::tables::{self, TraceFiles};
use crate::traces;

/// Converts each trace of a folder of tables. Only one trace is in memory at a time, because a
/// folder may hold many.
pub(super) fn of_tables(arguments: &Arguments) -> Result<ExitCode, Error> {
    if !matches!(arguments.to, Format::Pftrace | Format::Xplane) {
        return Err(impossible(
            "a folder of tables",
            arguments.to,
            "it may contain many traces; convert the original traces instead",
            &[Format::Pftrace, Format::Xplane],
        ));
    }
    let to = arguments.to;
    let end = Rc::new(Cell::new(ExitCode::SUCCESS));
    let output = |files: TraceFiles| {
        let end = end.clone();
        let path = tables::path(&files);
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Output::new(Stem::default().of_action(&name), move |out| {
            let trace = tables::read(&files).map_err(io::Error::other)?;
            if let Some(status) = traces::end_after_losses(&trace, &path, "converted") {
                end.set(status);
            }
            write_binary(&trace, to, out)
        })
    };
    let outputs = tables::find(&arguments.file)?.into_iter().map(output).collect();
    outputs::write(outputs, arguments)?;
    Ok(end.get())
}

/// Creates the output for one trace.
pub(super) fn of_trace(trace: Trace, arguments: &Arguments) -> Result<Output, Error> {
    let name = arguments.file.display().to_string();
    let stem = Stem::default();
    match arguments.to {
        // The input already has this format, so its content is copied.
        Format::Chrome | Format::Json => {
            let file = arguments.file.clone();
            Ok(Output::new(stem, move |out| {
                io::copy(&mut unpack::text(&file)?, out)?;
                Ok(())
            }))
        }
        Format::Folded | Format::Svg => {
            tell_crossing(&trace);
            let stacks = Stacks::of_trace(&trace, arguments.devices);
            let lines = lines_of(&stacks, "a trace", &OF_TRACES, arguments)?;
            let has_devices = stacks.threads.iter().any(|stacks| stacks.thread.is_none());
            let title = match has_devices {
                true => format!("host self time and device time: {name}"),
                false => format!("host self time: {name}"),
            };
            if !has_devices {
                tell_without_devices(&trace);
            }
            Ok(Output::of_lines(stem, lines, title, stacks.unit, arguments))
        }
        Format::Speedscope => Ok(Output::json(stem, speedscope::File::of_trace(&name, &trace))),
        Format::Pftrace | Format::Xplane => {
            let to = arguments.to;
            Ok(Output::new(stem, move |out| write_binary(&trace, to, out)))
        }
        Format::Prof | Format::Parquet => Err(impossible(
            "a trace",
            arguments.to,
            "it contains a timeline and no call counts of functions",
            &OF_TRACES,
        )),
    }
}

/// Writes the trace in Perfetto's binary format or as XSpace for XProf.
fn write_binary(trace: &Trace, to: Format, out: &mut dyn Write) -> io::Result<()> {
    match to {
        Format::Xplane => xplane::write(trace, out),
        _ => {
            tell_left_out(&perfetto::write(trace, out)?);
            Ok(())
        }
    }
}

/// Prints a note if device work is left out.
fn tell_without_devices(trace: &Trace) {
    let count = trace.slices.iter().filter(|slice| slice.category.is_device_work()).count();
    if count > 0 {
        mlprof_report::output::say(format_args!(
            "note: the stacks contain only host threads; {count} kernels, copies and fills of \
             devices are omitted (--devices includes them)"
        ));
    }
}

/// Prints a note about slices that do not nest and therefore have no place in a tree.
fn tell_crossing(trace: &Trace) {
    let crossing = trace
        .tracks
        .iter()
        .filter(|track| track.overlaps.is_some() && track.kind != TrackKind::Stream);
    let count: usize = crossing.map(|track| track.slices.len()).sum();
    if count > 0 {
        mlprof_report::output::say(format_args!(
            "note: {count} slices partly overlap others on their track and are omitted, because \
             their time would be counted twice"
        ));
    }
}

fn tell_left_out(written: &perfetto::Written) {
    if written.flows_left_out > 0 {
        mlprof_report::output::say(format_args!(
            "note: {} of {} arrows are omitted: they point back in time, which Perfetto does not \
             allow",
            written.flows_left_out,
            written.flows + written.flows_left_out
        ));
    }
}
