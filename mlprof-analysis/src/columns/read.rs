//! Conversion of tables to a trace.

use super::ColumnsError;
use super::file::{self, Rows};
use super::info::{info, natural, small};
use super::paths::TraceFiles;
use super::schema::{ARGS, COUNTERS, FLOWS, PROCESSES, SLICES, TRACKS, Table};
use super::write::{EVENT_STREAM, MESSAGE, RECORDED_BY, flow_text, kind_text};
use crate::trace::{
    Category, Counter, Details, Flow, FlowKind, Name, PlaceId, RawSlice, Trace, TraceBuilder,
    TrackKind,
};

/// Reads a trace that was found by [`find`](super::find).
///
/// *Cost*: about 0.3 µs and 180 bytes of memory per slice.
///
/// # Errors
///
/// Returns an error if a table cannot be read or contains no slices.
pub fn read(files: &TraceFiles) -> Result<Trace, ColumnsError> {
    let mut reader = Reader { builder: TraceBuilder::default(), files, processes: Vec::new() };
    reader.info()?;
    reader.processes()?;
    let tracks = reader.tracks()?;
    let mut args = reader.args()?;
    reader.slices(&tracks, &mut args)?;
    reader.flows()?;
    reader.counters()?;
    if reader.builder.is_empty() {
        return Err(ColumnsError::Empty { path: files.of(&SLICES) });
    }
    Ok(reader.builder.finish())
}

struct Reader<'a> {
    builder: TraceBuilder,
    files: &'a TraceFiles,
    processes: Vec<u32>,
}

