//! Reads a cycle back from its own trace, for the formats that are converted from a trace.
//!
//! The trace's text is sent in pieces to a thread that parses it like `mlprof convert`, so both
//! give the same result. Neither the full text nor a file of it ever exists.

use std::io::{self, Read, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use mlprof_analysis::Trace;
use mlprof_events::own_thread;

use super::Cycle;

/// Maximum number of pieces in the channel.
const ON_THE_WAY: usize = 4;
/// Minimum size of a piece in bytes, except for the last one.
const PIECE: usize = 1 << 16;

/// Function that parses the text of a trace.
pub(super) type ReadTrace = fn(Received) -> Result<Trace, mlprof_analysis::Error>;

/// Returns the cycle as parsed by `read`, or `None` if it is empty.
pub(super) fn trace(cycle: &Cycle, read: ReadTrace) -> io::Result<Option<Trace>> {
    let (sender, receiver) = sync_channel(ON_THE_WAY);
    let (answer, answered) = sync_channel(1);
    let thread = own_thread::spawn("mlprof-reader", move || {
        let text = Received { from: receiver, piece: Vec::new(), start: 0 };
        // Sending cannot fail, because `answered` is dropped only after it has received the result.
        let _ = answer.send(read(text));
    })?;
    let mut sent = ChannelWriter { to: sender, piece: Vec::with_capacity(2 * PIECE) };
    let written = mlprof_trace::kineto::write(cycle, "", &mut sent).and_then(|()| sent.flush());
    drop(sent);
    let answer = answered.recv();
    if thread.join().is_err() {
        return Err(io::Error::other("the reader of the trace panicked"));
    }
    written?;
    match answer.map_err(io::Error::other)? {
        Ok(trace) => Ok(Some(trace)),
        Err(mlprof_analysis::Error::Empty) => Ok(None),
        Err(error) => Err(io::Error::other(error)),
    }
}

/// Writer that sends text to another thread.
struct ChannelWriter {
    to: SyncSender<Vec<u8>>,
    piece: Vec<u8>,
}

impl Write for ChannelWriter {
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

/// Reader of text from another thread.
pub(super) struct Received {
    from: Receiver<Vec<u8>>,
    piece: Vec<u8>,
    start: usize,
}

impl Read for Received {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        while self.start == self.piece.len() {
            // A disconnected sender marks the end of the text.
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
        let mut sent = ChannelWriter { to, piece: Vec::new() };
        for part in text.chunks(1_000) {
            sent.write_all(part).expect("somebody reads");
        }
        sent.flush().expect("somebody reads");
        drop(sent);
        let mut arrived = Vec::new();
        let mut received = Received { from, piece: Vec::new(), start: 0 };
        received.read_to_end(&mut arrived).expect("text");
        assert_eq!(arrived, text);
        // Writing fails if the receiver no longer exists.
        let (to, from) = sync_channel(1);
        drop(from);
        let error =
            ChannelWriter { to, piece: Vec::new() }.write_all(&text).expect_err("nobody is there");
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
