//! Traces in the JSON that Kineto, the tracer of PyTorch, writes: what Perfetto, `chrome://tracing`,
//! TensorBoard's profiler plugin and HolisticTraceAnalysis read.
//!
//! *Written as one goes*: neither the file nor any event is ever held as a whole. Beside the cycle
//! itself the writer needs memory for names and lists of shapes (each once), for backward ops and
//! for launches (some 100 bytes each).
//!
//! | what | category | where |
//! |---|---|---|
//! | ops | `cpu_op` | the thread that ran them |
//! | actions, modules, steps, functions, spans | `user_annotation` | the thread |
//! | launches, other calls of a device's library | `cuda_runtime`, `cuda_driver` | the thread |
//! | kernels, copies, fills | `kernel`, `gpu_memcpy`, `gpu_memset` | process = device, thread = stream |
//! | actions as a stream saw them, from their first kernel to their last | `gpu_user_annotation` | the stream |
//! | waiting for a device | `cuda_sync` | the stream |
//! | counters: utilization, memory, power, … | `device_counter` | process = device, one curve each |
//! | compiling and tuning of kernels | `overhead` | a track of its own per device |
//! | allocations and frees | `[memory]` instants | the thread |
//! | launch → kernel | `ac2g` arrows | |
//! | forward op → backward op | `fwdbwd` arrows | one backward op per sequence number |
//!
//! **Nesting.** Viewers drop slices that cross others on their track. What crosses something, such
//! as a scope that outlives the one around it, is on a further track named after the thread.
//! Where even 256 tracks are not enough it becomes an instant with its duration in `args`.
//!
//! **Clocks.** The clock of a device and that of the host never agree quite. Where kernels seem to
//! run before they were launched, all events of that device are written later, by the least that
//! puts this right and up to 10 ms; `clock_shift_ns` in `deviceProperties` says by how much. An
//! event that would need more is written where its clock says, without an arrow and without a
//! correlation, and says in `args` by how much it is wrong.
//!
//! **Launches** other than `cudaLaunchKernel`, `cudaLaunchKernelExC`, `cudaMemcpyAsync` and
//! `cudaMemsetAsync` have one of these names, because analyses know no others, and their real one as
//! `api` in `args`. Work of which nothing but the launch is known is named there too, as `kernel`.
//!
//! **Arguments of ops** are those of torch's own traces: `Input Dims`, `Input type`, `Sequence number`, `Fwd thread
//! id`; where hooks tell all of their inputs `Input Strides`, `Concrete Inputs` and `Overload name`; and as
//! [`Cycle::trace`] asks `flops` (those that tables count) and `Call stack`. A scope that autograd's engine has around
//! a node has the numbers of that node.
//!
//! **Time** is in microseconds after `baseTimeNanoseconds`, the beginning of a week of Unix time, so
//! that traces of several processes can be laid over one another.

mod annotations;
mod concrete;
mod counters;
mod device;
mod engine;
mod flops;
mod fragments;
mod header;
mod host;
mod index;
mod stacks;
mod tracks;

use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::cycle::Cycle;
use crate::gzip::GzipWriter;
use crate::json::JsonWriter;
use annotations::Annotations;
use flops::Flops;
use fragments::{Contexts, Names, Shapes};
use index::Index;
use mlprof_events::Timestamp;
use mlprof_report::output::write_file;
use stacks::Stacks;
use tracks::Tracks;

/// Writes the trace of `cycle`. `name` is what it is called in itself, usually its file name.
///
/// *Cost*: some 0.2 µs and 220 bytes per op with shapes; see the [module](self) for memory.
///
/// # Errors
///
/// What `out` says.
#[doc(hidden)]
pub fn write(cycle: &Cycle, name: &str, mut out: impl Write) -> io::Result<()> {
    write_to(cycle, name, &mut out)
}

/// Is compiled once, and not for each kind of file: `out` gets large pieces.
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
        flops: Flops::default(),
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

/// In nanoseconds.
const WEEK: i64 = 7 * 24 * 3600 * 1_000_000_000;

struct Writer<'cycle, W> {
    cycle: &'cycle Cycle,
    json: JsonWriter<W>,
    /// Where the time line begins, in nanoseconds of Unix time.
    base: i64,
    /// From there to the beginning of the cycle.
    offset: i64,
    tracks: Tracks,
    names: Names,
    shapes: Shapes,
    contexts: Contexts,
    stacks: Stacks,
    flops: Flops,
    annotations: Annotations,
    index: Index,
    /// How many were written.
    events: u64,
}

impl<W: Write> Writer<'_, W> {
    /// A moment in nanoseconds of the time line.
    #[inline]
    fn time(&self, time: Timestamp) -> i64 {
        self.cycle.nanoseconds_since_start(time).saturating_add(self.offset)
    }

    /// To be called before every event.
    #[inline]
    fn separate(&mut self) -> io::Result<()> {
        self.json.hand_on_if_full()?;
        self.json.raw(if self.events == 0 { "\n" } else { ",\n" });
        self.events += 1;
        Ok(())
    }

    /// `,"pid":…,"tid":…,"ts":…`
    fn place(&mut self, process: u64, thread: u64, time: i64) {
        self.json.raw(",\"pid\":");
        self.json.integer(process);
        self.json.raw(",\"tid\":");
        self.json.integer(thread);
        self.json.raw(",\"ts\":");
        self.json.microseconds(time);
    }

    /// One end of an arrow, at the beginning of a slice.
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

/// One end of an arrow, by the arrow's number.
#[derive(Clone, Copy)]
enum ArrowEnd {
    Forward(u32),
    Backward(u32),
    Launch(u32),
    Kernel(u32),
}

impl Cycle {
    /// Writes the cycle as a trace, compressed with gzip if the name ends in `.gz`: see
    /// [`kineto`](crate::kineto). The file has its name only when it is whole.
    ///
    /// *Cost*: compressed some 0.6 µs and 25 bytes per op with shapes, else as
    /// `write`.
    ///
    /// TensorBoard's plugin wants files to be called `{worker}.{nanoseconds}.pt.trace.json[.gz]`.
    ///
    /// # Errors
    ///
    /// If the file cannot be written; then there is none.
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
