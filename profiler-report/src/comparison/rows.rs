//! Rows with a number each.

use rustc_hash::FxHashMap;

use super::Subject;
use super::spread::Sample;

/// The rows of one run.
#[derive(Debug, Default)]
pub(super) struct Rows {
    /// By what they are of, and their names.
    pub(super) samples: FxHashMap<(Subject, String), Sample>,
}

impl Rows {
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
