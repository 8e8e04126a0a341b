//! Streaming parser for consecutive JSON values.

use std::io::{self, Read};

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::error::Category;

/// Minimum number of bytes per read.
const CHUNK: usize = 1 << 18;
/// Maximum length of a value in bytes. Without this limit, an unterminated string would load the
/// whole text into memory.
const LONGEST: usize = 16 << 20;
/// Maximum length in bytes after several values without an end, because each of them costs a scan
/// up to the limit.
const LONGEST_OF_MANY: usize = 1 << 18;
/// Maximum length in bytes after more than [`MANY`] values without an end, as in a hostile text.
const LONGEST_OF_TOO_MANY: usize = 1 << 14;
/// Maximum number of values without an end in a text that is not hostile.
const MANY: u32 = 1000;

/// A text and the buffered part of it.
pub(super) struct JsonStream<R> {
    reader: R,
    buffer: Vec<u8>,
    /// Position in `buffer` of the first unconsumed byte.
    start: usize,
    /// Number of bytes before `buffer`.
    before: u64,
    /// Set when no more text follows the buffer.
    is_over: bool,
    /// Read error that ended the text, if any.
    failure: Option<io::Error>,
    /// Current maximum length of a value in bytes.
    longest: usize,
    /// Number of values without an end.
    without_end: u32,
}

/// Result of reading the next value.
pub(super) enum Next<T> {
    /// The parsed value.
    Value(T),
    /// Valid JSON, but of another type.
    Another,
    /// The text ends before the value does. No bytes were consumed.
    Ended,
    /// The text is not JSON. No bytes were consumed.
    Broken,
}

impl<R: Read> JsonStream<R> {
    pub(super) fn new(reader: R) -> Self {
        let (buffer, failure) = (Vec::new(), None);
        Self {
            reader,
            buffer,
            start: 0,
            before: 0,
            is_over: false,
            failure,
            longest: LONGEST,
            without_end: 0,
        }
    }