impl Reader<'_> {
    fn each(
        &self,
        table: &Table,
        columns: &[&str],
        each: impl FnMut(&Rows),
    ) -> Result<(), ColumnsError> {
        file::read(&self.files.of(table), table, columns, each)
    }

    fn info(&mut self) -> Result<(), ColumnsError> {
        self.builder.info = info(self.files)?;
        Ok(())
    }

    fn processes(&mut self) -> Result<(), ColumnsError> {
        let mut all = Vec::new();
        self.each(&PROCESSES, &["pid", "name", "labels"], |rows| {
            let (pid, name, labels) = (rows.maybe("pid"), rows.text("name"), rows.text("labels"));
            let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
            all.extend((0..rows.count).map(|row| (pid(row), text(name(row)), text(labels(row)))));
        })?;
        for (pid, name, labels) in all {
            // A process and a device may have the same number, so the number is not a key.
            let process = self.builder.add_process(pid);
            self.builder.name_process(process, &name);
            self.builder.label_process(process, &labels);
            self.processes.push(process);
        }
        Ok(())
    }

    /// Returns the builder's track number of each table row.
    fn tracks(&mut self) -> Result<Vec<u32>, ColumnsError> {
        struct Row {
            process: usize,
            number: Option<i64>,
            name: String,
            kind: TrackKind,
            overlaps: Option<usize>,
        }
        let mut all: Vec<Row> = Vec::new();
        let columns = ["kind", "name", "upid", "tid", "parent_id"];
        self.each(&TRACKS, &columns, |rows| {
            let (kind, name) = (rows.text("kind"), rows.text("name"));
            let (upid, tid) = (rows.integer("upid"), rows.maybe("tid"));
            let parent = rows.maybe("parent_id");
            all.extend((0..rows.count).map(|row| Row {
                process: small(upid(row)) as usize,
                number: tid(row),
                name: name(row).unwrap_or_default().to_owned(),
                kind: kind_of(kind(row).unwrap_or_default()),
                overlaps: parent(row).map(|parent| small(parent) as usize),
            }));
        })?;
        let mut numbers: Vec<u32> = Vec::new();
        for (place_in_table, row) in all.iter().enumerate() {
            let process = self.processes.get(row.process).copied().unwrap_or(0);
            // The builder separates crossing slices again, so their tracks are merged with the base
            // track here.
            let same = row.overlaps.filter(|base| {
                all.get(*base).is_some_and(|base| base.number == row.number)
                    && *base < numbers.len()
            });
            let number = match same {
                Some(base) => numbers[base],
                None => {
                    let id = place(row.number, &row.name, place_in_table);
                    let track = self.builder.track_of(process, &id);
                    self.builder.name_track(track, &row.name);
                    self.builder.sort_track(track, place_in_table as i64);
                    self.builder.set_kind(track, row.kind);
                    track
                }
            };
            numbers.push(number);
        }
        Ok(numbers)
    }

    fn args(&mut self) -> Result<Args, ColumnsError> {
        let mut all: Vec<(i64, Details)> = Vec::new();
        let columns = ["arg_set_id", "flat_key", "int_value", "string_value"];
        let (files, names) = (self.files, &mut self.builder.names);
        file::read(&files.of(&ARGS), &ARGS, &columns, |rows| {
            let (set, mut key) = (rows.integer("arg_set_id"), rows.map("flat_key", Key::Other));
            let (number, mut text) =
                (rows.maybe("int_value"), rows.map("string_value", Name::EMPTY));
            for row in 0..rows.count {
                // The rows are sorted, so those of a set are adjacent.
                if all.last().is_none_or(|(last, _)| *last != set(row)) {
                    all.push((set(row), Details::default()));
                }
                let Some((_, of)) = all.last_mut() else { continue };
                match key(row, &mut Key::of) {
                    Key::Sequence => of.sequence = natural(number(row).unwrap_or(0)),
                    Key::Stream => of.stream = number(row).and_then(stream),
                    Key::EventStream => of.event.stream = number(row).and_then(stream),
                    Key::RecordedBy => of.event.recorded_by = small(number(row).unwrap_or(0)),
                    Key::Collective => of.collective = number(row).map(natural),
                    Key::CalledFrom => {
                        of.called_from = text(row, &mut |text: &str| names.intern(text));
                    }
                    Key::Message => {
                        of.message = text(row, &mut |text: &str| names.intern(text));
                    }
                    Key::Other => {}
                }
            }
        })?;
        // Another program may have written the table with the rows of a set apart.
        if !all.is_sorted_by_key(|(set, _)| *set) {
            all.sort_by_key(|(set, _)| *set);
            all.dedup_by(|(set, more), (first, of)| {
                let is_same = set == first;
                if is_same {
                    add(of, more);
                }
                is_same
            });
        }
        Ok(Args { all, next: 0 })
    }

    fn slices(&mut self, tracks: &[u32], args: &mut Args) -> Result<(), ColumnsError> {
        let columns = [
            "track_id",
            "ts",
            "dur",
            "category",
            "name",
            "correlation",
            "shapes",
            "flops",
            "bytes",
            "arg_set_id",
        ];
        let (files, builder) = (self.files, &mut self.builder);
        file::read(&files.of(&SLICES), &SLICES, &columns, |rows| {
            let (track, ts, dur) =
                (rows.integer("track_id"), rows.integer("ts"), rows.integer("dur"));
            let (mut category, mut name) =
                (rows.map("category", Category::Other), rows.map("name", Name::EMPTY));
            let (correlation, mut shapes) =
                (rows.integer("correlation"), rows.map("shapes", Name::EMPTY));
            let (flops, bytes) = (rows.integer("flops"), rows.integer("bytes"));
            let set = rows.maybe("arg_set_id");
            let names = &mut builder.names;
            let mut known_names = Vec::with_capacity(rows.count);
            known_names.extend((0..rows.count).map(|row| {
                let mut intern = |text: &str| names.intern(text);
                (name(row, &mut intern), shapes(row, &mut intern))
            }));
            for (row, (name, shapes)) in known_names.into_iter().enumerate() {
                // A slice with an unknown track is kept, because flow arrows refer to slices by row
                // number.
                let track = tracks.get(small(track(row)) as usize).or(tracks.first());
                let Some(track) = track else { continue };
                let known = set(row).and_then(|set| args.get(set)).unwrap_or_default();
                let (flops, bytes) = (natural(flops(row)), natural(bytes(row)));
                builder.slice(RawSlice {
                    track: *track,
                    name,
                    category: category(row, &mut Category::of),
                    start: ts(row),
                    duration: dur(row),
                    correlation: small(correlation(row)),
                    details: Details { shapes, flops, bytes, ..known },
                });
            }
        })
    }

    fn flows(&mut self) -> Result<(), ColumnsError> {
        let (mut flows, mut version) = (Vec::new(), 0);
        let columns = ["slice_out", "slice_in", "category"];
        self.each(&FLOWS, &columns, |rows| {
            let (from, to) = (rows.integer("slice_out"), rows.integer("slice_in"));
            let kind = rows.text("category");
            version = rows.version;
            flows.extend((0..rows.count).map(|row| Flow {
                kind: flow_of(kind(row).unwrap_or_default()),
                from: small(from(row)),
                to: small(to(row)),
            }));
        })?;
        // The first version numbered slices by their index in the trace.
        let builder = &mut self.builder;
        flows.into_iter().for_each(|flow| match version {
            ..=1 => builder.flow(flow),
            _ => builder.flow_as_added(flow),
        });
        Ok(())
    }

    fn counters(&mut self) -> Result<(), ColumnsError> {
        let columns = ["ts", "upid", "name", "value"];
        let (files, builder, processes) = (self.files, &mut self.builder, &self.processes);
        file::read(&files.of(&COUNTERS), &COUNTERS, &columns, |rows| {
            let (ts, upid) = (rows.integer("ts"), rows.integer("upid"));
            let (name, value) = (rows.text("name"), rows.real("value"));
            for row in 0..rows.count {
                let process = processes.get(small(upid(row)) as usize).copied().unwrap_or(0);
                let name = builder.names.intern(name(row).unwrap_or_default());
                builder.counter(Counter { time: ts(row), process, name, value: value(row) });
            }
        })
    }
}

