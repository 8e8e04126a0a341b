//! Reads traces in the JSON of Kineto and Chrome: an object with `traceEvents`, or a list of events.
//!
//! *Streaming*: neither the text nor an event is kept, only what becomes of it. *What can be read is read*:
//! where the end is missing, or something is no JSON, the trace has what came before, and
//! [`Info::cut_short`](crate::trace::Info::cut_short) says so.

mod event;
mod header;
mod merge;
mod stream;
mod time;
mod walk;

use std::io::Read;

use serde_json::value::RawValue;

use self::event::{Event, Integer, MemoryArguments, NameArguments, SliceArguments};
pub use self::merge::Merge;
use self::stream::parse;
use self::time::nanoseconds;
use self::walk::{Visit, walk};
use crate::trace::{
    Category, Counter, Details, EventWait, FlowEnd, FlowKind, MemoryChange, RawSlice, Trace,
    TraceBuilder,
};

/// Why a text is no trace.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// It cannot be read.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// It is something else.
    #[error("it is no trace: no JSON object with \"traceEvents\" and no list of events")]
    NoTrace,
    /// No slice is in it.
    #[error("it is a trace in which nothing was recorded")]
    Empty,
    /// Its end is missing, and no slice comes before.
    #[error("its end is missing, and nothing that was recorded comes before: {0}")]
    Cut(String),
}

profiler_events::debug_as_display!(ReadError);

/// Reads a trace's text, which is not compressed any more.
///
/// *Cost*: some 2 µs and 180 bytes of memory per slice.
///
/// # Errors
///
/// If it is no trace, or nothing is in it.
pub fn read(text: impl Read) -> Result<Trace, ReadError> {
    read_into(TraceBuilder::default(), text)
}

/// The same with what only [XProf's format](crate::xplane) has of a trace: [`Trace::memory`], and
/// [how kernels were launched](Details::launch).
///
/// *Cost*: some 56 bytes more for each allocation.
///
/// # Errors
///
/// As [`read`].
pub fn read_for_xprof(text: impl Read) -> Result<Trace, ReadError> {
    let mut builder = TraceBuilder::default();
    builder.is_for_xprof = true;
    read_into(builder, text)
}

fn read_into(mut builder: TraceBuilder, text: impl Read) -> Result<Trace, ReadError> {
    let walked = walk(text, &mut builder)?;
    builder.info.not_understood = walked.not_understood;
    builder.info.cut_short.clone_from(&walked.cut_short);
    match (walked.is_trace, builder.is_empty(), walked.cut_short) {
        (false, _, _) => Err(ReadError::NoTrace),
        (true, true, Some(reason)) => Err(ReadError::Cut(reason)),
        (true, true, None) => Err(ReadError::Empty),
        (true, false, _) => Ok(builder.finish()),
    }
}

/// Makes a trace of what it is shown.
impl Visit for TraceBuilder {
    fn field(&mut self, name: &str, value: &serde_json::Value) {
        header::field(&mut self.info, name, value);
    }

    fn event(&mut self, text: &[u8]) -> (Result<bool, serde_json::Error>, usize) {
        let (event, length) = parse::<Event<'_>>(text);
        (event.map(|event| add(self, &event)), length)
    }
}

/// Whether it was understood.
fn add(builder: &mut TraceBuilder, event: &Event<'_>) -> bool {
    let is_understood = match &*event.ph {
        "X" => slice(builder, event),
        "M" => {
            names(builder, event);
            Some(())
        }
        "s" | "f" | "t" => flow_end(builder, event),
        "C" => counters(builder, event),
        "i" if builder.is_for_xprof && event.name == "[memory]" => memory(builder, event),
        // Other instants, and what is drawn only: nothing of them is asked.
        _ => Some(()),
    };
    is_understood.is_some()
}

fn time(value: Option<&RawValue>) -> Option<i64> {
    nanoseconds(value?.get())
}

fn arguments<'a, T: serde::Deserialize<'a> + Default>(event: &Event<'a>) -> T {
    // Whatever else stands there has no such fields.
    event.args.and_then(|args| serde_json::from_str(args.get()).ok()).unwrap_or_default()
}

/// 0 if there is none.
fn correlation(number: Integer) -> u32 {
    // -1 stands there without its sign, too.
    u32::try_from(number.natural()).ok().filter(|number| *number != u32::MAX).unwrap_or(0)
}

