//! Opens files and decompresses them if necessary.
//!
//! *Limits*: four megabytes of gzip can expand to four gigabytes of text. Files written by mlprof
//! compress to between a tenth and a fortieth of their size. A file that expands to more than
//! [`MOST_TIMES`] its size is refused. Reports are held in memory as a whole and take several times
//! their size, so [`LONGEST_REPORT`] limits them. Traces are read event by event and may have any
//! length.

use std::cell::Cell;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::rc::Rc;

use flate2::bufread::MultiGzDecoder;
use mlprof_analysis::{Trace, kineto};
use mlprof_events::files::open_input;

use super::Error;

/// Maximum expansion factor of a compressed file, once its text is longer than [`ALWAYS`].
const MOST_TIMES: u64 = 200;
/// Text length in bytes that is accepted for any compressed file.
const ALWAYS: u64 = 16 << 20;
/// Maximum text length of a report in bytes.
const LONGEST_REPORT: u64 = 256 << 20;

/// Maximum text length in bytes, which can be lifted later.
struct Limit(Cell<u64>);

impl Limit {
    /// Removes the limit, because the text belongs to a trace.
    fn lift(&self) {
        self.0.set(u64::MAX);
    }
}

/// Opens the file's text and the limit that applies to it. Compression is detected by content, not
/// by file name.
fn open(path: &Path) -> io::Result<(Rc<Limit>, impl BufRead)> {
    let limit = Rc::new(Limit(Cell::new(LONGEST_REPORT)));
    let packed = Rc::new(Cell::new(0));
    let file = Counted { inner: open_input(path)?, count: packed.clone() };
    let mut file = BufReader::with_capacity(1 << 16, file);
    let is_compressed = file.fill_buf()?.starts_with(&[0x1f, 0x8b]);
    let unpacked: Box<dyn Read> = match is_compressed {
        true => Box::new(Unpacked { inner: MultiGzDecoder::new(file), read: 0, packed }),
        false => Box::new(file),
    };
    let limited = Limited { inner: unpacked, read: 0, limit: limit.clone() };
    Ok((limit, BufReader::with_capacity(1 << 16, limited)))
}

/// Opens the text of a file that may be a report.
pub(super) fn report(path: &Path) -> io::Result<impl BufRead> {
    open(path).map(|(_, text)| text)
}

/// Opens the text of a trace, without a length limit.
pub(crate) fn text(path: &Path) -> io::Result<impl BufRead> {
    let (limit, text) = open(path)?;
    limit.lift();
    Ok(text)
}

/// Reads a trace. *Cost*: about 2 µs and 180 bytes of memory per slice.
pub(crate) fn trace(path: &Path) -> Result<Trace, Error> {
    read_trace(path, text(path), kineto::read)
}

/// Reads a trace together with the data that only the XProf format needs.
pub(crate) fn trace_for_xprof(path: &Path) -> Result<Trace, Error> {
    read_trace(path, text(path), kineto::read_for_xprof)
}

fn read_trace<R: BufRead>(
    path: &Path,
    text: io::Result<R>,
    read: impl FnOnce(R) -> Result<Trace, mlprof_analysis::Error>,
) -> Result<Trace, Error> {
    let unreadable = |error| Error::Trace { path: path.to_owned(), error };
    read(text.map_err(|error| unreadable(error.into()))?).map_err(unreadable)
}

fn refused(reason: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason.into())
}

/// Reader that counts the bytes read.
struct Counted<R> {
    inner: R,
    count: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(bytes)?;
        self.count.set(self.count.get() + count as u64);
        Ok(count)
    }
}

/// Reader that fails if the expansion factor exceeds the limit.
struct Unpacked<R> {
    inner: R,
    read: u64,
    packed: Rc<Cell<u64>>,
}

impl<R: Read> Read for Unpacked<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(bytes)?;
        self.read += count as u64;
        if self.read > ALWAYS.max(self.packed.get().saturating_mul(MOST_TIMES)) {
            return Err(refused(format!(
                "it expands to more than {MOST_TIMES} times its size, unlike any report or trace"
            )));
        }
        Ok(count)
    }
}

/// Reader that fails if the text exceeds its length limit.
struct Limited<R> {
    inner: R,
    read: u64,
    limit: Rc<Limit>,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(bytes)?;
        self.read += count as u64;
        let most = self.limit.0.get();
        if self.read > most {
            return Err(refused(format!("the report exceeds the limit of {} MiB", most >> 20)));
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_ends_at_its_limit_unless_that_is_lifted() {
        let read = |lifts: bool| {
            let limit = Rc::new(Limit(Cell::new(3 << 20)));
            let text = io::repeat(b' ').take(4 << 20);
            let mut limited = Limited { inner: text, read: 0, limit: limit.clone() };
            io::copy(&mut (&mut limited).take(1 << 20), &mut io::sink()).expect("within it");
            if lifts {
                limit.lift();
            }
            io::copy(&mut limited, &mut io::sink()).map_err(|error| error.to_string())
        };
        assert_eq!(read(true), Ok(3 << 20));
        assert_eq!(read(false), Err("the report exceeds the limit of 3 MiB".to_owned()));
    }
}