/// Merges two parts of a slice's details.
fn add(of: &mut Details, more: &Details) {
    if more.sequence != 0 {
        of.sequence = more.sequence;
    }
    if more.called_from != Name::EMPTY {
        of.called_from = more.called_from;
    }
    of.stream = more.stream.or(of.stream);
    of.event.stream = more.event.stream.or(of.event.stream);
    if more.event.recorded_by != 0 {
        of.event.recorded_by = more.event.recorded_by;
    }
    of.collective = more.collective.or(of.collective);
    if more.message != Name::EMPTY {
        of.message = more.message;
    }
}

/// Details of slices by argument set id.
struct Args {
    all: Vec<(i64, Details)>,
    /// Likely index of the next requested set.
    next: usize,
}

impl Args {
    fn get(&mut self, set: i64) -> Option<Details> {
        let is_it = |place: usize| self.all.get(place).is_some_and(|(of, _)| *of == set);
        let place = match is_it(self.next) {
            true => self.next,
            false => self.all.binary_search_by_key(&set, |(of, _)| *of).ok()?,
        };
        self.next = place + 1;
        Some(self.all[place].1)
    }
}

/// Kind of an argument.
#[derive(Clone, Copy)]
enum Key {
    Sequence,
    Stream,
    EventStream,
    RecordedBy,
    Collective,
    CalledFrom,
    Message,
    Other,
}

impl Key {
    fn of(text: &str) -> Self {
        match text {
            "Sequence number" => Self::Sequence,
            "stream" => Self::Stream,
            EVENT_STREAM => Self::EventStream,
            RECORDED_BY => Self::RecordedBy,
            "Seq" => Self::Collective,
            "Called from" => Self::CalledFrom,
            MESSAGE => Self::Message,
            _ => Self::Other,
        }
    }
}

fn stream(number: i64) -> Option<i32> {
    i32::try_from(number).ok()
}

/// Returns the id of a track. A track without a number is identified by its name and row.
fn place(number: Option<i64>, name: &str, place: usize) -> PlaceId {
    match number {
        Some(number) => PlaceId::Number(number),
        None => PlaceId::Text(format!("{name}\u{0}{place}").into()),
    }
}

fn kind_of(text: &str) -> TrackKind {
    let kinds = [TrackKind::Thread, TrackKind::Stream];
    kinds.into_iter().find(|kind| kind_text(*kind) == text).unwrap_or(TrackKind::Other)
}

fn flow_of(text: &str) -> FlowKind {
    let kinds = [FlowKind::ForwardBackward, FlowKind::Launch];
    kinds.into_iter().find(|kind| flow_text(*kind) == text).unwrap_or(FlowKind::Other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{EventWait, Names};

    #[test]
    fn slice_fields_do_not_depend_on_the_order_of_parts() {
        let mut names = Names::default();
        let called_from = names.intern("outer;inner");
        let all = Details {
            sequence: 3,
            called_from,
            message: called_from,
            stream: Some(7),
            event: EventWait { stream: Some(20), recorded_by: 9 },
            collective: Some(0),
            ..Details::default()
        };
        for [mut of, more] in [[all, Details::default()], [Details::default(), all]] {
            add(&mut of, &more);
            assert_eq!(of, all);
        }
    }
}
