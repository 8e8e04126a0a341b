//! Counts and descriptions of events that are missing in the trace.

use std::collections::BTreeMap;

use super::walk::Walked;
use crate::trace::Impossible;
use mlprof_report::number::grouped;

/// Maximum number of event kinds that are counted separately.
const MOST_KINDS: usize = 12;

/// Counts of events that did not become slices of the trace.
#[derive(Debug, Default)]
pub(super) struct Losses {
    /// Number of events without a time.
    pub(super) without_time: u64,
    /// Number of events with an impossible time or duration.
    pub(super) impossible: u64,
    /// Number of slices without a duration.
    pub(super) without_duration: u64,
    /// Number of slice beginnings without an end.
    pub(super) without_end: u64,
    /// Number of slice ends without a beginning.
    pub(super) without_beginning: u64,
    /// Number of instant events by kind.
    moments: BTreeMap<&'static str, u64>,
    /// Number of unsupported events by kind.
    kinds: BTreeMap<String, u64>,
}

impl Losses {
    /// Counts an instant event, which has no duration by nature.
    pub(super) fn moment(&mut self, kind: &'static str) {
        *self.moments.entry(kind).or_default() += 1;
    }

    /// Counts an event of an unsupported kind.
    pub(super) fn kind(&mut self, kind: &str) {
        let kind: String = kind.chars().take(8).collect();
        let is_known = self.kinds.len() < MOST_KINDS || self.kinds.contains_key(&kind);
        *self.kinds.entry(if is_known { kind } else { "…".to_owned() }).or_default() += 1;
    }

    /// Returns the number of events that should be in the trace but are missing.
    pub(super) fn count(&self, walked: &Walked, impossible: &Impossible) -> u64 {
        let slices = self.without_end + self.without_beginning;
        walked.not_understood + slices + impossible.apart + impossible.long
    }

    /// Returns sentences about the missing events.
    pub(super) fn notes(&self, walked: &Walked, impossible: &Impossible) -> Vec<String> {
        let mut notes = Vec::new();
        let mut note = |count: u64, text: &str| {
            if count > 0 {
                notes.push(format!("{} {text}", events(count)));
            }
        };
        let at = walked.first_unreadable.unwrap_or(0);
        note(walked.unreadable, &format!("left out: invalid JSON, first at byte {at}"));
        note(
            walked.repaired,
            "read despite invalid JSON (such as a bare nan or an unescaped quote): non-numeric values count \
             as unknown",
        );
        note(self.without_time, "left out: no time");
        note(
            self.impossible,
            "left out: an impossible time or duration (negative, or longer than a year)",
        );
        note(
            impossible.apart,
            "left out: a start time months or years away from most others, or 0 among absolute times",
        );
        note(
            impossible.long,
            "left out: a duration over 1,000 times that of the remaining trace, with an end outside the \
             enclosing slice",
        );
        note(self.without_duration, "counted as 0 s: no duration");
        note(self.without_end, "left out: a begin event (B, b or S) without an end event");
        note(self.without_beginning, "left out: an end event (E, e or F) without a begin event");
        for (kind, count) in &self.moments {
            note(*count, &format!("left out: a kind without durations ({kind})"));
        }
        for (kind, count) in &self.kinds {
            match kind.as_str() {
                "" => note(*count, "left out: no kind (\"ph\")"),
                kind => note(*count, &format!("left out: unsupported kind {kind:?}")),
            }
        }
        for field in &walked.bad_fields {
            notes.push(format!("the trace field {field:?} is not valid JSON"));
        }
        notes
    }
}

fn events(count: u64) -> String {
    match count {
        1 => "1 event was".to_owned(),
        count => format!("{} events were", grouped(count)),
    }
}
