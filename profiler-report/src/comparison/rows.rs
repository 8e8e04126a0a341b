//! Rows with a number each.

use rustc_hash::FxHashMap;

use super::spread::{Sample, Spread};
use super::{Limits, Subject, Unit};

/// The rows of one run.
#[derive(Debug, Default)]
pub(super) struct Rows {
    /// By what they are of, and their names.
    pub(super) samples: FxHashMap<(Subject, String), Sample>,
    /// By how much steps got slower and faster while the program ran: 1 where they did not.
    pub(super) drift: Option<Limits>,
}

impl Rows {
    /// What makes all steps slower for a while, such as other programs, does so to whatever runs in them:
    /// no time is known better than that of steps. (These know it already.)
    pub(super) fn drift_all(&mut self) {
        let Some(drift) = self.drift else { return };
        for ((subject, _), sample) in &mut self.samples {
            let is_time = subject.unit() == Unit::Seconds && *subject != Subject::Steps;
            if let (true, Spread::Known(limits)) = (is_time, &mut sample.spread) {
                *limits = Limits { low: limits.low * drift.low, high: limits.high * drift.high };
            }
        }
    }

    /// Adds a row. One of a name that there is already is added to that.
    pub(super) fn add(&mut self, subject: Subject, name: impl Into<String>, sample: Sample) {
        let there = self.samples.entry((subject, name.into()));
        there.and_modify(|sum| *sum = sum.plus(&sample)).or_insert(sample);
    }
}

/// Which part of a whole, 0 where there is nothing.
pub(super) fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { (part / whole).clamp(0.0, 1.0) } else { 0.0 }
}
