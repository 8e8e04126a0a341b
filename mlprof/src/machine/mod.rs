//! `mlprof machine`: measures the peaks of this machine.

mod measure;
mod memory;
mod peaks;
mod processor;
mod product;
mod store;

use std::fmt::Write;
use std::path::PathBuf;

use mlprof_events::files::{StandardStream, print};
use mlprof_report::output::say;

pub use self::peaks::{BandwidthPoint, Peaks, ProductPeak, Rate};
pub use self::processor::Processor;

/// Measure the peaks of this machine: matrix products and memory bandwidth
///
/// The measurement takes 0.3 seconds on an idle machine, and longer on a busy one. The result
/// is kept in the user's cache folder, one file per processor, number of cores and governor. Later
/// calls print the kept result. mlprof report --roofline and mlprof analyze --roofline compare ops
/// with it.
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Print the peaks as JSON
    #[arg(long)]
    pub json: bool,
    /// Measure again, even if the peaks of this machine are kept
    #[arg(long)]
    pub again: bool,
}

/// Spread of matrix products beyond which other processes disturbed them.
const BUSY: f64 = 0.1;

/// Error that prevents the output.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The peaks cannot be printed.
    #[error("cannot print the peaks")]
    Print(#[source] std::io::Error),
    /// The peaks cannot be kept.
    #[error("cannot write {path}")]
    Keep {
        /// File of the peaks.
        path: PathBuf,
        /// Reason.
        #[source]
        error: std::io::Error,
    },
}

/// Prints the peaks of this machine, and measures them first if necessary.
///
/// # Errors
///
/// Returns an error if the peaks cannot be printed or kept.
pub fn run(arguments: &Arguments) -> Result<(), Error> {
    let processor = Processor::read();
    let kept = store::read(&processor).filter(|_| !arguments.again);
    let is_kept = kept.is_some();
    let peaks = kept.unwrap_or_else(|| measure::measure(processor));
    let text = match arguments.json {
        true => serde_json::to_string(&peaks).map_err(|error| Error::Print(error.into()))? + "\n",
        false => text(&peaks),
    };
    match print(StandardStream::Output, text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            return Err(Error::Print(error));
        }
        _ => {}
    }
    if is_kept {
        return Ok(());
    }
    match store::file(&peaks.processor) {
        Some(path) => store::write(&peaks, &path).map_err(|error| Error::Keep { path, error }),
        None => {
            say(format_args!("note: the peaks are not kept, because HOME is not set"));
            Ok(())
        }
    }
}

/// Returns the kept peaks of this machine.
pub fn kept() -> Option<Peaks> {
    store::read(&Processor::read())
}

/// Returns the peaks as tables.
fn text(peaks: &Peaks) -> String {
    let processor = &peaks.processor;
    let mut text = String::new();
    // Writing into a string cannot fail.
    let _ = writeln!(
        text,
        "{}, {} cores, governor {}, {}; measured in {:.2} s",
        processor.cpu.as_deref().unwrap_or("unknown processor"),
        processor.cores,
        processor.governor.as_deref().unwrap_or("unknown"),
        processor.system,
        peaks.measured_in_seconds,
    );
    let _ = writeln!(text, "\nMatrix products with mlprof's own {} kernel", peaks.kernel);
    let _ = writeln!(text, "Threads  Type     GFLOP/s  Spread");
    for peak in &peaks.products {
        let Rate { per_second, spread } = peak.flops;
        let (giga, spread) = (per_second / 1e9, 100.0 * spread);
        let _ =
            writeln!(text, "{:>7}  {:<4}  {giga:>10.1}  {spread:>4.0} %", peak.threads, peak.dtype);
    }
    let _ = writeln!(text, "\nBandwidth in GB/s by working set");
    let _ = writeln!(text, "Threads  Working set     Read    Write     Copy  Spread");
    for point in &peaks.bandwidth {
        let giga = |rate: Rate| rate.per_second / 1e9;
        let spread = [point.read, point.write, point.copy].map(|rate| rate.spread);
        let spread = 100.0 * spread.into_iter().fold(0.0, f64::max);
        let (read, write, copy) = (giga(point.read), giga(point.write), giga(point.copy));
        let _ = writeln!(
            text,
            "{:>7}  {:>11}  {read:>7.1}  {write:>7.1}  {copy:>7.1}  {spread:>4.0} %",
            point.threads,
            size(point.working_set_bytes),
        );
    }
    let _ = writeln!(text, "\nEmpty call: {:.0} ns", peaks.empty_call_seconds * 1e9);
    if peaks.products.iter().any(|peak| peak.flops.spread > BUSY) {
        text += "Note: the machine was busy. Measure again with --again while it is idle.\n";
    }
    text
}

/// Formats a size in KiB or MiB.
fn size(bytes: u64) -> String {
    match bytes >> 20 {
        0 => format!("{} KiB", bytes >> 10),
        megabytes => format!("{megabytes} MiB"),
    }
}
