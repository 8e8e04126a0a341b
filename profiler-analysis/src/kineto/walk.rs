//! From one event of a trace's text to the next.

use std::io::{self, Read};

use serde_json::Value;

use super::stream::{JsonStream, Next};

/// Who wants to see a trace's text.
pub(super) trait Visit {
    /// A field of the trace that is not its events.
    fn field(&mut self, name: &str, value: &Value);

    /// An event: what this text begins with. Whether it was understood, and how long it is.
    fn event(&mut self, text: &[u8]) -> (Result<bool, serde_json::Error>, usize);
}

/// How far it went.
#[derive(Debug, Default)]
pub(super) struct Walked {
    /// Whether there is a list of events.
    pub(super) is_trace: bool,
    /// Events that were not understood.
    pub(super) not_understood: u64,
    /// Why the end is missing, if it is.
    pub(super) cut_short: Option<String>,
}

/// Shows all of a text to `visit`, as far as it can be read.
pub(super) fn walk<R: Read>(text: R, visit: &mut impl Visit) -> io::Result<Walked> {
    let mut walk = Walk { json: JsonStream::new(text), walked: Walked::default() };
    walk.document(visit)?;
    Ok(walk.walked)
}

struct Walk<R> {
    json: JsonStream<R>,
    walked: Walked,
}

impl<R: Read> Walk<R> {
    fn document(&mut self, visit: &mut impl Visit) -> io::Result<()> {
        if self.json.take(b'[') {
            self.walked.is_trace = true;
            self.events(visit);
            return Ok(());
        }
        if !self.json.take(b'{') {
            return self.json.failure().map_or(Ok(()), Err);
        }
        // As long as there are fields.
        while self.json.peek() == Some(b'"') {
            let Next::Value(field) = self.json.owned::<String>() else { break };
            if !self.json.take(b':') {
                break;
            }
            if field == "traceEvents" {
                if !self.json.take(b'[') {
                    return Ok(());
                }
                self.walked.is_trace = true;
                self.events(visit);
                if self.walked.cut_short.is_some() {
                    return Ok(());
                }
            } else if !self.field(&field, visit) {
                break;
            }
            if !self.json.take(b',') {
                break;
            }
        }
        if !self.json.take(b'}') && self.walked.is_trace {
            self.cut("the file ends early");
        }
        Ok(())
    }

    /// A field that is not the events; `false` if the text cannot be read on.
    fn field(&mut self, field: &str, visit: &mut impl Visit) -> bool {
        match self.json.owned::<Value>() {
            Next::Value(value) => {
                visit.field(field, &value);
                true
            }
            Next::Another => true,
            Next::Ended | Next::Broken(_) => false,
        }
    }

    /// All events up to the end of the list.
    fn events(&mut self, visit: &mut impl Visit) {
        loop {
            match self.json.peek() {
                Some(b']') => {
                    self.json.take(b']');
                    return;
                }
                None => return self.cut("the file ends in the middle of the events"),
                Some(_) => {}
            }
            match self.json.value(|text| visit.event(text)) {
                Next::Value(is_understood) => {
                    self.walked.not_understood += u64::from(!is_understood);
                }
                Next::Another => self.walked.not_understood += 1,
                Next::Ended => return self.cut("the file ends in the middle of an event"),
                Next::Broken(error) => {
                    // Its own line and column are of a part of the text.
                    let position = self.json.position();
                    let error = error.to_string();
                    let what = error.split(" at line ").next().unwrap_or_default();
                    return self.cut(&format!("no JSON at byte {position}: {what}"));
                }
            }
            self.json.take(b',');
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
