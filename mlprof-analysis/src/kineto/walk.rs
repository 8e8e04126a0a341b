//! Traversal of a trace's text, event by event.

use std::io::{self, Read};

use serde_json::Value;

use super::boundaries::{is_end, is_event, is_later_field, is_no_stray};
use super::repair::{Repaired, repair};
use super::stream::{JsonStream, Next};

/// Receiver of the fields and events of a trace.
pub(super) trait Visit {
    /// Receives a top-level field other than the events.
    fn field(&mut self, name: &str, value: &Value);

    /// Receives the text that begins with an event. Returns whether the event was understood, and
    /// its length.
    fn event(&mut self, text: &[u8]) -> (Result<bool, serde_json::Error>, usize);
}

/// Fields that are passed to the visitor. All other fields are skipped and may have any length.
const FIELDS: [&str; 5] =
    ["distributedInfo", "baseTimeNanoseconds", "hostname", "mlprof", "deviceProperties"];
/// Maximum length in bytes of an event searched for after unreadable text. A shorter limit applies
/// to hostile texts.
const LONG_PROBE: usize = 1 << 20;
const SHORT_PROBE: usize = 1 << 10;
/// Number of bytes searched without success after which a text counts as hostile.
const MOST_PROBED: u64 = 64 << 20;
/// Maximum number of field names that are kept to identify the file format.
const MOST_NAMES: usize = 6;

/// Result of the traversal.
#[derive(Debug, Default)]
pub(super) struct Walked {
    /// `true` if the text has an event list.
    pub(super) is_trace: bool,
    /// Number of events, readable or not.
    pub(super) events: u64,
    /// Number of events that were not understood and pieces of text that are not events.
    pub(super) not_understood: u64,
    /// Part of `not_understood` that cannot be parsed at all.
    pub(super) unreadable: u64,
    /// Number of events that were read after a JSON repair.
    pub(super) repaired: u64,
    /// Byte position of the first unreadable piece.
    pub(super) first_unreadable: Option<u64>,
    /// Names of top-level fields with unreadable values.
    pub(super) bad_fields: Vec<String>,
    /// Names of the first fields.
    pub(super) fields: Vec<String>,
    /// First bytes of the text.
    pub(super) begins: Vec<u8>,
    /// Reason why the end of the text is missing, if it is.
    pub(super) cut_short: Option<String>,
}

/// Passes all readable parts of a text to `visit`.
pub(super) fn walk<R: Read>(text: R, visit: &mut impl Visit) -> io::Result<Walked> {
    let (json, walked) = (JsonStream::new(text), Walked::default());
    let mut walk = Walk { json, walked, is_damaged: false, probed: 0 };
    walk.document(visit)?;
    Ok(walk.walked)
}

struct Walk<R> {
    json: JsonStream<R>,
    walked: Walked,
    /// Set after unreadable text, because the following text may belong to it.
    is_damaged: bool,
    /// Number of bytes searched for events without success.
    probed: u64,
}

/// Next readable element after unreadable text.
enum NextElement {
    /// An event.
    Event,
    /// The end of the event list.
    End,
    /// The end of the text.
    Nothing,
}

