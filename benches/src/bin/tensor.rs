//! Measures the processing of many recorded ops: memory, table creation time and trace writing
//! speed.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use benches::conditions::Conditions;
use benches::settings;
use flate2::Compression;
use flate2::write::GzEncoder;
use mlprof_core::hook::{DType, InputsBuilder, OpStart};
use mlprof_core::report::tensor::TableOptions;
use mlprof_core::tensor::{Cycle, GroupBy, TraceFormat};
use mlprof_core::{Action, Profiler, ProfilerExt, RunContext, Stage, TensorProfiler, trace};

const USAGE: &str = "\
Records many ops with shapes in one window, and measures memory, table and trace.

Usage: tensor [--ops N] [--check]

  --ops N   number of ops [default: 10000000]
  --check   exit with 1 if a budget is exceeded
";

/// Maximum time for the table of 10 million ops, in seconds.
const TABLE_BUDGET: f64 = 5.0;
/// Number of ops in a recording whose trace is written to a file.
const OPS_OF_A_FILE: u64 = 1_000_000;
/// Minimum speed of trace writing, in events per second.
const TRACE_BUDGET: f64 = 1e6;

struct Options {
    ops: u64,
    check: bool,
}

fn options() -> Result<Option<Options>, lexopt::Error> {
    use lexopt::prelude::*;

    let mut options = Options { ops: 10_000_000, check: false };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("ops") => options.ops = parser.value()?.parse::<u64>()?.max(1),
            Long("check") => options.check = true,
            Long("help") | Short('h') => return Ok(None),
            _ => return Err(argument.unexpected()),
        }
    }
    Ok(Some(options))
}

/// Results at the end of the window, measured while its data was available.
#[derive(Default)]
struct Measured {
    events: usize,
    dropped: u64,
    table_seconds: f64,
    table_lines: usize,
    plain: Written,
    compressed: Written,
}

#[derive(Default)]
struct Written {
    seconds: f64,
    bytes: u64,
}

/// A writer that counts the bytes and discards them.
#[derive(Default)]
struct Counter(u64);

impl Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Measured {
    fn of(cycle: &Cycle) -> io::Result<Self> {
        let begin = Instant::now();
        let averages = cycle.key_averages(&GroupBy::name().input_shapes());
        let table = averages.table(&TableOptions::default());
        let table_seconds = begin.elapsed().as_secs_f64();

        let begin = Instant::now();
        let mut counter = Counter::default();
        trace::kineto::write(cycle, "bench", &mut counter)?;
        let plain = Written { seconds: begin.elapsed().as_secs_f64(), bytes: counter.0 };

        let begin = Instant::now();
        let mut gzip = GzEncoder::new(Counter::default(), Compression::fast());
        trace::kineto::write(cycle, "bench", &mut gzip)?;
        let bytes = gzip.finish()?.0;
        let compressed = Written { seconds: begin.elapsed().as_secs_f64(), bytes };
        Ok(Self {
            events: cycle.event_count(),
            dropped: cycle.dropped.events,
            table_seconds,
            table_lines: table.lines().count(),
            plain,
            compressed,
        })
    }
}

/// Returns the resident memory of the process in bytes, or 0 if the system does not report it.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * 4096
}

/// Records training steps in sequence. Each consists of modules with ops, nested as in a real
/// model.
fn record(profiler: &dyn Profiler, ops: u64) {
    let names: Vec<Action> =
        (0..50).map(|number| Action::op(&format!("aten::op_{number}"))).collect();
    let modules: Vec<Action> =
        (0..10).map(|number| Action::module("Linear", &format!("layer.{number}"))).collect();
    let shapes: Vec<InputsBuilder> = (0..40)
        .map(|number| {
            let mut inputs = InputsBuilder::new();
            inputs.tensor(DType::Float32, &[32, 64 + number]);
            inputs.tensor(DType::Float32, &[64 + number, 128]);
            inputs.tensor(DType::Float32, &[128]);
            inputs
        })
        .collect();
    let mut done = 0;
    while done < ops {
        let _step = profiler.profile("training_step");
        for module in &modules {
            let _module = profiler.profile(*module);
            for call in 0..20 {
                let number = done + call;
                let mut op = OpStart::new(names[(number % 50) as usize]);
                op.inputs = Some(&shapes[(number % 40) as usize]);
                op.sequence = number as u32;
                profiler.start_op(&op);
                let inner = OpStart::new(names[((number + 7) % 50) as usize]);
                profiler.start_op(&inner);
                let _ = profiler.stop(inner.action);
                let _ = profiler.stop(op.action);
            }
            done += 40;
        }
    }
}

