//! A trace becomes tables.

use std::io;
use std::path::Path;

use parquet::data_type::ByteArray;
use profiler_report::output::write_file;

use super::file::{self, Source};
use super::paths::TraceFiles;
use super::rollups;
use super::schema::{
    ARGS, COUNTERS, FLOWS, OPS, PHASES, PROCESSES, RANKS, SLICES, STACKS, STAGES, STEPS, TRACKS,
    Table,
};
use super::slices::Order;
use super::stacks::Stacks;
use crate::host::steps;
use crate::meaning::Meanings;
use crate::ranks;
use crate::trace::{Details, FlowKind, Name, Slice, Trace, TrackKind};

/// Writes all tables of a trace below `folder`; those of other ranks and cycles stay. Each file has its name
/// when it is whole; `slices` comes last.
///
/// *Cost*: some 1 µs and 4 to 8 bytes per slice, and a group of rows in memory.
///
/// # Errors
///
/// If a file cannot be written.
pub fn write(trace: &Trace, folder: &Path) -> io::Result<TraceFiles> {
    let writer = Writer::new(trace, folder);
    writer.small_tables()?;
    writer.args()?;
    writer.flows_and_counters()?;
    writer.rollups()?;
    writer.phases()?;
    writer.slices()?;
    Ok(writer.files)
}

