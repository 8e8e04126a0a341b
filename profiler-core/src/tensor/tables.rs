//! A cycle as Parquet tables: what `mlprof convert --to parquet` makes of its trace, made where it was recorded.
//!
//! The trace's text goes, piece by piece, to a thread that reads it as that command does, so that the tables are
//! the same. Neither the text nor a file of it is ever there as a whole.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use profiler_analysis::kineto::ReadError;
use profiler_analysis::{Trace, columns, kineto};
use profiler_events::own_thread;

use super::Cycle;

/// Pieces that may be on their way.
const ON_THE_WAY: usize = 4;
/// What a piece has at the least, but for the last.
const PIECE: usize = 1 << 16;

/// Which folders this profiler has written tables to, and which cycle came last.
#[derive(Debug, Default)]
pub(super) struct Folders(HashMap<PathBuf, (u32, u64)>);

impl Folders {
    /// Where a cycle goes: beside the earlier ones of its stage. A stage that runs again begins anew, in a folder
    /// of its own. Whether the folder is a new one.
    pub(super) fn of(&mut self, first: &Path, cycle: u64) -> (PathBuf, bool) {
        let known = self.0.get(first).copied();
        let (run, is_new) = match known {
            None => (1, true),
            Some((run, last)) if cycle > last => (run, false),
            Some((run, _)) => (run + 1, true),
        };
        self.0.insert(first.to_owned(), (run, cycle));
        if run == 1 {
            return (first.to_owned(), is_new);
        }
        let stem = first.file_stem().unwrap_or_default().to_string_lossy();
        (first.with_file_name(format!("{stem}-{run}.parquet")), is_new)
    }
}

/// Writes the tables of a cycle. If the folder is a new one for this run, what an earlier run of the same name has
/// left of this rank, or of ranks that there are not any more, is taken out.
pub(super) fn write(cycle: &Cycle, trace: &Trace, folder: &Path, is_new: bool) -> io::Result<()> {
    if is_new {
        let (own, all) = (cycle.run.rank, cycle.run.world_size.max(1));
        columns::remove(folder, |rank| rank == own || rank >= all)?;
    }
    columns::write(trace, folder).map(drop)
}

/// The cycle as whoever reads its trace has it; `None` if nothing is in it.
pub(super) fn trace(cycle: &Cycle) -> io::Result<Option<Trace>> {
    let (sender, receiver) = sync_channel(ON_THE_WAY);
    let (answer, answered) = sync_channel(1);
    let thread = own_thread::spawn("mlprof-tables", move || {
        let text = Received { from: receiver, piece: Vec::new(), start: 0 };
        // Whoever asked is there until it is answered.
        let _ = answer.send(kineto::read(text));
    })?;
    let mut sent = Sent { to: sender, piece: Vec::with_capacity(2 * PIECE) };
    let written = profiler_trace::kineto::write(cycle, "", &mut sent).and_then(|()| sent.flush());
    drop(sent);
    let read = answered.recv();
    if thread.join().is_err() {
        return Err(io::Error::other("reading the trace panicked"));
    }
    written?;
    match read.map_err(io::Error::other)? {
        Ok(trace) => Ok(Some(trace)),
        Err(ReadError::Empty) => Ok(None),
        Err(error) => Err(io::Error::other(error)),
    }
}

/// Text that goes to another thread.
struct Sent {
    to: SyncSender<Vec<u8>>,
    piece: Vec<u8>,
}

impl Write for Sent {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let piece = std::mem::replace(&mut self.piece, Vec::with_capacity(2 * PIECE));
        self.to.send(piece).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

/// Text that comes from another thread.
struct Received {
    from: Receiver<Vec<u8>>,
    piece: Vec<u8>,
    start: usize,
}

impl Read for Received {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        while self.start == self.piece.len() {
            // Nobody sends any more: that is the end.
            let Ok(piece) = self.from.recv() else { return Ok(0) };
            (self.piece, self.start) = (piece, 0);
        }
        let count = (&self.piece[self.start..]).read(bytes)?;
        self.start += count;
        Ok(count)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_stage_that_runs_again_has_a_folder_of_its_own() {
        let mut folders = Folders::default();
        let (fit, test) = (Path::new("runs/fit-a.b.parquet"), Path::new("runs/test-a.b.parquet"));
        let second = PathBuf::from("runs/fit-a.b-2.parquet");
        for (first, cycle, folder, is_new) in [
            (fit, 0, fit, true),
            (fit, 1, fit, false),
            (test, 0, test, true),
            // One in between may have been lost.
            (fit, 3, fit, false),
            (fit, 0, second.as_path(), true),
            (fit, 1, second.as_path(), false),
            (test, 1, test, false),
        ] {
            assert_eq!(folders.of(first, cycle), (folder.to_owned(), is_new), "{first:?} {cycle}");
        }
    }

    #[test]
    fn text_arrives_as_it_was_sent() {
        let text: Vec<u8> =
            (0..5 * PIECE as u32 + 7).map(|number| number.to_le_bytes()[0]).collect();
        let (to, from) = sync_channel(100);
        let mut sent = Sent { to, piece: Vec::new() };
        for part in text.chunks(1_000) {
            sent.write_all(part).expect("somebody reads");
        }
        sent.flush().expect("somebody reads");
        drop(sent);
        let mut arrived = Vec::new();
        let mut received = Received { from, piece: Vec::new(), start: 0 };
        received.read_to_end(&mut arrived).expect("text");
        assert_eq!(arrived, text);
        // And who writes for nobody hears of it.
        let (to, from) = sync_channel(1);
        drop(from);
        let error = Sent { to, piece: Vec::new() }.write_all(&text).expect_err("nobody is there");
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
