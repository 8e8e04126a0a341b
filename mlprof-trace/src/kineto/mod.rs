//! Traces in the JSON format of Kineto, PyTorch's tracer. Perfetto, `chrome://tracing`,
//! TensorBoard's profiler plugin and HolisticTraceAnalysis read it.
//!
//! *Streaming*: neither the file nor an event is ever held in memory as a whole. In addition to the
//! cycle, the writer needs memory for names and lists of shapes, each stored once. It needs about
//! 100 bytes for each backward op and launch.
//!
//! | data | category | track |
//! |---|---|---|
//! | ops | `cpu_op` | thread |
//! | actions, modules, steps, functions, spans | `user_annotation` | thread |
//! | launches and other calls of a device's library | `cuda_runtime`, `cuda_driver` | thread |
//! | kernels, copies, fills | `kernel`, `gpu_memcpy`, `gpu_memset` | process = device, thread = stream |
//! | actions on the device, from their first kernel to their last | `gpu_user_annotation` | stream |
//! | waits for a device | `cuda_sync` | stream |
//! | counters: utilization, memory, power, … | `device_counter` | process = device, one curve per counter |
//! | kernel compilation and autotuning | `overhead` | separate track per device |
//! | allocations and frees | `[memory]` instants | thread |
//! | launch → kernel | `ac2g` arrows | |
//! | forward op → backward op | `fwdbwd` arrows | to one backward op per sequence number |
//!
//! **Nesting.** Viewers drop slices that cross others on their track. A scope that crosses others,
//! for example because it outlives the enclosing one, is written to a further track named after the
//! thread. If even 256 tracks are not sufficient, it becomes an instant with its duration in
//! `args`.
//!
//! **Clocks.** The clocks of a device and of the host never match exactly. If kernels appear to run
//! before they were launched, all events of that device are shifted. The shift is the smallest one
//! that corrects this, and at most 10 ms; `clock_shift_ns` in `deviceProperties` contains it. An
//! event that would need a larger shift keeps its own time, without an arrow and a correlation, and
//! its `args` contain the error.
//!
//! **Launches** other than `cudaLaunchKernel`, `cudaLaunchKernelExC`, `cudaMemcpyAsync` and
//! `cudaMemsetAsync` are written under one of these names, because analysis tools know only these.
//! Their real name is `api` in `args`. If only the launch of some work is known, the name of the
//! work is `kernel` in the same `args`.
//!
//! **Arguments of ops** are those of torch's own traces:
//!
//! - `Input Dims`, `Input type`, `Sequence number` and `Fwd thread id`
//! - `Input Strides`, `Concrete Inputs` and `Overload name`, if hooks report all inputs
//! - `flops` and `bytes` (as in tables) and `Call stack`, if [`Cycle::trace`] enables them
//!
//! A scope of autograd's engine around a node has the numbers of that node.
//!
//! **Time** is in microseconds after `baseTimeNanoseconds`, the beginning of a week of Unix time,
//! so that traces of several processes can be overlaid.

mod annotations;
mod concrete;
mod counters;
mod device;
mod engine;
mod fragments;
mod header;
mod host;
mod index;
mod stacks;
mod tracks;
mod work;

use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::cycle::Cycle;
use crate::gzip::GzipWriter;
use crate::json::JsonWriter;
use annotations::Annotations;
use fragments::{Contexts, Names, Shapes};
use index::Index;
use mlprof_events::Timestamp;
use mlprof_report::output::write_file;
use stacks::Stacks;
use tracks::Tracks;
use work::WorkCache;

/// Writes the trace of `cycle`. `name` is the trace's own name, usually its file name.
///
/// *Cost*: about 0.2 µs and 220 bytes per op with shapes; see the [module](self) for memory.
///
/// # Errors
///
/// Returns the errors of `out`.
#[doc(hidden)]
pub fn write(cycle: &Cycle, name: &str, mut out: impl Write) -> io::Result<()> {
    write_to(cycle, name, &mut out)
}

