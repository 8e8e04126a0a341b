//! Repair of text that is almost JSON.
//!
//! Recorders write bare `nan` and `N/A`, unescaped quotes and backslashes, bytes of other
//! encodings, and trailing commas. [`repair`] rewrites one value at a time. It uses the text after
//! a quote to guess whether the quote ends the string. A wrong guess affects only that value.

/// Result of [`repair`].
#[derive(Debug, PartialEq)]
pub(super) enum Repaired {
    /// The value as strict JSON, and the length of the original text.
    Whole(Vec<u8>, usize),
    /// The text ends before the value does.
    Unfinished,
    /// The text cannot be repaired into a value.
    Hopeless,
}

/// Reason why a value cannot be completed.
enum Stop {
    Unfinished,
    Hopeless,
}

/// Token that may come next.
#[derive(Clone, Copy, PartialEq)]
enum Expected {
    Value,
    KeyOrEnd,
    ElementOrEnd,
    Separator,
}

/// Maximum length in bytes of a key searched for after a quote.
const LONGEST_KEY: usize = 128;

/// Repairs the value at the beginning of `text`. `is_all` is `true` if no more text follows.
pub(super) fn repair(text: &[u8], is_all: bool) -> Repaired {
    let mut repair = Repair { text, at: 0, is_all, out: Vec::new(), open: Vec::new() };
    match repair.value() {
        Ok(()) => Repaired::Whole(repair.out, repair.at),
        Err(Stop::Unfinished) => Repaired::Unfinished,
        Err(Stop::Hopeless) => Repaired::Hopeless,
    }
}

struct Repair<'a> {
    text: &'a [u8],
    at: usize,
    is_all: bool,
    out: Vec<u8>,
    /// Open brackets, each with `true` if it already contains an item.
    open: Vec<(u8, bool)>,
}

