//! Comparison rows of one run, with one number each.

use rustc_hash::FxHashMap;

use super::dependence::{self, Dependence};
use super::spread::{Sample, Spread};
use super::uncertainty::Uncertainty;
use super::{Subject, Unit};

/// Comparison rows of one run.
#[derive(Debug, Default)]
pub(super) struct Rows {
    /// Numbers by subject and name of the row.
    pub(super) samples: FxHashMap<(Subject, String), Sample>,
    /// Serial dependence of the run's steps, and the uncertainty of their median. `None` if the run
    /// has no single steps.
    pub(super) steps: Option<(Dependence, Uncertainty)>,
}

impl Rows {
    /// Widens the uncertainty of all times by the dependence and the drift of the steps. An
    /// influence that slows steps for a while, such as another program, also slows everything that
    /// runs inside them. Rows of steps already include this effect.
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

    /// Adds a row. If a row with this name exists, the number is added to it.
    pub(super) fn add(&mut self, subject: Subject, name: impl Into<String>, sample: Sample) {
        let there = self.samples.entry((subject, name.into()));
        there.and_modify(|sum| *sum = sum.plus(&sample)).or_insert(sample);
    }
}

/// Returns `part / whole`, limited to 0 to 1. Returns 0 if `whole` is 0.
pub(super) fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { (part / whole).clamp(0.0, 1.0) } else { 0.0 }
}
