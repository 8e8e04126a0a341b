//! Conversion of a trace to tables.

mod places;
mod sums;

use std::io;
use std::path::Path;

use mlprof_events::files::{Directory, TemporaryFolder, refuse_link_of_others, write_file};
use parquet::data_type::ByteArray;

use super::file::{self, Source};
use super::occupied;
use super::paths::TraceFiles;
use super::schema::{ARGS, COUNTERS, FLOWS, SLICES, TABLES, Table};
use super::slices::Order;
use super::stacks::Stacks;
use super::waits::Waits;
use crate::answers::WorkKind;
use crate::classify::Meanings;
use crate::host::steps;
use crate::ranks::stages;
use crate::trace::{Details, EventWait, FlowKind, Name, Slice, Trace, TrackKind};

/// Writes all tables of a trace below `folder`. Tables of other ranks and cycles remain. The files
/// get their final names after all of them are complete, and `slices` comes last.
///
/// *Cost*: about 1 µs and 4 to 8 bytes per slice, and memory for one row group.
///
/// # Errors
///
/// Returns an error if a file cannot be written. It also returns an error instead of overwriting
/// the same rank and cycle of another recording, such as another run or a test after a training.
pub fn write(trace: &Trace, folder: &Path) -> io::Result<TraceFiles> {
    occupied::refuse_another(trace, folder)?;
    let writer = Writer::new(trace, folder)?;
    writer.small_tables()?;
    writer.args()?;
    writer.flows_and_counters()?;
    writer.rollups()?;
    writer.stretches()?;
    writer.phases()?;
    writer.slices()?;
    writer.finish()
}

/// Argument keys that PyTorch uses for event waits.
pub(super) const EVENT_STREAM: &str = "wait_on_stream";
pub(super) const RECORDED_BY: &str = "wait_on_cuda_event_record_corr_id";

/// Argument key for the message of a collective.
pub(super) const MESSAGE: &str = "message";