impl Repair<'_> {
    fn value(&mut self) -> Result<(), Stop> {
        let mut expected = Expected::Value;
        loop {
            self.skip_space();
            let byte = self.peek()?;
            expected = match (expected, byte) {
                (Expected::Separator, b',') => self.separated(),
                (Expected::KeyOrEnd | Expected::ElementOrEnd, b',') => {
                    self.at += 1;
                    expected
                }
                (Expected::Value, b',' | b'}' | b']') => {
                    self.out.extend_from_slice(b"null");
                    Expected::Separator
                }
                (_, b'}' | b']') => self.close(byte)?,
                // The comma between two items is missing.
                (Expected::Separator, _) => self.expects_item(),
                (Expected::KeyOrEnd, _) => self.key(byte)?,
                (Expected::ElementOrEnd, _) => {
                    self.begin_item();
                    Expected::Value
                }
                (Expected::Value, b'{' | b'[') => {
                    self.at += 1;
                    self.out.push(byte);
                    self.open.push((byte, false));
                    self.expects_item()
                }
                (Expected::Value, b'"') => {
                    self.string(false)?;
                    Expected::Separator
                }
                (Expected::Value, _) => {
                    self.word()?;
                    Expected::Separator
                }
            };
            if expected == Expected::Separator && self.open.is_empty() {
                return Ok(());
            }
        }
    }

    fn peek(&self) -> Result<u8, Stop> {
        self.text.get(self.at).copied().ok_or(Stop::Unfinished)
    }

    fn skip_space(&mut self) {
        self.at = after_space(self.text, self.at);
    }

    fn separated(&mut self) -> Expected {
        self.at += 1;
        self.expects_item()
    }

    fn expects_item(&self) -> Expected {
        match self.open.last() {
            Some((b'{', _)) => Expected::KeyOrEnd,
            _ => Expected::ElementOrEnd,
        }
    }

    /// Writes a comma unless the item is the first one.
    fn begin_item(&mut self) {
        if let Some((_, has_items)) = self.open.last_mut() {
            if *has_items {
                self.out.push(b',');
            }
            *has_items = true;
        }
    }

    fn close(&mut self, byte: u8) -> Result<Expected, Stop> {
        let opening = if byte == b'}' { b'{' } else { b'[' };
        // A list inside this object has no end, so it is closed before the object.
        while byte == b'}' && self.open.last().is_some_and(|(open, _)| *open == b'[') {
            self.open.pop();
            self.out.push(b']');
        }
        match self.open.pop() {
            Some((open, _)) if open == opening => {
                self.at += 1;
                self.out.push(byte);
                Ok(Expected::Separator)
            }
            _ => Err(Stop::Hopeless),
        }
    }

    fn key(&mut self, byte: u8) -> Result<Expected, Stop> {
        if byte != b'"' {
            return Err(Stop::Hopeless);
        }
        self.begin_item();
        self.string(true)?;
        self.skip_space();
        if self.peek()? != b':' {
            return Err(Stop::Hopeless);
        }
        self.at += 1;
        self.out.push(b':');
        Ok(Expected::Value)
    }

    /// Copies a bare word, which is neither a string, a list nor an object. It ends at the end of
    /// the line at the latest.
    fn word(&mut self) -> Result<(), Stop> {
        let rest = &self.text[self.at..];
        let end = rest.iter().position(|byte| matches!(byte, b',' | b'}' | b']' | b'\n' | b'"'));
        let Some(length) = end.or(self.is_all.then_some(rest.len())) else {
            return Err(Stop::Unfinished);
        };
        let word = rest[..length].trim_ascii();
        if word.is_empty() || word.contains(&b'{') || word.starts_with(b":") {
            return Err(Stop::Hopeless);
        }
        self.at += length;
        let text = String::from_utf8_lossy(word);
        self.out.extend_from_slice(strict_word(&text).as_bytes());
        Ok(())
    }

    fn string(&mut self, is_key: bool) -> Result<(), Stop> {
        self.at += 1;
        self.out.push(b'"');
        loop {
            let byte = self.peek()?;
            match byte {
                b'"' if self.ends_string(self.at + 1, is_key, false)? => {
                    self.at += 1;
                    self.out.push(b'"');
                    return Ok(());
                }
                b'"' => self.replace(1, b"\\\""),
                b'\\' => {
                    if self.backslash(is_key)? {
                        return Ok(());
                    }
                }
                b'\n' if self.begins_something(self.at + 1)? => return Err(Stop::Hopeless),
                0..0x20 => {
                    let escape = format!("\\u{byte:04x}");
                    self.replace(1, escape.as_bytes());
                }
                0x20..0x80 => self.replace(1, &[byte]),
                _ => self.encoded(),
            }
        }
    }

    fn replace(&mut self, length: usize, by: &[u8]) {
        self.at += length;
        self.out.extend_from_slice(by);
    }

    /// Copies a UTF-8 character, or replaces an invalid byte.
    fn encoded(&mut self) {
        let rest = &self.text[self.at..];
        let rest = &rest[..rest.len().min(4)];
        let valid = match std::str::from_utf8(rest) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&rest[..error.valid_up_to()]).unwrap_or_default(),
        };
        let character = valid.chars().next();
        let character = character.unwrap_or(char::REPLACEMENT_CHARACTER);
        let length = if valid.is_empty() { 1 } else { character.len_utf8() };
        let mut bytes = [0; 4];
        let encoded = character.encode_utf8(&mut bytes).len();
        self.replace(length, &bytes[..encoded]);
    }

    /// Copies an escape sequence and returns whether the string ended. A backslash that starts no
    /// escape sequence is kept as a literal backslash.
    fn backslash(&mut self, is_key: bool) -> Result<bool, Stop> {
        let rest = &self.text[self.at + 1..];
        let Some(next) = rest.first() else { return Err(Stop::Unfinished) };
        match next {
            // A Windows path ends with this backslash, which was not meant to escape the quote.
            b'"' if self.ends_string(self.at + 2, is_key, true)? => {
                self.replace(2, b"\\\\\"");
                return Ok(true);
            }
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {
                self.replace(2, &[b'\\', *next]);
            }
            b'u' => {
                if rest.len() < 11 && !self.is_all {
                    return Err(Stop::Unfinished);
                }
                match unicode_escape(rest) {
                    Some((length, true)) => {
                        let escape = self.text[self.at..=self.at + length].to_vec();
                        self.replace(length + 1, &escape);
                    }
                    Some((length, false)) => self.replace(length + 1, b"\\ufffd"),
                    None => self.replace(1, b"\\\\"),
                }
            }
            _ => self.replace(1, b"\\\\"),
        }
        Ok(false)
    }

    /// Returns whether a string ends before `at`, judged by the following text. `is_doubtful` is
    /// `true` if a backslash precedes the quote.
    fn ends_string(&self, at: usize, is_key: bool, is_doubtful: bool) -> Result<bool, Stop> {
        let at = after_space(self.text, at);
        let Some(byte) = self.text.get(at) else { return self.at_the_end() };
        let in_list = self.open.last().is_some_and(|(open, _)| *open == b'[');
        match (byte, is_key) {
            (b':', _) => Ok(is_key),
            (_, true) => Ok(false),
            (b',', _) if in_list && !is_doubtful => Ok(true),
            (b',', _) => {
                let next = after_space(self.text, at + 1);
                match self.text.get(next) {
                    None => self.at_the_end(),
                    Some(b'"') => self.is_key(next),
                    Some(b'}' | b',') => Ok(!is_doubtful),
                    // The string is an element of the event list itself, or the value before the
                    // bracket ends there.
                    Some(b'{' | b']') => Ok(self.open.is_empty()),
                    Some(_) => Ok(false),
                }
            }
            (b'"', _) => self.is_key(at),
            (b'}' | b']', _) => {
                let is_closing =
                    |byte: &u8| matches!(byte, b'}' | b']') || byte.is_ascii_whitespace();
                let rest = &self.text[at..];
                match rest.iter().find(|byte| !is_closing(byte)) {
                    None => self.at_the_end(),
                    Some(after) => {
                        Ok(*after == b',' || !is_doubtful && matches!(after, b'"' | b'{'))
                    }
                }
            }
            _ => Ok(false),
        }
    }

    fn at_the_end(&self) -> Result<bool, Stop> {
        if self.is_all { Ok(true) } else { Err(Stop::Unfinished) }
    }

    /// Returns `true` if a key and its colon begin at this position.
    fn is_key(&self, at: usize) -> Result<bool, Stop> {
        let rest = &self.text[at + 1..];
        let near = &rest[..rest.len().min(LONGEST_KEY)];
        match near.iter().position(|byte| matches!(byte, b'"' | b'\n')) {
            Some(end) if near[end] == b'"' => {
                match self.text.get(after_space(self.text, at + 1 + end + 1)) {
                    Some(byte) => Ok(*byte == b':'),
                    None => self.at_the_end(),
                }
            }
            Some(_) => Ok(false),
            None if rest.len() < LONGEST_KEY => self.at_the_end().map(|_| false),
            None => Ok(false),
        }
    }

    /// Returns `true` if the next line begins an event, a field or a closing bracket. Strings
    /// rarely continue on such a line.
    fn begins_something(&self, at: usize) -> Result<bool, Stop> {
        let at = after_space(self.text, at);
        match self.text.get(at) {
            None => self.at_the_end(),
            Some(b'{' | b'}' | b']') => Ok(true),
            Some(b'"') => self.is_key(at),
            Some(_) => Ok(false),
        }
    }
}

