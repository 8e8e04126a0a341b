//! Row order of slices, and the step in which each slice began.

use crate::host::steps::{Step, StepOf};
use crate::trace::Trace;

/// Slices ordered by start. Slices with equal starts keep the order of the trace.
pub(super) struct Order<'a> {
    pub(super) places: Vec<u32>,
    /// Row number of each slice, by its index in the trace.
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

    /// Returns the row number of a slice.
    pub(super) fn number(&self, place: usize) -> i64 {
        self.numbers[place].into()
    }

    /// Returns the number of the step in which a slice began.
    pub(super) fn step(&self, place: usize) -> Option<u64> {
        self.steps.number(self.trace.slices[place].start)
    }
}
