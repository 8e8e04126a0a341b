//! Rows with a number each.

use rustc_hash::FxHashMap;

use super::dependence::{self, Dependence};
use super::spread::{Sample, Spread};
use super::uncertainty::Uncertainty;
use super::{Subject, Unit};

/// The rows of one run.
#[derive(Debug, Default)]
pub(super) struct Rows {
    /// By what they are of, and their names.
    pub(super) samples: FxHashMap<(Subject, String), Sample>,
    /// How much the steps of the run depend on each other, and how well their median is known;
    /// `None` where the run knows of no single steps.
    pub(super) steps: Option<(Dependence, Uncertainty)>,
}

impl Rows {
    /// What makes steps slower for a while, such as other programs, does so to whatever runs in
    /// them: no time is known better than by calls that depend on each other as much, and drift as
    /// much. (Rows of steps have that already.)
    pub(super) fn take_steps_into_account(&mut self) {
        let (dependence, steps) = self.steps.unzip();
        let dependence = dependence.unwrap_or(dependence::UNKNOWN);
        for ((subject, _), sample) in &mut self.samples {
            let is_time = subject.unit() == Unit::Seconds && *subject != Subject::Steps;
            if let (true, Spread::Known(uncertainty)) = (is_time, &mut sample.spread) {
                *uncertainty = uncertainty.in_run(dependence, steps.as_ref());
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
