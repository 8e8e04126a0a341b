//! Short forms of kernel names for tables. They keep the function and the arguments that
//! distinguish it from others with the same name.

use unicode_width::UnicodeWidthStr;

use crate::label::shown_within;

/// Replaces the omitted part.
const CUT: &str = "…";
/// Minimum number of characters kept of an argument. An argument with fewer characters is omitted.
const LEAST_CUT: usize = 8;
/// Length of a pair of brackets that contains only [`CUT`].
const CUT_GROUP: usize = 3;

/// Shortens a kernel name to at most `room` terminal columns. A C++ name loses its return type and
/// parameters, and keeps as many of its first template arguments as fit. Brackets stay balanced.
/// Other names lose their middle if they are longer.
pub fn short(full: &str, room: usize) -> String {
    let short = without_arguments(full, room);
    // Some characters are wider next to each other than alone.
    if length(&short) <= room { short } else { shown_within(&short, room) }
}

/// Returns a name that usually fits into `room` terminal columns.
fn without_arguments(full: &str, room: usize) -> String {
    if length(full) <= room && !full.contains(['(', '<']) {
        return full.to_owned();
    }
    let name = Brackets::new(full);
    let (start, end) = name.function();
    if let Some(fitting) = name.fit(start, end, room) {
        return fitting;
    }
    // The function's path is too long. Its last parts are more important than its first ones.
    let path = name.separators(start, end, b"::");
    let room = room.saturating_sub(length(CUT));
    let fitting = path.iter().find_map(|separator| name.fit(*separator, end, room));
    match fitting {
        Some(fitting) => format!("{CUT}{fitting}"),
        None => {
            let last = path.last().map_or(start, |separator| separator + 2);
            let plain = name.plain(last, end);
            shown_within(&plain, room + length(CUT))
        }
    }
}

/// Returns a kernel's function name with its path. A C++ name loses its return type, parameters and
/// template arguments.
pub fn function(full: &str) -> String {
    let name = Brackets::new(full);
    let (start, end) = name.function();
    name.plain(start, end)
}

fn length(text: &str) -> usize {
    text.width()
}

/// A text with the positions of its matching brackets.
struct Brackets<'a> {
    text: &'a str,
    /// Index of the closing bracket for each byte that is an opening bracket. 0 for other bytes,
    /// and for brackets without a match.
    closing: Vec<usize>,
}

/// C++ operators that contain bracket characters, longer ones first.
const OPERATORS: [&[u8]; 11] =
    [b"<=>", b"<<=", b">>=", b"->*", b"<<", b">>", b"<=", b">=", b"->", b"()", b"[]"];

/// Returns the length in bytes of the operator at the start of `text`, if it contains bracket
/// characters. Otherwise returns 0.
fn operator_length(text: &[u8]) -> usize {
    let known = OPERATORS.iter().find(|operator| text.starts_with(operator));
    match (known, text.first()) {
        (Some(operator), _) => operator.len(),
        (None, Some(b'<' | b'>')) => 1,
        _ => 0,
    }
}

impl<'a> Brackets<'a> {
    fn new(text: &'a str) -> Self {
        let bytes = text.as_bytes();
        let mut closing = vec![0; bytes.len()];
        let mut open: Vec<usize> = Vec::new();
        let mut index = 0;
        while index < bytes.len() {
            let before = index.checked_sub(1).map_or(b' ', |before| bytes[before]);
            if is_operator_word(bytes, index) {
                index += b"operator".len();
                index += operator_length(&bytes[index..]);
                continue;
            }
            match bytes[index] {
                b'(' | b'[' | b'{' => open.push(index),
                // After a space, this character is a comparison.
                b'<' if before != b' ' => open.push(index),
                b'>' if before != b'-' => {
                    if let Some(start) = open.pop_if(|start| bytes[*start] == b'<') {
                        closing[start] = index;
                    }
                }
                close @ (b')' | b']' | b'}') => {
                    // Other open characters inside these brackets are not brackets.
                    let start = open.iter().rposition(|start| opens(bytes[*start], close));
                    if let Some(place) = start {
                        closing[open[place]] = index;
                        open.truncate(place);
                    }
                }
                _ => {}
            }
            index += 1;
        }
        Self { text, closing }
    }

    /// Returns the index of the closing bracket for the one at `index`.
    fn close(&self, index: usize) -> Option<usize> {
        Some(self.closing[index]).filter(|close| *close != 0)
    }

    /// Returns the range of the function's name without return type and parameters. Returns the
    /// whole range if it is not a function.
    fn function(&self) -> (usize, usize) {
        let bytes = self.text.as_bytes();
        let mut parameters = None;
        let mut index = 0;
        while index < bytes.len() {
            let Some(close) = self.close(index) else {
                index += 1;
                continue;
            };
            let is_attached = index > 0 && bytes[index - 1] != b' ';
            if bytes[index] == b'(' && is_attached && !bytes[close + 1..].starts_with(b"::") {
                parameters = Some(index);
            }
            index = close + 1;
        }
        let Some(end) = parameters else { return (0, bytes.len()) };
        let spaces = self.separators(0, end, b" ");
        let of_return_type = |space: &&usize| {
            let symbols = |character: char| character.is_ascii_punctuation() && character != '_';
            !self.text[..**space].trim_end_matches(symbols).ends_with("operator")
        };
        (spaces.iter().rfind(of_return_type).map_or(0, |space| space + 1), end)
    }

