//! Python pickles, protocol 4, for snapshots. They use only the few instructions that torch's
//! viewer supports.

use std::io::{self, Write};

/// A Python value.
#[derive(Debug, Clone)]
pub(super) enum Value {
    None,
    Bool(bool),
    Integer(i128),
    Text(String),
    List(Vec<Value>),
    Dictionary(Vec<(&'static str, Value)>),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Integer(number.into())
    }
}

/// Number of entries per batch, which limits the depth of the reader's stack.
const BATCH: usize = 1000;

/// Writes a pickle.
pub(super) fn write(value: &Value, out: &mut impl Write) -> io::Result<()> {
    out.write_all(&[0x80, 4])?;
    push(value, out)?;
    out.write_all(b".")
}

fn push(value: &Value, out: &mut impl Write) -> io::Result<()> {
    match value {
        Value::None => out.write_all(b"N"),
        Value::Bool(is_true) => out.write_all(&[if *is_true { 0x88 } else { 0x89 }]),
        Value::Integer(number) => push_integer(*number, out),
        Value::Text(text) => push_text(text, out),
        Value::List(items) => {
            out.write_all(b"]")?;
            for batch in items.chunks(BATCH) {
                out.write_all(b"(")?;
                batch.iter().try_for_each(|item| push(item, out))?;
                out.write_all(b"e")?;
            }
            Ok(())
        }
        Value::Dictionary(entries) => {
            out.write_all(b"}(")?;
            for (key, value) in entries {
                push_text(key, out)?;
                push(value, out)?;
            }
            out.write_all(b"u")
        }
    }
}

fn push_integer(number: i128, out: &mut impl Write) -> io::Result<()> {
    if let Ok(small) = u8::try_from(number) {
        return out.write_all(&[b'K', small]);
    }
    if let Ok(medium) = i32::try_from(number) {
        out.write_all(b"J")?;
        return out.write_all(&medium.to_le_bytes());
    }
    // The number is written with as few bytes as possible. The last byte contains the sign.
    let bytes = number.to_le_bytes();
    let sign = if number < 0 { 0xff } else { 0 };
    let is_needed = |place: &usize| {
        let is_sign = bytes[*place] == sign;
        !is_sign || (bytes[*place - 1] ^ sign) & 0x80 != 0
    };
    let last = (1..bytes.len()).rev().find(is_needed).unwrap_or(0);
    out.write_all(&[0x8a, last as u8 + 1])?; // at most 16
    out.write_all(&bytes[..=last])
}

fn push_text(text: &str, out: &mut impl Write) -> io::Result<()> {
    match u8::try_from(text.len()) {
        Ok(length) => out.write_all(&[0x8c, length])?,
        Err(_) => {
            let length = u32::try_from(text.len()).map_err(io::Error::other)?;
            out.write_all(b"X")?;
            out.write_all(&length.to_le_bytes())?;
        }
    }
    out.write_all(text.as_bytes())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn integers_take_as_many_bytes_as_python_gives_them() {
        let bytes = |number: i128| {
            let mut out = Vec::new();
            push_integer(number, &mut out).expect("memory takes everything");
            out
        };
        assert_eq!(bytes(255), [b'K', 255]);
        assert_eq!(bytes(-1), [b'J', 255, 255, 255, 255]);
        assert_eq!(bytes(1 << 31), [0x8a, 5, 0, 0, 0, 0x80, 0]);
        assert_eq!(bytes((1 << 39) - 1), [0x8a, 5, 255, 255, 255, 255, 127]);
        assert_eq!(bytes(u64::MAX.into()), [0x8a, 9, 255, 255, 255, 255, 255, 255, 255, 255, 0]);
        assert_eq!(bytes(-(1 << 39)), [0x8a, 5, 0, 0, 0, 0, 0x80]);
    }
}