impl<R: Read> Walk<R> {
    fn document(&mut self, visit: &mut impl Visit) -> io::Result<()> {
        self.json.fill();
        let rest = self.json.rest();
        self.walked.begins = rest[..rest.len().min(64)].to_vec();
        // The text starts with a byte order mark.
        if self.json.rest().starts_with(b"\xef\xbb\xbf") {
            self.json.advance(3);
        }
        if self.json.take(b'[') {
            self.walked.is_trace = true;
            self.events(visit);
            return Ok(());
        }
        if !self.json.take(b'{') {
            return self.json.failure().map_or(Ok(()), Err);
        }
        loop {
            while self.json.take(b',') {}
            match self.json.peek() {
                Some(b'"') => {}
                Some(b'}') => return Ok(()),
                _ => break,
            }
            let Some(name) = self.name() else {
                if self.next_field() {
                    continue;
                }
                break;
            };
            if self.walked.fields.len() < MOST_NAMES {
                self.walked.fields.push(name.chars().take(40).collect());
            }
            // Gigabytes of data may follow this field, so reading stops.
            if super::foreign::is_certain(&name) {
                return Ok(());
            }
            if name == "traceEvents" && self.json.take(b'[') {
                self.walked.is_trace = true;
                self.events(visit);
                if self.walked.cut_short.is_some() {
                    return Ok(());
                }
                continue;
            }
            let has_end = self.field(&name, visit);
            let is_whole = has_end && matches!(self.json.peek(), None | Some(b',' | b'}' | b'"'));
            if !is_whole {
                self.bad_field(&name);
                if !self.next_field() {
                    break;
                }
            }
        }
        if self.walked.is_trace {
            self.cut("the file ends early");
        }
        Ok(())
    }

    /// Reads the name of a field and its colon.
    fn name(&mut self) -> Option<String> {
        match self.json.owned::<String>() {
            Next::Value(name) => self.json.take(b':').then_some(name),
            Next::Another | Next::Ended | Next::Broken => None,
        }
    }

    /// Reads a field value that needs a JSON repair.
    fn repaired(&mut self) -> Option<Value> {
        loop {
            let is_all = self.json.is_all();
            match repair(self.json.rest(), is_all) {
                Repaired::Whole(json, length) => {
                    self.json.advance(length);
                    return serde_json::from_slice(&json).ok();
                }
                Repaired::Unfinished if !is_all && self.json.fill() => {}
                Repaired::Unfinished | Repaired::Hopeless => return None,
            }
        }
    }

    /// Reads a top-level field other than the events. Returns `false` if its end is unknown.
    fn field(&mut self, name: &str, visit: &mut impl Visit) -> bool {
        let is_wanted = FIELDS.contains(&name);
        let next = self.json.peek();
        if !is_wanted && matches!(next, Some(b'{' | b'[')) {
            let has_end = self.json.skip();
            // The event list began before this field ended.
            if has_end && self.json.peek() == Some(b'"') {
                self.bad_field(name);
            }
            return has_end;
        }
        let value = match self.json.owned::<Value>() {
            Next::Value(value) => Some(value),
            Next::Another => None,
            Next::Ended | Next::Broken => {
                self.bad_field(name);
                match self.repaired() {
                    Some(value) => Some(value),
                    None => return false,
                }
            }
        };
        if let Some(value) = value.filter(|_| is_wanted) {
            visit.field(name, &value);
        }
        true
    }

    fn bad_field(&mut self, name: &str) {
        let name: String = name.chars().take(80).collect();
        let fields = &mut self.walked.bad_fields;
        if fields.len() < MOST_NAMES && fields.last() != Some(&name) {
            fields.push(name);
        }
    }

    /// Skips to the next field with a known name. Returns `false` if there is none.
    fn next_field(&mut self) -> bool {
        loop {
            let rest = self.json.rest();
            let quotes = rest.iter().enumerate().skip(1).filter(|(_, byte)| **byte == b'"');
            let mut places = quotes.map(|(place, _)| place);
            if let Some(place) = places.find(|place| is_later_field(&rest[*place..])) {
                self.json.advance(place);
                return true;
            }
            // A field name may be split at the end of the buffer.
            let keep = rest.len().saturating_sub(64).max(1);
            self.json.advance(keep.min(rest.len()));
            if !self.json.fill() {
                return false;
            }
        }
    }