    /// Returns the positions of the separator between `start` and `end`, outside of all brackets.
    fn separators(&self, start: usize, end: usize, separator: &[u8]) -> Vec<usize> {
        let bytes = self.text.as_bytes();
        let mut found = Vec::new();
        let mut index = start;
        while index < end {
            if bytes[index..end].starts_with(separator) {
                found.push(index);
            }
            index = self.close(index).unwrap_or(index) + 1;
        }
        found
    }

    /// Returns the text without brackets and their content.
    fn plain(&self, start: usize, end: usize) -> String {
        let mut plain = String::new();
        let (mut index, mut from) = (start, start);
        while index < end {
            if let Some(close) = self.close(index) {
                plain.push_str(&self.text[from..index]);
                (index, from) = (close, close + 1);
            }
            index += 1;
        }
        plain.push_str(&self.text[from..end]);
        plain
    }

    /// Returns the outermost pairs of brackets between `start` and `end`.
    fn groups(&self, start: usize, end: usize) -> Vec<(usize, usize)> {
        let mut groups = Vec::new();
        let mut index = start;
        while index < end {
            if let Some(close) = self.close(index) {
                groups.push((index, close));
                index = close;
            }
            index += 1;
        }
        groups
    }

    /// Shortens the text to at most `room` characters by omitting content of brackets, last
    /// arguments first. Returns `None` if it does not fit even with empty brackets. The recursion
    /// depth is limited by `room`.
    fn fit(&self, start: usize, end: usize, room: usize) -> Option<String> {
        let whole = &self.text[start..end];
        let groups = self.groups(start, end);
        if length(whole) <= room {
            return Some(whole.to_owned());
        }
        let smallest = |group: &(usize, usize)| CUT_GROUP.min(group.1 + 1 - group.0);
        let least = length(&self.plain(start, end)) + groups.iter().map(smallest).sum::<usize>();
        let mut spare = room.checked_sub(least)?;
        let mut text = String::new();
        let mut from = start;
        for group in groups {
            let smallest = smallest(&group);
            let fitting = self.fit_group(group, spare + smallest);
            spare -= length(&fitting).saturating_sub(smallest).min(spare);
            text.push_str(&self.text[from..group.0]);
            text.push_str(&fitting);
            from = group.1 + 1;
        }
        text.push_str(&self.text[from..end]);
        Some(text)
    }

    /// Returns a pair of brackets with as many of its first arguments as fit into `room`
    /// characters. `room` is at least three unless the whole group is shorter.
    fn fit_group(&self, (open, close): (usize, usize), room: usize) -> String {
        if length(&self.text[open..=close]) <= room {
            return self.text[open..=close].to_owned();
        }
        let mut text = self.text[open..=open].to_owned();
        // Space is reserved for the closing bracket and for [`CUT`].
        let mut spare = room.saturating_sub(length(&text) + 1 + length(CUT));
        let mut start = open + 1;
        for comma in self.separators(open + 1, close, b",") {
            let rest = spare.checked_sub(", ".len());
            let Some(argument) = rest.and_then(|room| self.fit(start, comma, room)) else { break };
            spare -= length(&argument) + ", ".len();
            text.push_str(&argument);
            text.push_str(", ");
            start = comma + 1;
            start += usize::from(self.text[start..close].starts_with(' '));
        }
        // The last or only argument may use the space reserved for [`CUT`].
        let last_room = spare + length(CUT);
        let is_last = self.separators(start, close, b",").is_empty();
        let last = is_last.then(|| self.fit(start, close, last_room)).flatten();
        let is_only = is_last && start == open + 1;
        let last = last.or_else(|| is_only.then(|| self.cut(start, close, last_room)).flatten());
        text.push_str(last.as_deref().unwrap_or(CUT).trim_end());
        text.push_str(&self.text[close..=close]);
        text
    }
}

impl Brackets<'_> {
    /// Truncates a text without brackets to `room` characters, if enough of it remains to
    /// distinguish it. CUTLASS kernels differ only in their single argument.
    fn cut(&self, start: usize, end: usize, room: usize) -> Option<String> {
        let is_plain = self.groups(start, end).is_empty();
        let kept = room.checked_sub(length(CUT)).filter(|kept| is_plain && *kept >= LEAST_CUT)?;
        Some(self.text[start..end].chars().take(kept).chain(CUT.chars()).collect())
    }
}

/// Returns `true` if the word `operator` begins at `index`.
fn is_operator_word(bytes: &[u8], index: usize) -> bool {
    const WORD: &[u8] = b"operator";
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    bytes[index..].starts_with(WORD)
        && !index.checked_sub(1).and_then(|before| bytes.get(before)).is_some_and(is_part)
        && !bytes.get(index + WORD.len()).is_some_and(is_part)
}

fn opens(open: u8, close: u8) -> bool {
    matches!((open, close), (b'(', b')') | (b'[', b']') | (b'{', b'}'))
}

#[cfg(all(test, not(loom)))]
mod tests;
