//! A trace with everything that its part of the graph needs.

use mlprof_events::names::waits_for_other_ranks;
use rustc_hash::FxHashMap;

use crate::answers::WorkKind;
use crate::classify::Meanings;
use crate::device::work::DeviceWork;
use crate::host::steps::{self, Step};
use crate::trace::{Category, Correlated, Trace};

/// A trace and its classification.
#[derive(Debug)]
pub(super) struct LoadedTrace<'a> {
    pub(super) trace: &'a Trace,
    pub(super) meanings: Meanings,
    pub(super) correlations: FxHashMap<u32, Correlated>,
    pub(super) work: DeviceWork,
    pub(super) steps: Vec<Step>,
    /// Index of the trace's first slice among the slices of all traces.
    pub(super) first_slice: u32,
}

impl<'a> LoadedTrace<'a> {
    pub(super) fn new(trace: &'a Trace, first_slice: u32) -> Self {
        let meanings = Meanings::of(trace);
        let correlations = trace.correlations();
        let work = DeviceWork::of(trace, &correlations);
        let steps = steps::find(trace, &meanings);
        Self { trace, meanings, correlations, work, steps, first_slice }
    }

    /// Returns `true` for a communication kernel, and for an action that waits for other ranks.
    pub(super) fn communicates(&self, place: usize) -> bool {
        let slice = &self.trace.slices[place];
        let is_marked = || {
            let details = self.trace.details(slice);
            waits_for_other_ranks(self.trace.name(slice))
                || details.is_some_and(|details| details.collective.is_some())
        };
        self.meanings.work(slice) == Some(WorkKind::Communication)
            || (slice.category == Category::UserAnnotation
                && !self.meanings.is_module(slice)
                && is_marked())
    }
}
