//! Reader for traces in the JSON format of Kineto and Chrome: an object with `traceEvents`, or a
//! list of events.
//!
//! *Streaming*: neither the text nor an event is kept, only what becomes of it. *What can be read
//! is read*: text that is not strict JSON is repaired event by event, an event that cannot be read
//! costs that event, and a bad field of the trace costs that field. The notes of the trace state
//! what is missing. Where the end is missing, the trace has what came before, and its field
//! `info.cut_short` has the reason.
//!
//! | `ph` of the event | read as |
//! |---|---|
//! | `X` | slice |
//! | `B` and `E`, `b` and `e`, `S` and `F` | slice, from the first event to the second |
//! | `M`, `C`, `s`, `t`, `f` | names, counters and arrows |
//! | `i`, `I`, `R`, `n`, `T`, `p` | instants, which are only counted; Kineto's memory instants are read for XProf |
//! | others | counted by `ph` |

mod boundaries;
mod event;
mod fields;
mod foreign;
mod fraction;
mod header;
mod losses;
mod merge;
mod renumber;
mod repair;
mod spans;
mod stream;
mod time;
mod values;
mod walk;
mod work;

use crate::Error;
use std::io::Read;

use self::event::{Event, MemoryArguments, NameArguments, SliceArguments};
use self::losses::Losses;
#[doc(hidden)]
pub use self::merge::Merge;
use self::spans::{Scope, Spans};
use self::stream::parse;
use self::time::{NoTime, duration, moment};
use self::values::number_of;
use self::walk::{Visit, walk};
use self::work::WorkCache;
use crate::trace::{
    Category, Counter, Details, EventWait, FlowEnd, FlowKind, MemoryChange, PlaceId, RawSlice,
    Trace, TraceBuilder, TrackKind,
};

/// Reads a trace from uncompressed text.
///
/// *Cost*: about 2 µs and 180 bytes of memory per slice.
///
/// # Errors
///
/// Returns an error if the text is not a trace or has no slices.
pub fn read(text: impl Read) -> Result<Trace, Error> {
    read_into(TraceBuilder::default(), text)
}

/// Reads a trace like [`read`], including data that only [XProf's format](crate::xplane) can
/// represent: [`Trace::memory`] and the [launch configuration of kernels](Details::launch).
///
/// *Cost*: about 56 additional bytes per allocation.
///
/// # Errors
///
/// Returns the same errors as [`read`].
#[doc(hidden)]
pub fn read_for_xprof(text: impl Read) -> Result<Trace, Error> {
    let mut builder = TraceBuilder::default();
    builder.is_for_xprof = true;
    read_into(builder, text)
}

fn read_into(builder: TraceBuilder, text: impl Read) -> Result<Trace, Error> {
    let mut reader = Reader {
        builder,
        spans: Spans::default(),
        losses: Losses::default(),
        work: WorkCache::default(),
    };
    let walked = walk(text, &mut reader)?;
    if !walked.is_trace {
        return Err(Error::NoTrace(foreign::reason(&walked.fields, &walked.begins)));
    }
    let Reader { mut builder, spans, mut losses, .. } = reader;
    spans.finish(&mut losses, |slice| builder.slice(slice));
    let impossible = builder.remove_impossible();
    let notes = losses.notes(&walked, &impossible);
    builder.info.events = walked.events;
    builder.info.not_understood = losses.count(&walked, &impossible);
    builder.info.cut_short.clone_from(&walked.cut_short);
    match (builder.is_empty(), walked.cut_short) {
        (true, Some(reason)) => Err(Error::Cut(reason)),
        (true, None) if notes.is_empty() => Err(Error::Empty),
        (true, None) => Err(Error::NoSlices(notes.join("; "))),
        (false, _) => {
            builder.info.notes = notes;
            builder.recognise_devices();
            Ok(builder.finish())
        }
    }
}

/// Builds a trace from the visited events.
struct Reader {
    builder: TraceBuilder,
    spans: Spans,
    losses: Losses,
    work: WorkCache,
}

impl Visit for Reader {
    fn field(&mut self, name: &str, value: &serde_json::Value) {
        header::field(&mut self.builder.info, name, value);
    }

    fn event(&mut self, text: &[u8]) -> (Result<bool, serde_json::Error>, usize) {
        let (event, length) = parse::<Event<'_>>(text);
        (event.map(|event| self.add(&event).is_ok()), length)
    }
}