struct Writer<'a> {
    trace: &'a Trace,
    files: TraceFiles,
    meanings: Meanings,
    steps: Vec<steps::Step>,
    order: Order<'a>,
    stacks: Stacks,
    /// The texts of the trace as the tables have them.
    texts: Vec<ByteArray>,
    rank: i64,
    cycle: i64,
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl<'a> Writer<'a> {
    fn new(trace: &'a Trace, folder: &Path) -> Self {
        let meanings = Meanings::of(trace);
        let steps = steps::find(trace, &meanings);
        let names = 0..trace.names.count() as u32;
        let text = |name| trace.names.text(Name(name)).as_bytes().to_vec();
        Self {
            trace,
            files: TraceFiles::new(folder, trace.info.rank, trace.info.cycle),
            order: Order::of(trace, &steps),
            stacks: Stacks::of(trace),
            texts: names.map(|name| ByteArray::from(text(name))).collect(),
            rank: trace.info.rank.into(),
            cycle: signed(trace.info.cycle),
            meanings,
            steps,
        }
    }

    fn write(&self, table: &Table, rows: usize, sources: &[Source<'_>]) -> io::Result<()> {
        let path = self.files.of(table);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        write_file(&path, |out| file::write(out, table, rows, sources))
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
        let slice = |row| self.slice(row).1;
        let place = |row| self.slice(row).0;
        let number =
            |of: fn(&Details) -> u64| Source::naturals(move |row| self.details(row).map_or(0, of));
        let sources = [
            self.rank(),
            self.cycle(),
            Source::maybe(|row| self.order.step(place(row)).map(signed)),
            Source::integers(|row| place(row) as i64),
            Source::maybe(|row| slice(row).parent().map(|parent| parent as i64)),
            Source::integers(|row| slice(row).track.into()),
            Source::integers(|row| slice(row).start),
            Source::integers(|row| slice(row).duration),
            Source::integers(|row| slice(row).self_duration),
            Source::integers(|row| slice(row).depth.into()),
            // Few texts, again and again.
            self.categories(|row| slice(row).category),
            self.names(|row| Some(slice(row).name)),
            Source::integers(|row| self.stacks.of[place(row)].into()),
            self.names(|row| self.meanings.module(place(row))),
            Source::naturals(|row| slice(row).correlation.into()),
            self.names(|row| self.details(row).map(|it| it.shapes).filter(|it| *it != Name::EMPTY)),
            number(|it| it.flops),
            number(|it| it.bytes),
            Source::maybe(|row| {
                self.details(row).filter(|it| has_args(it)).map(|_| place(row) as i64)
            }),
        ];
        self.write(&SLICES, self.order.places.len(), &sources)
    }

    fn categories<'b>(&'b self, of: impl Fn(usize) -> crate::trace::Category + 'b) -> Source<'b> {
        Source::Texts(Box::new(move |row| Some(ByteArray::from(of(row).as_str()))))
    }

    /// What has no column of its own.
    fn args(&self) -> io::Result<()> {
        let mut rows: Vec<(i64, &str, Option<i64>, Option<Name>)> = Vec::new();
        for (place, slice) in (0_i64..).zip(&self.trace.slices) {
            let Some(details) = self.trace.details(slice) else { continue };
            if details.sequence != 0 {
                rows.push((place, "Sequence number", Some(signed(details.sequence)), None));
            }
            if let Some(stream) = details.stream {
                rows.push((place, "stream", Some(stream.into()), None));
            }
            if details.called_from != Name::EMPTY {
                rows.push((place, "Called from", None, Some(details.called_from)));
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
            Source::integers(|row| flows[row].from.into()),
            Source::integers(|row| flows[row].to.into()),
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

    fn small_tables(&self) -> io::Result<()> {
        let (trace, tracks) = (self.trace, &self.trace.tracks);
        let process = |row: usize| &trace.processes[tracks[row].process as usize];
        let is_stream = |row: usize| tracks[row].kind == TrackKind::Stream;
        let sources = [
            self.rank(),
            self.cycle(),
            Source::integers(|row| row as i64),
            Source::texts(|row| kind_text(tracks[row].kind).to_owned()),
            self.names(|row| Some(tracks[row].name)),
            Source::integers(|row| tracks[row].process.into()),
            Source::maybe(|row| process(row).number),
            Source::maybe(|row| tracks[row].number),
            Source::maybe(|row| process(row).number.filter(|_| is_stream(row))),
            Source::maybe(|row| tracks[row].number.filter(|_| is_stream(row))),
            Source::maybe(|row| tracks[row].overlaps.map(i64::from)),
        ];
        self.write(&TRACKS, tracks.len(), &sources)?;
        let processes = &trace.processes;
        let sources = [
            self.rank(),
            self.cycle(),
            Source::integers(|row| row as i64),
            Source::maybe(|row| processes[row].number),
            self.names(|row| Some(processes[row].name)),
            self.names(|row| Some(processes[row].labels)),
        ];
        self.write(&PROCESSES, processes.len(), &sources)?;
        let stacks = &self.stacks;
        let sources = [
            self.rank(),
            self.cycle(),
            Source::integers(|row| row as i64),
            Source::maybe(|row| stacks.all[row].parent.map(i64::from)),
            self.names(|row| Some(stacks.all[row].name)),
            Source::integers(|row| stacks.all[row].depth),
            Source::texts(|row| stacks.path(trace, row)),
        ];
        self.write(&STACKS, stacks.all.len(), &sources)?;
        let info = &trace.info;
        let sources = [
            self.rank(),
            self.cycle(),
            Source::integers(|_| info.world_size.into()),
            Source::maybe_texts(|_| info.host.clone()),
            Source::maybe_texts(|_| info.stage.clone()),
            Source::integers(|_| info.base_ns),
            Source::integers(|_| signed(info.dropped)),
            Source::maybe_texts(|_| info.cut_short.clone()),
        ];
        self.write(&RANKS, 1, &sources)
    }

    /// What `ranks` compares, so that sums of a fleet name the same stragglers.
    fn phases(&self) -> io::Result<()> {
        let all = ranks::stages::all();
        let of_steps = ranks::stages::of_steps(self.trace, &self.meanings, &self.steps);
        let step = |row: usize| &of_steps[row / all.len()];
        let place = |row: usize| row % all.len();
        let sources = [
            self.rank(),
            self.cycle(),
            Source::integers(|row| signed(step(row).0)),
            Source::maybe_texts(|_| self.trace.info.stage.clone()),
            Source::integers(|row| place(row) as i64),
            Source::texts(|row| all[place(row)].name.clone()),
            Source::integers(|row| all[place(row)].waits_for_others.into()),
            Source::integers(|row| step(row).1[place(row)]),
        ];
        self.write(&PHASES, of_steps.len() * all.len(), &sources)
    }

    fn rollups(&self) -> io::Result<()> {
        let trace = self.trace;
        let steps: Vec<_> = self.steps.iter().filter(|step| step.number.is_some()).collect();
        let number = |row: usize| steps[row].number.map_or(0, signed);
        let waits: Vec<i64> =
            steps.iter().map(|step| steps::parts(trace, &self.meanings, step).1).collect();
        let sources = [
            self.rank(),
            self.cycle(),
            Source::integers(number),
            Source::maybe_texts(|_| trace.info.stage.clone()),
            Source::integers(|row| steps[row].start),
            Source::integers(|row| steps[row].end - steps[row].start),
            Source::integers(|row| waits[row]),
        ];
        self.write(&STEPS, steps.len(), &sources)?;
        let is_action = |place| self.meanings.action(place) == Some(place);
        let stages = rollups::stages(trace, &self.steps, is_action);
        let sources = [
            self.rank(),
            self.cycle(),
            Source::integers(|row| signed(stages[row].step)),
            Source::integers(|row| stages[row].ord),
            self.names(|row| Some(stages[row].action)),
            Source::integers(|row| stages[row].duration),
        ];
        self.write(&STAGES, stages.len(), &sources)?;
        let ops = rollups::ops(trace, &self.order);
        let sources = [
            self.rank(),
            self.cycle(),
            Source::maybe(|row| ops[row].step.map(signed)),
            self.categories(|row| ops[row].category),
            self.names(|row| Some(ops[row].name)),
            Source::integers(|row| ops[row].count),
            Source::integers(|row| ops[row].sum),
            Source::integers(|row| ops[row].own),
            Source::integers(|row| ops[row].min),
            Source::integers(|row| ops[row].max),
        ];
        self.write(&OPS, ops.len(), &sources)
    }
}

fn has_args(details: &Details) -> bool {
    details.sequence != 0 || details.stream.is_some() || details.called_from != Name::EMPTY
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