struct Writer<'a> {
    trace: &'a Trace,
    files: TraceFiles,
    /// Temporary folder of the files until all of them are complete.
    made: TemporaryFolder,
    meanings: Meanings,
    steps: Vec<steps::Step>,
    order: Order<'a>,
    stacks: Stacks,
    /// Interned strings of the trace in Parquet's string type.
    texts: Vec<ByteArray>,
    rank: i64,
    cycle: i64,
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl<'a> Writer<'a> {
    fn new(trace: &'a Trace, folder: &Path) -> io::Result<Self> {
        let meanings = Meanings::of(trace);
        let steps = steps::find(trace, &meanings);
        Ok(Self {
            trace,
            made: TemporaryFolder::within(folder)?,
            files: TraceFiles::new(folder, trace.info.rank, trace.info.cycle),
            order: Order::of(trace, &steps),
            stacks: Stacks::of(trace),
            texts: trace.names.all().map(ByteArray::from).collect(),
            rank: trace.info.rank.into(),
            cycle: signed(trace.info.cycle),
            meanings,
            steps,
        })
    }

    /// Moves all files to their final names.
    fn finish(self) -> io::Result<TraceFiles> {
        let slices_last = TABLES.iter().rev();
        for table in slices_last {
            let path = self.files.of(table);
            let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { continue };
            refuse_link_of_others(folder)?;
            std::fs::create_dir_all(folder)?;
            self.made.move_out(table.name.as_ref(), &Directory::open(folder)?, name)?;
        }
        Ok(self.files)
    }

    fn write(&self, table: &Table, rows: usize, sources: &[Source<'_>]) -> io::Result<()> {
        write_file(&self.made.own_path().join(table.name), |out| {
            file::write(out, table, rows, sources)
        })
    }

    fn rank(&self) -> Source<'_> {
        Source::integers(|_| self.rank)
    }

    fn cycle(&self) -> Source<'_> {
        Source::integers(|_| self.cycle)
    }

    fn names<'b>(&'b self, of: impl Fn(usize) -> Option<Name> + 'b) -> Source<'b> {
        Source::Texts(Box::new(move |row| Some(self.texts[of(row)?.0 as usize].clone())))
    }

    fn slice(&self, row: usize) -> (usize, &'a Slice) {
        let place = self.order.places[row] as usize;
        (place, &self.trace.slices[place])
    }

    fn details(&self, row: usize) -> Option<&'a Details> {
        self.trace.details(self.slice(row).1)
    }

    fn slices(&self) -> io::Result<()> {
        let phases = stages::of_slices(self.trace, &self.meanings);
        let waits = Waits::of(self.trace, &self.meanings, &self.texts);
        let phase_texts: Vec<ByteArray> =
            stages::stages().iter().map(|stage| ByteArray::from(stage.name.as_str())).collect();
        let slice = |row| self.slice(row).1;
        let place = |row| self.slice(row).0;
        let number =
            |of: fn(&Details) -> u64| Source::naturals(move |row| self.details(row).map_or(0, of));
        let sources = [
            self.rank(),
            self.cycle(),
            Source::maybe(|row| self.order.step(place(row)).map(signed)),
            Source::integers(|row| row as i64),
            Source::maybe(|row| slice(row).parent().map(|parent| self.order.number(parent))),
            Source::integers(|row| slice(row).track.into()),
            Source::integers(|row| slice(row).start),
            Source::integers(|row| slice(row).duration),
            Source::integers(|row| slice(row).depth.into()),
            // The column has few distinct strings.
            self.categories(|row| slice(row).category),
            self.names(|row| Some(slice(row).name)),
            Source::integers(|row| self.stacks.of[place(row)].into()),
            self.names(|row| self.meanings.module(place(row))),
            Source::Texts(Box::new(|row| Some(phase_texts[phases[place(row)]?].clone()))),
            self.works(slice),
            Source::Texts(Box::new(|row| waits.of_slice(place(row)))),
            Source::naturals(|row| slice(row).correlation.into()),
            self.names(|row| self.details(row).map(|it| it.shapes).filter(|it| *it != Name::EMPTY)),
            number(|it| it.flops),
            number(|it| it.bytes),
            Source::maybe(|row| self.details(row).filter(|it| has_args(it)).map(|_| row as i64)),
        ];
        self.write(&SLICES, self.order.places.len(), &sources)
    }

    /// Returns a column with the kind of work of each slice, or NULL for other slices.
    fn works<'b>(&'b self, slice: impl Fn(usize) -> &'a Slice + 'b) -> Source<'b> {
        let texts = [WorkKind::Compute, WorkKind::Communication, WorkKind::Memory]
            .map(|kind| (kind, ByteArray::from(kind.as_str())));
        Source::Texts(Box::new(move |row| {
            let slice = slice(row);
            let waits = self.meanings.waits_for_ranks(self.trace, slice);
            let kind =
                if waits { Some(WorkKind::Communication) } else { self.meanings.work(slice) };
            texts.iter().find(|(known, _)| Some(*known) == kind).map(|(_, text)| text.clone())
        }))
    }

    fn categories<'b>(&'b self, of: impl Fn(usize) -> crate::trace::Category + 'b) -> Source<'b> {
        Source::Texts(Box::new(move |row| Some(ByteArray::from(of(row).as_str()))))
    }

    /// Writes the arguments that have no column of their own.
    fn args(&self) -> io::Result<()> {
        let mut rows: Vec<(i64, &str, Option<i64>, Option<Name>)> = Vec::new();
        for (number, place) in (0_i64..).zip(&self.order.places) {
            let slice = &self.trace.slices[*place as usize];
            let Some(details) = self.trace.details(slice) else { continue };
            if details.sequence != 0 {
                rows.push((number, "Sequence number", Some(signed(details.sequence)), None));
            }
            if let Some(stream) = details.stream {
                rows.push((number, "stream", Some(stream.into()), None));
            }
            if let Some(stream) = details.event.stream {
                rows.push((number, EVENT_STREAM, Some(stream.into()), None));
            }
            if details.event.recorded_by != 0 {
                rows.push((number, RECORDED_BY, Some(details.event.recorded_by.into()), None));
            }
            if let Some(collective) = details.collective {
                rows.push((number, "Seq", Some(signed(collective)), None));
            }
            if details.called_from != Name::EMPTY {
                rows.push((number, "Called from", None, Some(details.called_from)));
            }
            if details.message != Name::EMPTY {
                rows.push((number, MESSAGE, None, Some(details.message)));
            }
        }
        let key = || Source::Texts(Box::new(|row| Some(ByteArray::from(rows[row].1))));
        let sources = [
            self.rank(),
            self.cycle(),
            Source::integers(|row| rows[row].0),
            key(),
            key(),
            Source::maybe(|row| rows[row].2),
            self.names(|row| rows[row].3),
            Source::Reals(Box::new(|_| None)),
        ];
        self.write(&ARGS, rows.len(), &sources)
    }

    fn flows_and_counters(&self) -> io::Result<()> {
        let flows = &self.trace.flows;
        let sources = [
            self.rank(),
            self.cycle(),
            Source::integers(|row| row as i64),
            Source::integers(|row| self.order.number(flows[row].from as usize)),
            Source::integers(|row| self.order.number(flows[row].to as usize)),
            Source::Texts(Box::new(|row| Some(ByteArray::from(flow_text(flows[row].kind))))),
        ];
        self.write(&FLOWS, flows.len(), &sources)?;
        let counters = &self.trace.counters;
        let sources = [
            self.rank(),
            self.cycle(),
            Source::integers(|row| row as i64),
            Source::integers(|row| counters[row].time),
            Source::integers(|row| counters[row].process.into()),
            self.names(|row| Some(counters[row].name)),
            Source::Reals(Box::new(|row| Some(counters[row].value))),
        ];
        self.write(&COUNTERS, counters.len(), &sources)
    }
}

fn has_args(details: &Details) -> bool {
    details.sequence != 0
        || details.stream.is_some()
        || details.event != EventWait::default()
        || details.collective.is_some()
        || details.called_from != Name::EMPTY
        || details.message != Name::EMPTY
}

pub(super) fn flow_text(kind: FlowKind) -> &'static str {
    match kind {
        FlowKind::ForwardBackward => "fwdbwd",
        FlowKind::Launch => "ac2g",
        FlowKind::Other => "other",
    }
}

pub(super) fn kind_text(kind: TrackKind) -> &'static str {
    match kind {
        TrackKind::Thread => "thread",
        TrackKind::Stream => "stream",
        TrackKind::Other => "other",
    }
}
