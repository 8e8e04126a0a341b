//! Tables of tracks, threads, processes, stacks, clocks and recording metadata.

use std::io;

use super::{Writer, kind_text, signed};
use crate::columns::file::Source;
use crate::columns::schema::{CLOCKS, PROCESSES, RANKS, STACKS, THREADS, TRACKS};
use crate::trace::TrackKind;

impl Writer<'_> {
    pub(super) fn small_tables(&self) -> io::Result<()> {
        let (trace, tracks) = (self.trace, &self.trace.tracks);
        let process = |row: usize| &trace.processes[tracks[row].process as usize];
        let threads: Vec<usize> =
            trace.tracks_of(TrackKind::Thread).map(|(place, _)| place).collect();
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
        let is_main = |row: usize| {
            let number = tracks[threads[row]].number;
            number.is_some() && number == process(threads[row]).number
        };
        let sources = [
            self.rank(),
            self.cycle(),
            Source::integers(|row| threads[row] as i64),
            Source::integers(|row| tracks[threads[row]].process.into()),
            Source::maybe(|row| tracks[threads[row]].number),
            self.names(|row| Some(tracks[threads[row]].name)),
            Source::integers(|row| is_main(row).into()),
        ];
        self.write(&THREADS, threads.len(), &sources)?;
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
        let clocks = &trace.info.clocks;
        let sources = [
            self.rank(),
            self.cycle(),
            Source::integers(|row| clocks[row].time),
            Source::integers(|row| clocks[row].realtime),
            Source::maybe(|row| clocks[row].monotonic),
            Source::integers(|row| clocks[row].error),
        ];
        self.write(&CLOCKS, clocks.len(), &sources)?;
        let info = &trace.info;
        let sources = [
            self.rank(),
            self.cycle(),
            Source::integers(|_| info.world_size.into()),
            Source::maybe_texts(|_| info.host.clone()),
            Source::maybe_texts(|_| info.boot_id.clone()),
            Source::maybe_texts(|_| info.stage.clone()),
            Source::integers(|_| info.base_ns),
            Source::integers(|_| signed(info.dropped)),
            Source::integers(|_| signed(info.not_understood)),
            Source::maybe_texts(|_| info.cut_short.clone()),
            Source::naturals(|_| info.events),
        ];
        self.write(&RANKS, 1, &sources)
    }
}