    /// Reads all events up to the end of the list.
    fn events(&mut self, visit: &mut impl Visit) {
        loop {
            match self.json.peek() {
                Some(b']') if self.is_end() => {
                    self.json.take(b']');
                    return;
                }
                // These are remains of unreadable text, or commas without an event.
                Some(b']' | b'}' | b',') => {
                    self.json.advance(1);
                    continue;
                }
                None => return self.cut("the file ends in the middle of the events"),
                Some(_) => {}
            }
            self.walked.events += 1;
            let position = self.json.position();
            match self.json.value(|text| visit.event(text)) {
                Next::Value(is_understood) => {
                    self.walked.not_understood += u64::from(!is_understood);
                }
                Next::Another => self.unreadable(position),
                Next::Ended | Next::Broken => {
                    if !self.event_repaired(visit) {
                        self.is_damaged = true;
                        self.json.distrust();
                        match self.after() {
                            NextElement::Event | NextElement::End => self.unreadable(position),
                            NextElement::Nothing => {
                                return self.cut("the file ends in the middle of an event");
                            }
                        }
                    }
                }
            }
        }
    }

    fn unreadable(&mut self, position: u64) {
        self.walked.not_understood += 1;
        self.walked.unreadable += 1;
        self.walked.first_unreadable.get_or_insert(position);
    }

    /// Reads an event that needs a JSON repair. Returns `false` and consumes no text if the repair
    /// fails.
    fn event_repaired(&mut self, visit: &mut impl Visit) -> bool {
        loop {
            let is_all = self.json.is_all();
            match repair(self.json.rest(), is_all) {
                Repaired::Whole(json, length) => {
                    match visit.event(&json).0 {
                        Ok(is_understood) => {
                            self.walked.repaired += 1;
                            self.walked.not_understood += u64::from(!is_understood);
                        }
                        Err(_) => {
                            let position = self.json.position();
                            self.unreadable(position);
                        }
                    }
                    self.json.advance(length);
                    return true;
                }
                Repaired::Unfinished if !is_all && self.json.fill() => {}
                Repaired::Unfinished | Repaired::Hopeless => return false,
            }
        }
    }

    /// Skips to the next readable element after unreadable text.
    fn after(&mut self) -> NextElement {
        let mut from = 1;
        loop {
            let (rest, is_over) = (self.json.rest(), self.json.is_over());
            let length = rest.len();
            let brackets = rest.iter().enumerate().skip(from);
            let mut brackets = brackets.map(|(place, byte)| (place, *byte));
            let found = brackets.find(|(_, byte)| matches!(byte, b'{' | b']'));
            let Some((place, bracket)) = found else {
                self.json.advance(length);
                from = 0;
                if !self.json.fill() {
                    return NextElement::Nothing;
                }
                continue;
            };
            let longest = if self.probed < MOST_PROBED { LONG_PROBE } else { SHORT_PROBE };
            let candidate = &rest[place..];
            let is_long = candidate.len() >= longest;
            let candidate = &candidate[..candidate.len().min(longest)];
            let is_it = match bracket {
                b'{' => is_event(candidate),
                _ => is_end(candidate, is_over && !is_long),
            };
            match is_it {
                Some(true) => {
                    self.json.advance(place);
                    return if bracket == b'{' { NextElement::Event } else { NextElement::End };
                }
                Some(false) => from = place + 1,
                None => {
                    self.probed += candidate.len() as u64;
                    self.json.advance(place);
                    // If no more text follows, the same bracket is examined again, now with that
                    // knowledge.
                    let has_more = !is_long && (self.json.fill() || !is_over);
                    from = usize::from(!has_more);
                }
            }
        }
    }

    /// Returns `true` if the next bracket ends the event list. After unreadable text, the bracket
    /// may belong to that text instead.
    fn is_end(&mut self) -> bool {
        loop {
            let (rest, is_over) = (self.json.rest(), self.json.is_over());
            let is_end =
                if self.is_damaged { is_end(rest, is_over) } else { is_no_stray(rest, is_over) };
            match is_end {
                Some(is_end) => return is_end,
                None if !self.json.fill() => return true,
                None => {}
            }
        }
    }

    fn cut(&mut self, reason: &str) {
        let reason = match self.json.failure() {
            Some(error) if error.kind() != io::ErrorKind::UnexpectedEof => error.to_string(),
            _ => reason.to_owned(),
        };
        self.walked.cut_short.get_or_insert(reason);
    }
}
