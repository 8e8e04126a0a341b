//! A cycle as whoever reads its trace has it, for formats that are made of what was read.
//!
//! The trace's text goes, piece by piece, to a thread that reads it as `mlprof convert` does, so that what is made of it is
//! the same. Neither the text nor a file of it is ever there as a whole.

use std::io::{self, Read, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use mlprof_analysis::Trace;
use mlprof_events::own_thread;

use super::Cycle;

/// Pieces that may be on their way.
const ON_THE_WAY: usize = 4;
/// What a piece has at the least, but for the last.
const PIECE: usize = 1 << 16;

/// How the text of a trace is read.
pub(super) type ReadTrace = fn(Received) -> Result<Trace, mlprof_analysis::Error>;

/// The cycle as whoever reads its trace so has it; `None` if nothing is in it.
pub(super) fn trace(cycle: &Cycle, read: ReadTrace) -> io::Result<Option<Trace>> {
    let (sender, receiver) = sync_channel(ON_THE_WAY);
    let (answer, answered) = sync_channel(1);
    let thread = own_thread::spawn("mlprof-reader", move || {
        let text = Received { from: receiver, piece: Vec::new(), start: 0 };
        // Whoever asked is there until it is answered.
        let _ = answer.send(read(text));
    })?;
    let mut sent = Sent { to: sender, piece: Vec::with_capacity(2 * PIECE) };
    let written = mlprof_trace::kineto::write(cycle, "", &mut sent).and_then(|()| sent.flush());
    drop(sent);
    let answer = answered.recv();
    if thread.join().is_err() {
        return Err(io::Error::other("reading the trace panicked"));
    }
    written?;
    match answer.map_err(io::Error::other)? {
        Ok(trace) => Ok(Some(trace)),
        Err(mlprof_analysis::Error::Empty) => Ok(None),
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
pub(super) struct Received {
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
