//! The wire format of a connection: a kind, a length, and numbers.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::{GroupError, Result};

/// The purpose of a message. Both ends must expect the same kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Hello = 1,
    Welcome,
    Mean,
    Broadcast,
    Compare,
    Verdict,
}

const KINDS: [Kind; 6] =
    [Kind::Hello, Kind::Welcome, Kind::Mean, Kind::Broadcast, Kind::Compare, Kind::Verdict];

impl Kind {
    fn of(byte: u8) -> Option<Self> {
        KINDS.into_iter().find(|&kind| kind as u8 == byte)
    }
}

/// Formats the kind for error messages.
impl std::fmt::Display for Kind {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Hello | Self::Welcome => "joining",
            Self::Mean => "averaging",
            Self::Broadcast => "receiving values from rank 0",
            Self::Compare | Self::Verdict => "comparing results",
        })
    }
}

/// Size of kind and length in bytes.
const HEADER: usize = 5;

/// A connection to one other rank.
pub(super) struct Link {
    stream: TcpStream,
    rank: u32,
    patience: Duration,
    /// Reusable buffer, so that steps do not allocate.
    bytes: Vec<u8>,
}

impl Link {
    /// Creates a connection to `rank`, with `patience` as the timeout of each message.
    pub(super) fn new(stream: TcpStream, rank: u32, patience: Duration) -> io::Result<Self> {
        stream.set_nonblocking(false)?;
        // Small messages are sent immediately instead of being collected.
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        Ok(Self { stream, rank, patience, bytes: Vec::new() })
    }

    /// Sets the rank once the other end has identified itself.
    pub(super) fn with_rank(mut self, rank: u32, patience: Duration) -> io::Result<Self> {
        self.stream.set_read_timeout(Some(patience))?;
        (self.rank, self.patience) = (rank, patience);
        Ok(self)
    }

    pub(super) fn send(&mut self, kind: Kind, values: &[f32]) -> Result<()> {
        self.send_bytes(kind, values.iter().map(|value| value.to_le_bytes()))
    }

    pub(super) fn receive(&mut self, kind: Kind, values: &mut [f32]) -> Result<()> {
        self.receive_bytes(kind, size_of_val(values))?;
        let (numbers, _) = self.bytes.as_chunks();
        values.iter_mut().zip(numbers).for_each(|(value, &number)| {
            *value = f32::from_le_bytes(number);
        });
        Ok(())
    }

    pub(super) fn send_words(&mut self, kind: Kind, words: [u64; 2]) -> Result<()> {
        self.send_bytes(kind, words.into_iter().map(u64::to_le_bytes))
    }

    pub(super) fn receive_words(&mut self, kind: Kind) -> Result<[u64; 2]> {
        self.receive_bytes(kind, size_of::<[u64; 2]>())?;
        let (numbers, _) = self.bytes.as_chunks();
        Ok(std::array::from_fn(|index| numbers.get(index).map_or(0, |n| u64::from_le_bytes(*n))))
    }

    fn send_bytes<const SIZE: usize>(
        &mut self,
        kind: Kind,
        numbers: impl Iterator<Item = [u8; SIZE]>,
    ) -> Result<()> {
        self.bytes.clear();
        self.bytes.resize(HEADER, 0);
        self.bytes.extend(numbers.flatten());
        let length = u32::try_from(self.bytes.len() - HEADER)
            .map_err(|_| GroupError::Setting("a message has more than 4 GiB".to_owned()))?;
        self.bytes[0] = kind as u8;
        self.bytes[1..HEADER].copy_from_slice(&length.to_le_bytes());
        self.stream.write_all(&self.bytes).map_err(|error| self.lost(&error))
    }

    /// Receives a message of this kind and length into `bytes`.
    fn receive_bytes(&mut self, kind: Kind, expected: usize) -> Result<()> {
        let mut header = [0; HEADER];
        self.stream.read_exact(&mut header).map_err(|error| self.lost(&error))?;
        let [byte, length @ ..] = header;
        let length = u32::from_le_bytes(length) as usize;
        if Kind::of(byte) != Some(kind) || length != expected {
            let theirs = Kind::of(byte)
                .map_or("something unknown".to_owned(), |kind| format!("{kind} ({length} bytes)"));
            let ours = format!("{kind} ({expected} bytes)");
            return Err(GroupError::OutOfStep { rank: self.rank, theirs, ours });
        }
        self.bytes.resize(length, 0);
        self.stream.read_exact(&mut self.bytes).map_err(|error| self.lost(&error))
    }

    fn lost(&self, error: &io::Error) -> GroupError {
        let why = match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                format!("no answer within {:?}", self.patience)
            }
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
                "it closed the connection".to_owned()
            }
            _ => error.to_string(),
        };
        GroupError::Lost { rank: self.rank, why }
    }
}