fn slice(builder: &mut TraceBuilder, event: &Event<'_>) -> Option<()> {
    let (start, duration) = (time(event.ts)?, time(event.dur).unwrap_or(0));
    let category = Category::of(&event.cat);
    let more: SliceArguments<'_> = arguments(event);
    let is_told = builder.is_for_xprof && category == Category::Kernel;
    let launch = if is_told { more.launch() } else { None };
    let message = more.message();
    let names = &mut builder.names;
    let details = Details {
        sequence: more.sequence.natural(),
        shapes: more.shapes.map(|shapes| names.intern(shapes.get())).unwrap_or_default(),
        bytes: more.bytes.natural(),
        flops: more.flops.natural(),
        called_from: more.called_from.map(|from| names.intern(&from)).unwrap_or_default(),
        collective: more.collective.and(more.collective_number.0).and_then(|of| of.try_into().ok()),
        // That of other events is their track.
        stream: match category {
            Category::CudaSync => more.stream.stream(),
            _ => None,
        },
        event: EventWait {
            stream: more.wait_on_stream.stream().filter(|stream| *stream >= 0),
            recorded_by: correlation(more.recorded_by),
        },
        launch: launch.map(|launch| names.intern(&launch)).unwrap_or_default(),
        message: message.map(|message| names.intern(&message)).unwrap_or_default(),
    };
    let name = names.intern(&event.name);
    let correlation = correlation(more.correlation);
    let track = builder.track(&event.pid.0, &event.tid.0);
    builder.slice(RawSlice { track, name, category, start, duration, correlation, details });
    Some(())
}

fn names(builder: &mut TraceBuilder, event: &Event<'_>) {
    let more: NameArguments<'_> = arguments(event);
    let name = more.name.as_deref().unwrap_or_default();
    match &*event.name {
        "process_name" => {
            let process = builder.process(&event.pid.0);
            builder.name_process(process, name);
        }
        "process_labels" => {
            let process = builder.process(&event.pid.0);
            builder.label_process(process, more.labels.as_deref().unwrap_or_default());
        }
        "thread_name" => {
            let track = builder.track(&event.pid.0, &event.tid.0);
            builder.name_track(track, name);
        }
        "thread_sort_index" => {
            let track = builder.track(&event.pid.0, &event.tid.0);
            builder.sort_track(track, more.sort_index.0.unwrap_or(i64::MAX));
        }
        _ => {}
    }
}

fn flow_end(builder: &mut TraceBuilder, event: &Event<'_>) -> Option<()> {
    let kind = match &*event.cat {
        "fwdbwd" => FlowKind::ForwardBackward,
        "ac2g" | "async_cpu_to_gpu" => FlowKind::Launch,
        _ => FlowKind::Other,
    };
    let (id, time) = (event.id.0?.cast_unsigned(), time(event.ts)?);
    let track = builder.track(&event.pid.0, &event.tid.0);
    builder.flow_end(FlowEnd { kind, id, track, time, is_end: event.ph != "s" });
    Some(())
}

fn memory(builder: &mut TraceBuilder, event: &Event<'_>) -> Option<()> {
    let more: MemoryArguments = arguments(event);
    let is_on_device = more.device_type.natural() > 0;
    let (time, bytes) = (time(event.ts)?, more.bytes.0?);
    let track = builder.track(&event.pid.0, &event.tid.0);
    builder.memory(MemoryChange {
        time,
        track: Some(track),
        device: is_on_device.then(|| u32::try_from(more.device.natural()).unwrap_or(0)),
        address: more.address.natural(),
        bytes,
        allocated: more.allocated.natural(),
        reserved: more.reserved.natural(),
    });
    Some(())
}

fn counters(builder: &mut TraceBuilder, event: &Event<'_>) -> Option<()> {
    let time = time(event.ts)?;
    let values: serde_json::Map<String, serde_json::Value> = arguments(event);
    let process = builder.process(&event.pid.0);
    for (series, value) in values {
        let Some(value) = value.as_f64() else { continue };
        // One that has no name of its own is called as the counter.
        let name = match series.as_str() {
            "value" => builder.names.intern(&event.name),
            series => builder.names.intern(&format!("{} {series}", event.name)),
        };
        builder.counter(Counter { time, process, name, value });
    }
    Some(())
}
