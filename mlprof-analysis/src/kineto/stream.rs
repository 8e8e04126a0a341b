//! JSON values one after the other, of a text that is never held as a whole.

use std::io::{self, Read};

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::error::Category;

/// How much is read at a time, at the least.
const CHUNK: usize = 1 << 18;
/// Longest value, in bytes: a string without its end would otherwise take the memory of the whole
/// text.
const LONGEST: usize = 16 << 20;
/// Longest value after several others had no end: each of them costs the time to look that far.
const LONGEST_OF_MANY: usize = 1 << 18;
/// The same for hostile texts.
const LONGEST_OF_TOO_MANY: usize = 1 << 14;
/// Values without an end in a text that is not hostile, at most.
const MANY: u32 = 1000;

/// A text, and the part of it that is looked at.
pub(super) struct JsonStream<R> {
    reader: R,
    buffer: Vec<u8>,
    /// Where in `buffer` what has not been taken yet begins.
    start: usize,
    /// How many bytes were before `buffer`.
    before: u64,
    /// Nothing comes after what is in `buffer`.
    is_over: bool,
    /// Why it is over, if not because it was read whole.
    failure: Option<io::Error>,
    /// Values are not longer, in bytes.
    longest: usize,
    /// How many values had no end.
    without_end: u32,
}

/// What the next value is.
pub(super) enum Next<T> {
    /// This one.
    Value(T),
    /// JSON, but not such a value.
    Another,
    /// The text ends before the value does. Nothing of it was taken.
    Ended,
    /// No JSON. Nothing of it was taken.
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

    /// The text from the next byte on, as far as it was read.
    pub(super) fn rest(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    /// Whether [`rest`](Self::rest) is all that a value may have.
    pub(super) fn is_all(&self) -> bool {
        self.is_over || self.buffer.len() - self.start >= self.longest
    }

    /// Whether no more can be read.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Takes so many bytes of [`rest`](Self::rest).
    pub(super) fn advance(&mut self, length: usize) {
        self.start = (self.start + length).min(self.buffer.len());
    }

    /// Allows later values less length, as one had no end.
    pub(super) fn distrust(&mut self) {
        self.without_end += 1;
        let least = if self.without_end > MANY { LONGEST_OF_TOO_MANY } else { LONGEST_OF_MANY };
        self.longest = (self.longest / 4).max(least);
    }

    /// Takes an object or a list without keeping it; `false` if it has no end. It ends where the
    /// events of a trace begin, which are in no other field.
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

    /// How many bytes were taken.
    pub(super) fn position(&self) -> u64 {
        self.before + self.start as u64
    }

    /// Why no more could be read, if that is why the text ends.
    pub(super) fn failure(&mut self) -> Option<io::Error> {
        self.failure.take()
    }

    /// Reads more; `false` if there is no more.
    pub(super) fn fill(&mut self) -> bool {
        if self.is_over {
            return false;
        }
        self.buffer.drain(..self.start);
        self.before += self.start as u64;
        self.start = 0;
        let old = self.buffer.len();
        // Twice as much each time, so that a long value is not looked at again and again.
        let wanted = CHUNK.max(old);
        let read = (&mut self.reader).take(wanted as u64).read_to_end(&mut self.buffer);
        match read {
            Ok(count) => self.is_over = count < wanted,
            Err(error) => (self.is_over, self.failure) = (true, Some(error)),
        }
        self.buffer.len() > old
    }

    /// The next character that is no white space, which stays; `None` at the end.
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

    /// Takes this character if it is the next one.
    pub(super) fn take(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.start += usize::from(is_next);
        is_next
    }

    /// Takes the next value. It is handed to `use_value` when it is whole, which is once if it is an object.
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
            // A number may go on where more comes, an object not.
            let may_go_on =
                length == text.len() && !matches!(text.last(), Some(b'}' | b']' | b'"'));
            if (matches!(found, Next::Ended) || may_go_on) && !self.is_all() && self.fill() {
                continue;
            }
            self.start += length;
            return found;
        }
    }

    /// Takes the next value whatever it is.
    pub(super) fn owned<T: DeserializeOwned>(&mut self) -> Next<T> {
        self.value(|text| parse(text))
    }
}

/// The value that a text begins with, and how long it is.
pub(super) fn parse<'de, T: Deserialize<'de>>(
    text: &'de [u8],
) -> (Result<T, serde_json::Error>, usize) {
    let mut stream = serde_json::Deserializer::from_slice(text).into_iter::<T>();
    // Of nothing it is the error that something is missing.
    let value = stream.next().unwrap_or_else(|| serde_json::from_slice(text));
    (value, stream.byte_offset())
}

/// Whether an error is that the text ends: `12.` is called an invalid number, not one that goes on.
fn is_at_end(text: &[u8], error: &serde_json::Error) -> bool {
    let lines = text.split_inclusive(|byte| *byte == b'\n').take(error.line().saturating_sub(1));
    let before: usize = lines.map(<[u8]>::len).sum();
    error.is_eof() || error.is_syntax() && before + error.column() >= text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where reading stops in the middle of it.
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

    /// However long the text is.
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