/// Marker error for an event that was counted in [`Losses`].
struct Lost;

impl Reader {
    fn add(&mut self, event: &Event<'_>) -> Result<(), Lost> {
        match &*event.ph {
            "X" => {
                let slice = self.slice(event)?;
                self.builder.slice(slice);
            }
            "B" | "E" => {
                let slice = self.slice(event)?;
                self.edge(event, Scope::Thread(slice.track), slice, &*event.ph == "E");
            }
            "b" | "e" | "S" | "F" => self.asynchronous(event)?,
            "M" => names(&mut self.builder, event),
            "s" | "f" | "t" => {
                let time = self.time(event)?;
                flow_end(&mut self.builder, event, time);
            }
            "C" => {
                let time = self.time(event)?;
                counters(&mut self.builder, event, time);
            }
            "i" if &*event.name == "[memory]" => {
                let time = self.time(event)?;
                if self.builder.is_for_xprof {
                    memory(&mut self.builder, event, time);
                }
            }
            // Kineto marks the recording window with these events.
            "i" | "I" if is_mark_of_kineto(&event.name) => {}
            "i" | "I" | "R" => self.losses.moment("i"),
            "n" | "T" | "p" => self.losses.moment("n, asynchronous"),
            // XProf ends its event list with an empty object.
            "" if event.name.is_empty() && event.ts.is_none() && event.args.is_none() => {}
            // Objects, memory dumps, samples and contexts have no duration.
            kind @ ("N" | "O" | "D" | "v" | "V" | "P" | "c" | "(" | ")" | "=") => {
                self.losses.kind(kind);
            }
            kind => {
                self.losses.kind(kind);
                return Err(Lost);
            }
        }
        Ok(())
    }

    fn time(&mut self, event: &Event<'_>) -> Result<i64, Lost> {
        moment(event.ts).map_err(|reason| self.lost(reason))
    }

    fn lost(&mut self, reason: NoTime) -> Lost {
        match reason {
            NoTime::Missing => self.losses.without_time += 1,
            NoTime::Impossible => self.losses.impossible += 1,
        }
        Lost
    }

    /// Parses a slice, or one end of a slice.
    fn slice(&mut self, event: &Event<'_>) -> Result<RawSlice, Lost> {
        let start = self.time(event)?;
        let duration = match duration(event.dur) {
            Ok(duration) => duration,
            Err(NoTime::Impossible) => return Err(self.lost(NoTime::Impossible)),
            Err(NoTime::Missing) => {
                self.losses.without_duration += u64::from(&*event.ph == "X");
                0
            }
        };
        let duration = fraction::to_rounded_end(event.ts, event.dur, duration);
        let builder = &mut self.builder;
        let more: SliceArguments<'_> = arguments(event);
        let category = match more.step.0 {
            Some(_) if event.cat.is_empty() => Category::UserAnnotation,
            _ => Category::of(&event.cat),
        };
        let is_told = builder.is_for_xprof && category == Category::Kernel;
        let launch = if is_told { more.launch() } else { None };
        let recorded_by = builder.correlation(more.recorded_by.correlation());
        let correlation = builder.correlation(more.correlation.correlation());
        let message = more.message();
        let names = &mut builder.names;
        let name = match more.step.0 {
            // This is an XProf step.
            Some(step) if event.cat.is_empty() => {
                names.intern(&format!("{}{step}", crate::classify::STEP))
            }
            _ => names.intern(&event.name),
        };
        let has_collective = !more.collective.is_empty();
        let shapes = more.shapes.map(|shapes| names.intern(shapes.get())).unwrap_or_default();
        let inputs = more.inputs().filter(|_| category == Category::CpuOp);
        let works = &mut builder.works;
        let work = inputs.map(|inputs| self.work.of((&event.name, name), shapes, inputs, works));
        let names = &mut builder.names;
        let details = Details {
            sequence: more.sequence.natural(),
            shapes,
            work,
            bytes: more.bytes.natural(),
            flops: more.flops.natural(),
            called_from: names.intern(&more.called_from),
            collective: more
                .collective_number
                .0
                .filter(|_| has_collective)
                .and_then(|of| of.try_into().ok()),
            // For other events, the stream is the track.
            stream: match category {
                Category::CudaSync => more.stream.stream(),
                _ => None,
            },
            event: EventWait {
                stream: more.wait_on_stream.stream().filter(|stream| *stream >= 0),
                recorded_by,
            },
            launch: launch.map(|launch| names.intern(&launch)).unwrap_or_default(),
            message: message.map(|message| names.intern(&message)).unwrap_or_default(),
        };
        let track = builder.track(&event.pid.0, &event.tid.0);
        Ok(RawSlice { track, name, category, start, duration, correlation, details })
    }