/// Returns the position of the next byte that is not whitespace.
fn after_space(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    at + rest.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(rest.len())
}

/// Returns the length of `u0041` or of a surrogate pair, and whether it encodes a character.
fn unicode_escape(text: &[u8]) -> Option<(usize, bool)> {
    let unit = |at: usize| -> Option<u16> {
        let digits = text.get(at..at + 4)?;
        let digits = std::str::from_utf8(digits).ok()?;
        let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        u16::from_str_radix(digits, 16).ok().filter(|_| is_hex)
    };
    let first = unit(1)?;
    match first {
        0xd800..0xdc00 => {
            let second = (text.get(5..7) == Some(b"\\u")).then(|| unit(7)).flatten();
            let is_pair = second.is_some_and(|second| (0xdc00..0xe000).contains(&second));
            Some(if is_pair { (11, true) } else { (5, false) })
        }
        0xdc00..0xe000 => Some((5, false)),
        _ => Some((5, true)),
    }
}

/// Converts a bare word to JSON. Numbers and constants keep their meaning, and all other words
/// become strings.
fn strict_word(word: &str) -> String {
    let is_number = |text: &str| {
        serde_json::from_str::<serde_json::Number>(text).is_ok()
            && text.parse::<f64>().is_ok_and(f64::is_finite)
    };
    match word {
        "true" | "false" | "null" => word.to_owned(),
        "True" => "true".to_owned(),
        "False" => "false".to_owned(),
        "None" => "null".to_owned(),
        _ => {
            let plain = word.strip_prefix('+').unwrap_or(word);
            let plain = plain.strip_suffix('.').unwrap_or(plain);
            let zero = if plain.starts_with('.') { "0" } else { "" };
            let number = format!("{zero}{plain}");
            match is_number(&number) {
                true => number,
                false => serde_json::Value::from(word).to_string(),
            }
        }
    }
}

#[cfg(test)]
mod tests;
