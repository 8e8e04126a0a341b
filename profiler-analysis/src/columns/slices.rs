//! Slices in the order in which they are written, and the steps that they began in.

use crate::host::steps::Step;
use crate::trace::Trace;

/// By their beginnings; those that begin together in the order of the trace.
pub(super) struct Order<'a> {
    pub(super) places: Vec<u32>,
    trace: &'a Trace,
    /// By their beginnings: beginning, end and number.
    steps: Vec<(i64, i64, u64)>,
}

impl<'a> Order<'a> {
    pub(super) fn of(trace: &'a Trace, steps: &[Step]) -> Self {
        let mut places: Vec<u32> = (0..trace.slices.len() as u32).collect();
        places.sort_by_key(|place| trace.slices[*place as usize].start);
        let steps = steps.iter().filter_map(|step| Some((step.start, step.end, step.number?)));
        Self { places, trace, steps: steps.collect() }
    }

    /// The step that a slice began in.
    pub(super) fn step(&self, place: usize) -> Option<u64> {
        let start = self.trace.slices[place].start;
        let after = self.steps.partition_point(|(from, ..)| *from <= start);
        let (_, end, number) = self.steps.get(after.checked_sub(1)?)?;
        (start < *end).then_some(*number)
    }
}