    fn edge(&mut self, event: &Event<'_>, scope: Scope, slice: RawSlice, is_end: bool) {
        match is_end {
            true => self.spans.end(scope, slice, !event.name.is_empty()),
            false => self.spans.begin(scope, slice),
        }
    }

    /// Adds one end of an asynchronous slice. Such slices do not nest on their thread, so each
    /// category gets a track of its own.
    fn asynchronous(&mut self, event: &Event<'_>) -> Result<(), Lost> {
        let slice = self.slice(event)?;
        let name = match &*event.cat {
            "" => "asynchronous".to_owned(),
            category => format!("{category} (asynchronous)"),
        };
        let track = self.builder.track(&event.pid.0, &PlaceId::Text(name.into()));
        self.builder.set_kind(track, TrackKind::Other);
        let id = match event.scoped_id {
            Some(id) => id.get().to_owned(),
            None => event.id.bits().to_string(),
        };
        let is_end = matches!(&*event.ph, "e" | "F");
        self.edge(event, Scope::Id(track, id), RawSlice { track, ..slice }, is_end);
        Ok(())
    }
}

/// Returns `true` for the marker events that Kineto writes into each trace. They carry no
/// information.
fn is_mark_of_kineto(name: &str) -> bool {
    name == "Record Window End" || name.starts_with("Iteration Start: ")
}

fn arguments<'a, T: serde::Deserialize<'a> + Default>(event: &Event<'a>) -> T {
    // Arguments that are not an object have no such fields.
    event.args.and_then(|args| serde_json::from_str(args.get()).ok()).unwrap_or_default()
}

fn names(builder: &mut TraceBuilder, event: &Event<'_>) {
    let more: NameArguments<'_> = arguments(event);
    let name = &*more.name;
    match &*event.name {
        "process_name" => {
            let process = builder.process(&event.pid.0);
            builder.name_process(process, name);
        }
        "process_labels" => {
            let process = builder.process(&event.pid.0);
            builder.label_process(process, &more.labels);
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

/// Adds one end of a flow arrow. An end without an id is ignored.
fn flow_end(builder: &mut TraceBuilder, event: &Event<'_>, time: i64) {
    let kind = match &*event.cat {
        "fwdbwd" => FlowKind::ForwardBackward,
        "ac2g" | "async_cpu_to_gpu" => FlowKind::Launch,
        _ => FlowKind::Other,
    };
    let Some(id) = event.id.0.map(i64::cast_unsigned) else { return };
    let track = builder.track(&event.pid.0, &event.tid.0);
    builder.flow_end(FlowEnd { kind, id, track, time, is_end: &*event.ph != "s" });
}

fn memory(builder: &mut TraceBuilder, event: &Event<'_>, time: i64) {
    let more: MemoryArguments<'_> = arguments(event);
    let is_on_device = more.device_type.natural() > 0;
    let Some(bytes) = more.bytes.0 else { return };
    let address = more.address.and_then(|address| number_of(address.get().trim_matches('"')));
    let track = builder.track(&event.pid.0, &event.tid.0);
    builder.memory(MemoryChange {
        time,
        track: Some(track),
        device: is_on_device.then(|| u32::try_from(more.device.natural()).unwrap_or(0)),
        address: address.unwrap_or(0).cast_unsigned(),
        bytes,
        allocated: more.allocated.natural(),
        reserved: more.reserved.natural(),
    });
}

fn counters(builder: &mut TraceBuilder, event: &Event<'_>, time: i64) {
    let values: serde_json::Map<String, serde_json::Value> = arguments(event);
    let process = builder.process(&event.pid.0);
    for (series, value) in values {
        let Some(value) = value.as_f64() else { continue };
        // An unnamed series has the name of its counter.
        let name = match series.as_str() {
            "value" => builder.names.intern(&event.name),
            series => builder.names.intern(&format!("{} {series}", &*event.name)),
        };
        builder.counter(Counter { time, process, name, value });
    }
}