/// Writes the trace. This function is compiled once and not for each type of writer, because `out`
/// receives large pieces.
fn write_to(cycle: &Cycle, name: &str, out: &mut dyn Write) -> io::Result<()> {
    let mut names = Names::new();
    let index = Index::of(cycle, &mut names);
    let wall = cycle.wall_time(cycle.started).unix_nanoseconds();
    let base = wall - wall.rem_euclid(WEEK);
    let mut writer = Writer {
        cycle,
        json: JsonWriter::new(out),
        base,
        offset: wall - base,
        tracks: Tracks::new(cycle),
        names,
        shapes: Shapes::new(),
        contexts: Contexts::new(),
        stacks: Stacks::default(),
        work: WorkCache::default(),
        annotations: Annotations::default(),
        index,
        events: 0,
    };
    writer.header()?;
    writer.host_events()?;
    writer.device_events()?;
    writer.counters()?;
    writer.track_names()?;
    writer.footer(name);
    writer.json.finish()
}

/// Nanoseconds of a week.
const WEEK: i64 = 7 * 24 * 3600 * 1_000_000_000;

struct Writer<'cycle, W> {
    cycle: &'cycle Cycle,
    json: JsonWriter<W>,
    /// Origin of the time line, in nanoseconds of Unix time.
    base: i64,
    /// Nanoseconds from the origin to the beginning of the cycle.
    offset: i64,
    tracks: Tracks,
    names: Names,
    shapes: Shapes,
    contexts: Contexts,
    stacks: Stacks,
    work: WorkCache,
    annotations: Annotations,
    index: Index,
    /// Number of events written so far.
    events: u64,
}

impl<W: Write> Writer<'_, W> {
    /// Converts a moment to nanoseconds on the time line.
    #[inline]
    fn time(&self, time: Timestamp) -> i64 {
        self.cycle.nanoseconds_since_start(time).saturating_add(self.offset)
    }

    /// Begins an event. It must be called before every event is written.
    #[inline]
    fn separate(&mut self) -> io::Result<()> {
        self.json.hand_on_if_full()?;
        self.json.raw(if self.events == 0 { "\n" } else { ",\n" });
        self.events += 1;
        Ok(())
    }

    /// Writes `,"pid":…,"tid":…,"ts":…`.
    fn place(&mut self, process: u64, thread: u64, time: i64) {
        self.json.raw(",\"pid\":");
        self.json.integer(process);
        self.json.raw(",\"tid\":");
        self.json.integer(thread);
        self.json.raw(",\"ts\":");
        self.json.microseconds(time);
    }

    /// Writes one end of an arrow, at the beginning of a slice.
    fn arrow(&mut self, end: ArrowEnd, place: (u64, u64, i64)) -> io::Result<()> {
        self.separate()?;
        let (kind, number, is_end) = match end {
            ArrowEnd::Forward(number) => ("fwdbwd", number, false),
            ArrowEnd::Backward(number) => ("fwdbwd", number, true),
            ArrowEnd::Launch(number) => ("ac2g", number, false),
            ArrowEnd::Kernel(number) => ("ac2g", number, true),
        };
        self.json.raw(if is_end { "{\"ph\":\"f\",\"bp\":\"e\"" } else { "{\"ph\":\"s\"" });
        self.json.raw(",\"cat\":\"");
        self.json.raw(kind);
        self.json.raw("\",\"name\":\"");
        self.json.raw(kind);
        self.json.raw("\",\"id\":");
        self.json.integer(number);
        self.place(place.0, place.1, place.2);
        self.json.raw("}");
        Ok(())
    }
}

/// One end of an arrow, with the arrow's number.
#[derive(Clone, Copy)]
enum ArrowEnd {
    Forward(u32),
    Backward(u32),
    Launch(u32),
    Kernel(u32),
}

impl Cycle {
    /// Writes the cycle as a trace, compressed with gzip if the name ends in `.gz`: see
    /// [`kineto`](crate::kineto). The file gets its name when it is complete.
    ///
    /// *Cost*: compressed some 0.6 µs and 25 bytes per op with shapes, else as
    /// `write`.
    ///
    /// TensorBoard's plugin expects file names of the form
    /// `{worker}.{nanoseconds}.pt.trace.json[.gz]`.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written. In that case no file is created.
    pub fn export_chrome_trace(&self, path: impl AsRef<Path>) -> io::Result<()> {
        self.write_chrome_trace(path.as_ref())
    }

    fn write_chrome_trace(&self, path: &Path) -> io::Result<()> {
        let name = path.to_string_lossy();
        let is_compressed = path.extension().is_some_and(|extension| extension == "gz");
        write_file(path, |file| {
            if !is_compressed {
                return write(self, &name, file);
            }
            let buffered = BufWriter::with_capacity(1 << 16, file);
            let mut gzip = GzipWriter::new(buffered)?;
            write(self, &name, &mut gzip)?;
            gzip.finish().map(drop)
        })
    }
}
