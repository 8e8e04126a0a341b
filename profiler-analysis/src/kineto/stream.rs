//! JSON values one after the other, of a text that is never held as a whole.

use std::io::{self, Read};

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::error::Category;

/// How much is read at a time, at the least.
const CHUNK: usize = 1 << 18;

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
}

/// What the next value is.
pub(super) enum Next<T> {
    /// This one.
    Value(T),
    /// JSON, but not such a value.
    Another,
    /// The text ends before the value does.
    Ended,
    /// No JSON.
    Broken(serde_json::Error),
}

impl<R: Read> JsonStream<R> {
    pub(super) fn new(reader: R) -> Self {
        let (buffer, failure) = (Vec::new(), None);
        Self { reader, buffer, start: 0, before: 0, is_over: false, failure }
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
    fn fill(&mut self) -> bool {
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
                (Err(error), _) if is_at_end(text, &error) => (Next::Ended, text.len()),
                (Err(error), _) if error.classify() == Category::Data => {
                    match parse::<IgnoredAny>(text) {
                        (Ok(_), length) => (Next::Another, length),
                        (Err(error), _) if is_at_end(text, &error) => (Next::Ended, text.len()),
                        (Err(error), _) => (Next::Broken(error), 0),
                    }
                }
                (Err(error), _) => (Next::Broken(error), 0),
            };
            // A number may go on where more comes, an object not.
            let may_go_on =
                length == text.len() && !matches!(text.last(), Some(b'}' | b']' | b'"'));
            if (matches!(found, Next::Ended) || may_go_on) && self.fill() {
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
