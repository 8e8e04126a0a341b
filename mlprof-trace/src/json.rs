//! Streaming JSON writer.

use std::io::{self, Write};

/// Number of buffered bytes after which the buffer is passed on.
const BUFFER: usize = 1 << 16;

/// A buffer in front of a writer, with methods for pieces of JSON. They cannot fail. Errors of the
/// writer are returned when the buffer is [passed on](Self::hand_on_if_full).
pub(crate) struct JsonWriter<W> {
    out: W,
    buffer: Vec<u8>,
}

impl<W: Write> JsonWriter<W> {
    pub(crate) fn new(out: W) -> Self {
        Self { out, buffer: Vec::with_capacity(BUFFER + BUFFER / 4) }
    }

    /// Appends text that is already JSON.
    #[inline]
    pub(crate) fn raw(&mut self, json: impl AsRef<[u8]>) {
        self.buffer.extend_from_slice(json.as_ref());
    }

    /// Appends an integer.
    #[inline]
    pub(crate) fn integer(&mut self, value: impl itoa::Integer) {
        push_integer(&mut self.buffer, value);
    }

    /// Appends nanoseconds as microseconds with three decimals.
    #[inline]
    pub(crate) fn microseconds(&mut self, nanoseconds: i64) {
        let magnitude = nanoseconds.unsigned_abs();
        if nanoseconds < 0 {
            self.buffer.push(b'-');
        }
        push_integer(&mut self.buffer, magnitude / 1000);
        let rest = (magnitude % 1000) as u16; // below 1000
        let digit = |value: u16| b'0' + (value % 10) as u8;
        self.buffer.extend_from_slice(&[b'.', digit(rest / 100), digit(rest / 10), digit(rest)]);
    }

    /// Appends a string in quotes.
    pub(crate) fn string(&mut self, text: &str) {
        self.buffer.push(b'"');
        push_escaped(&mut self.buffer, text);
        self.buffer.push(b'"');
    }

    /// Passes the buffer on if it is full. It must be called regularly between pieces, so that the
    /// buffer stays small.
    #[inline]
    pub(crate) fn hand_on_if_full(&mut self) -> io::Result<()> {
        if self.buffer.len() < BUFFER { Ok(()) } else { self.hand_on() }
    }

    #[cold]
    fn hand_on(&mut self) -> io::Result<()> {
        self.out.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }

    /// Passes all remaining data on.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.hand_on()?;
        self.out.flush()
    }
}

/// Appends an integer in decimal.
#[inline]
pub(crate) fn push_integer(buffer: &mut Vec<u8>, value: impl itoa::Integer) {
    buffer.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Appends the text as it appears between the quotes of a JSON string. It escapes more than JSON
/// requires: all control characters, and Unicode's line separators, which some readers cannot
/// handle.
pub(crate) fn push_escaped(buffer: &mut Vec<u8>, text: &str) {
    let mut bytes = [0; 4];
    for character in text.chars() {
        match character {
            '"' => buffer.extend_from_slice(b"\\\""),
            '\\' => buffer.extend_from_slice(b"\\\\"),
            '\n' => buffer.extend_from_slice(b"\\n"),
            '\t' => buffer.extend_from_slice(b"\\t"),
            // All of these characters are below 2^16, so one escape is sufficient.
            character if character.is_control() || matches!(character, '\u{2028}' | '\u{2029}') => {
                buffer.extend_from_slice(format!("\\u{:04x}", u32::from(character)).as_bytes());
            }
            character => buffer.extend_from_slice(character.encode_utf8(&mut bytes).as_bytes()),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(write: impl FnOnce(&mut JsonWriter<&mut Vec<u8>>)) -> String {
        let mut bytes = Vec::new();
        let mut json = JsonWriter::new(&mut bytes);
        write(&mut json);
        json.finish().expect("memory takes everything");
        String::from_utf8(bytes).expect("text")
    }

    proptest! {
        #[test]
        fn every_text_is_read_as_it_was(text in any::<String>()) {
            let json = written(|json| json.string(&text));
            prop_assert_eq!(serde_json::from_str::<String>(&json).expect("JSON"), text);
            prop_assert!(!json.chars().any(char::is_control));
        }

        #[test]
        fn microseconds_are_exact(nanoseconds in any::<i64>()) {
            let text = written(|json| json.microseconds(nanoseconds));
            let digits: i128 = text.replace('.', "").parse().expect("digits");
            prop_assert_eq!(digits, i128::from(nanoseconds));
            prop_assert_eq!(text.len() - text.find('.').expect("a point"), 4);
        }
    }

    #[test]
    fn problematic_characters_are_escaped() {
        let text =
            written(|json| json.string("\0\u{1}\u{1f}\u{7f}\u{9f}\u{2028}\u{2029}\"\\\n\t/é🔥"));
        let expected = r#""\u0000\u0001\u001f\u007f\u009f\u2028\u2029\"\\\n\t/é🔥""#;
        assert_eq!(text, expected);
    }

    #[test]
    fn the_buffer_stays_small() {
        let mut bytes = Vec::new();
        let mut json = JsonWriter::new(&mut bytes);
        for _ in 0..100_000 {
            json.raw("0123456789");
            json.hand_on_if_full().expect("memory takes everything");
            assert!(json.buffer.capacity() <= 2 * BUFFER);
        }
        json.finish().expect("memory takes everything");
        assert_eq!(bytes.len(), 1_000_000);
    }
}