fn main() -> ExitCode {
    let options = match settings(options(), USAGE) {
        Ok(settings) => settings,
        Err(code) => return code,
    };
    print!("{}", Conditions::here());
    let measured = Arc::new(Mutex::new(None));
    let keep = measured.clone();
    let profiler = TensorProfiler::new().without_schedule().on_trace_ready(move |cycle| {
        *keep.lock().unwrap_or_else(PoisonError::into_inner) = Some(Measured::of(cycle));
    });
    let profiler: Arc<dyn Profiler> =
        Arc::new(profiler.max_events(options.ops + options.ops / 10 + 4096));
    let before = resident();
    let begin = Instant::now();
    profiler.setup(Stage::Fit, &RunContext::default());
    record(&*profiler, options.ops);
    let (recorded, kept) = (begin.elapsed(), resident().saturating_sub(before));
    profiler.teardown(Some(Stage::Fit));
    let measured = measured.lock().unwrap_or_else(PoisonError::into_inner).take();
    match measured {
        Some(Ok(measured)) => report(&options, &measured, recorded.as_secs_f64(), kept),
        Some(Err(error)) => {
            eprintln!("error: cannot write the trace: {error}");
            ExitCode::FAILURE
        }
        None => {
            eprintln!("error: nothing was recorded");
            ExitCode::FAILURE
        }
    }
}

/// Returns the time to end a fit whose trace has this format, in seconds. A `.pftrace` file is
/// created from the trace's JSON text, which a thread parses while it is written, as `mlprof
/// convert` does. The difference between the two formats is the cost of that conversion.
fn file_seconds(format: TraceFormat) -> io::Result<f64> {
    let folder = tempfile::tempdir()?;
    let profiler = TensorProfiler::new().without_schedule().dirpath(folder.path());
    let profiler = profiler.filename("bench").trace_formats([format]);
    profiler.setup(Stage::Fit, &RunContext::default());
    record(&profiler, OPS_OF_A_FILE);
    let begin = Instant::now();
    profiler.teardown(Some(Stage::Fit));
    Ok(begin.elapsed().as_secs_f64())
}

fn report(options: &Options, measured: &Measured, recorded: f64, kept: u64) -> ExitCode {
    let events = measured.events as f64;
    println!("{} events in one window, {} dropped", measured.events, measured.dropped);
    println!(
        "recording      {:>8.1} ns and {:.1} bytes per event, its memory new",
        recorded * 1e9 / events,
        kept as f64 / events
    );
    println!(
        "table          {:>8.2} s, by name and shapes, {} lines",
        measured.table_seconds, measured.table_lines
    );
    for (name, written) in [("trace", &measured.plain), ("trace, gzip", &measured.compressed)] {
        println!(
            "{name:<14} {:>8.2} million events/s, {:.1} bytes/event, {:.2} s",
            events / written.seconds * 1e-6,
            written.bytes as f64 / events,
            written.seconds
        );
    }
    for (name, format) in [("trace file", TraceFormat::Json), (".pftrace", TraceFormat::Pftrace)] {
        match file_seconds(format) {
            Ok(seconds) => println!(
                "{name:<14} {:>8.2} million ops/s, at the end of a fit, {seconds:.2} s",
                OPS_OF_A_FILE as f64 / seconds * 1e-6
            ),
            Err(error) => {
                eprintln!("error: cannot write {name}: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    let table_limit = TABLE_BUDGET * (events / 1e7).max(1.0);
    let exceeded = measured.table_seconds > table_limit
        || events / measured.plain.seconds < TRACE_BUDGET
        || measured.dropped > 0;
    println!(
        "budgets: a table over 10 million events in {TABLE_BUDGET} s, 1 million events/s: {}",
        if exceeded { "EXCEEDED" } else { "hold" }
    );
    if options.check && exceeded { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
