//! Slices in the order in which they are written, and the steps that they began in.

use crate::host::steps::{Step, StepOf};
use crate::trace::Trace;

/// By their beginnings; those that begin together in the order of the trace.
pub(super) struct Order<'a> {
    pub(super) places: Vec<u32>,
    /// The number of each slice, by its place.
    numbers: Vec<u32>,
    trace: &'a Trace,
    steps: StepOf,
}

impl<'a> Order<'a> {
    pub(super) fn of(trace: &'a Trace, steps: &[Step]) -> Self {
        let mut places: Vec<u32> = (0..trace.slices.len() as u32).collect();
        places.sort_by_key(|place| trace.slices[*place as usize].start);
        let mut numbers = vec![0; places.len()];
        (0..).zip(&places).for_each(|(number, place)| numbers[*place as usize] = number);
        Self { places, numbers, trace, steps: StepOf::new(steps) }
    }

    /// The number of a slice in the tables.
    pub(super) fn number(&self, place: usize) -> i64 {
        self.numbers[place].into()
    }

    /// The step that a slice began in.
    pub(super) fn step(&self, place: usize) -> Option<u64> {
        self.steps.number(self.trace.slices[place].start)
    }
}