    /// Returns the buffered text from the next byte on.
    pub(super) fn rest(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    /// Returns `true` if [`rest`](Self::rest) contains all bytes that a value may use.
    pub(super) fn is_all(&self) -> bool {
        self.is_over || self.buffer.len() - self.start >= self.longest
    }

    /// Returns `true` if no more text can be read.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Consumes up to `length` bytes of [`rest`](Self::rest).
    pub(super) fn advance(&mut self, length: usize) {
        self.start = (self.start + length).min(self.buffer.len());
    }

    /// Records a value without an end and lowers the maximum length of later values.
    pub(super) fn distrust(&mut self) {
        self.without_end += 1;
        let least = if self.without_end > MANY { LONGEST_OF_TOO_MANY } else { LONGEST_OF_MANY };
        self.longest = (self.longest / 4).max(least);
    }

    /// Skips an object or a list without keeping it. Returns `false` if its end is missing. The
    /// skip also stops at the field `"traceEvents"`, because no other field contains it.
    pub(super) fn skip(&mut self) -> bool {
        const EVENTS: &[u8] = b"\"traceEvents\"";
        let (mut depth, mut in_string, mut is_escaped) = (0_u64, false, false);
        loop {
            let rest = &self.buffer[self.start..];
            let mut taken = rest.len();
            let mut is_done = false;
            for (place, byte) in rest.iter().enumerate() {
                match byte {
                    _ if is_escaped => is_escaped = false,
                    b'\\' if in_string => is_escaped = true,
                    b'"' | b'\n' if in_string => in_string = false,
                    _ if in_string => {}
                    b'"' if rest.len() - place <= EVENTS.len() && !self.is_over => {
                        taken = place;
                        break;
                    }
                    b'"' if rest[place..].starts_with(EVENTS) => {
                        (taken, is_done) = (place, true);
                        break;
                    }
                    b'"' => in_string = true,
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => {
                        depth -= 1;
                        if depth == 0 {
                            (taken, is_done) = (place + 1, true);
                            break;
                        }
                    }
                    _ => {}
                }
            }
            let is_left = taken < rest.len();
            self.start += taken;
            if is_done || !self.fill() && !is_left {
                return is_done;
            }
        }
    }

    /// Returns the number of consumed bytes.
    pub(super) fn position(&self) -> u64 {
        self.before + self.start as u64
    }

    /// Returns the read error that ended the text, if any.
    pub(super) fn failure(&mut self) -> Option<io::Error> {
        self.failure.take()
    }

    /// Reads more text. Returns `false` if there is no more.
    pub(super) fn fill(&mut self) -> bool {
        if self.is_over {
            return false;
        }
        self.buffer.drain(..self.start);
        self.before += self.start as u64;
        self.start = 0;
        let old = self.buffer.len();
        // The buffer doubles on each read, so that the total cost of rescanning a long value stays
        // linear.
        let wanted = CHUNK.max(old);
        let read = (&mut self.reader).take(wanted as u64).read_to_end(&mut self.buffer);
        match read {
            Ok(count) => self.is_over = count < wanted,
            Err(error) => (self.is_over, self.failure) = (true, Some(error)),
        }
        self.buffer.len() > old
    }

    /// Skips whitespace and returns the next byte without consuming it. `None` at the end.
    pub(super) fn peek(&mut self) -> Option<u8> {
        loop {
            let rest = &self.buffer[self.start..];
            if let Some(skip) = rest.iter().position(|byte| !byte.is_ascii_whitespace()) {
                self.start += skip;
                return self.buffer.get(self.start).copied();
            }
            self.start = self.buffer.len();
            if !self.fill() {
                return None;
            }
        }
    }

    /// Consumes the next byte if it equals `byte`.
    pub(super) fn take(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.start += usize::from(is_next);
        is_next
    }

    /// Parses the next value with `use_value`. `use_value` can run again with more text until the
    /// value is complete. For an object it succeeds only once.
    pub(super) fn value<U>(
        &mut self,
        mut use_value: impl FnMut(&[u8]) -> (Result<U, serde_json::Error>, usize),
    ) -> Next<U> {
        loop {
            if self.peek().is_none() {
                return Next::Ended;
            }
            let text = &self.buffer[self.start..];
            let (found, length) = match use_value(text) {
                (Ok(value), length) => (Next::Value(value), length),
                (Err(error), _) if is_at_end(text, &error) => (Next::Ended, 0),
                (Err(error), _) if error.classify() == Category::Data => {
                    match parse::<IgnoredAny>(text) {
                        (Ok(_), length) => (Next::Another, length),
                        (Err(error), _) if is_at_end(text, &error) => (Next::Ended, 0),
                        (Err(_), _) => (Next::Broken, 0),
                    }
                }
                (Err(_), _) => (Next::Broken, 0),
            };
            // A number can continue in the following text, but an object cannot.
            let may_go_on =
                length == text.len() && !matches!(text.last(), Some(b'}' | b']' | b'"'));
            if (matches!(found, Next::Ended) || may_go_on) && !self.is_all() && self.fill() {
                continue;
            }
            self.start += length;
            return found;
        }
    }

    /// Parses the next value into an owned type.
    pub(super) fn owned<T: DeserializeOwned>(&mut self) -> Next<T> {
        self.value(|text| parse(text))
    }
}

/// Parses the value at the beginning of a text and returns it with its length.
pub(super) fn parse<'de, T: Deserialize<'de>>(
    text: &'de [u8],
) -> (Result<T, serde_json::Error>, usize) {
    let mut stream = serde_json::Deserializer::from_slice(text).into_iter::<T>();
    // For an empty text, this yields the error for missing input.
    let value = stream.next().unwrap_or_else(|| serde_json::from_slice(text));
    (value, stream.byte_offset())
}

/// Returns `true` if the error means that the text ends early. serde_json reports `12.` as an
/// invalid number instead of an incomplete one.
fn is_at_end(text: &[u8], error: &serde_json::Error) -> bool {
    let lines = text.split_inclusive(|byte| *byte == b'\n').take(error.line().saturating_sub(1));
    let before: usize = lines.map(<[u8]>::len).sum();
    error.is_eof() || error.is_syntax() && before + error.column() >= text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that a value can be split across reads at any position.
    #[test]
    fn a_value_may_be_cut_anywhere() {
        let value = r#"{"a":-12.50e+3,"b":[true,null,"é\u0041\n"],
            "c":{"d":0.125}}"#;
        let expected: serde_json::Value = serde_json::from_str(value).expect("JSON");
        for cut in 0..=value.len() {
            let text = format!("{}{value},12345 ", " ".repeat(CHUNK - cut));
            let mut stream = JsonStream::new(text.as_bytes());
            let Next::Value(found) = stream.owned::<serde_json::Value>() else { panic!("{cut}") };
            assert_eq!(found, expected, "{cut}");
            assert!(stream.take(b','));
            assert!(matches!(stream.owned(), Next::Value(12345_u32)), "{cut}");
        }
        for cut in 1..value.len() {
            let mut stream = JsonStream::new(&value.as_bytes()[..cut]);
            let next = stream.owned::<serde_json::Value>();
            assert!(matches!(next, Next::Ended), "{}", &value[..cut.min(30)]);
        }
    }

    #[test]
    fn a_number_is_read_to_its_end() {
        for cut in 0..5 {
            let text = format!("{}12345", " ".repeat(CHUNK - cut));
            let mut stream = JsonStream::new(text.as_bytes());
            assert!(matches!(stream.owned(), Next::Value(12345_u32)), "{cut}");
        }
    }

    /// Checks that the buffer stays small for long texts.
    #[test]
    fn the_buffer_stays_small() {
        let text = format!("{} ", "{\"a\":[1,2,3]},".repeat(400_000));
        let mut stream = JsonStream::new(text.as_bytes());
        let mut count = 0;
        while let Next::Value(_) = stream.owned::<serde_json::Value>() {
            assert!(stream.buffer.capacity() <= 4 * CHUNK, "{}", stream.buffer.capacity());
            count += 1;
            stream.take(b',');
        }
        assert_eq!(count, 400_000);
    }
}
