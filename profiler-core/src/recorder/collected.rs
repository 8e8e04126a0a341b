//! What a report is made of.

use std::collections::HashMap;
use std::sync::Arc;

use super::regions::{self, Regions};
use super::stack::Open;
use crate::report::regions::{DeviceRegion, DeviceTime};
use crate::report::steps::StepSeries;
use crate::{Stage, UnattributedWork};
use mlprof_events::clock::Rate;
use mlprof_events::startup::ProcessStartup;

/// One thread of one session, or the ended threads of one name.
pub(crate) struct Part<S> {
    pub(crate) sub_stage: Option<Stage>,
    pub(crate) thread: String,
    pub(crate) threads: u64,
    pub(crate) snapshot: S,
    pub(crate) open: Vec<Open>,
    /// Scopes that were open when their threads ended.
    pub(crate) unfinished: u64,
    /// Scopes that there was no memory for.
    pub(crate) missed: u64,
}

/// Everything that a report is made of. Times in ticks.
pub(crate) struct Collected<S> {
    pub(crate) stage: Option<Stage>,
    pub(crate) started: u64,
    pub(crate) ended: u64,
    pub(crate) rate: Rate,
    /// If this is the report that shows it.
    pub(crate) startup: Option<ProcessStartup>,
    pub(crate) parts: Vec<Part<S>>,
    /// Regions of devices, by the stage inside the reported one that they belong to.
    pub(crate) regions: Vec<(Option<Stage>, Regions)>,
    /// Device time of actions, by the stage inside the reported one that they belong to.
    pub(crate) device_time: Vec<(Option<Stage>, Regions)>,
    /// How long steps took, by stage.
    pub(crate) step_series: Vec<StepSeries>,
    pub(crate) lost: u64,
    /// What was told to nobody while the profiler was active.
    pub(crate) unattributed: Vec<Arc<UnattributedWork>>,
    /// Facts about the stage.
    pub(crate) notes: Vec<String>,
}

/// All parts of the threads of one name.
pub(crate) struct NamedThreads<'parts, S> {
    pub(crate) thread: &'parts str,
    /// How many threads these are. One that took part in a stage inside the reported one has a
    /// part for each of the two, and counts once.
    pub(crate) threads: u64,
    pub(crate) parts: Vec<&'parts Part<S>>,
}

impl<S> Collected<S> {
    /// The regions of devices as a report shows them.
    pub(crate) fn device_regions(&self) -> Vec<DeviceRegion> {
        regions::statistics(self.regions.iter().map(|(stage, regions)| (*stage, regions)))
    }

    /// Returns the device time of an action, by the stage inside the reported one and its name.
    pub(crate) fn device_times(&self) -> HashMap<(Option<Stage>, String), DeviceTime> {
        let stages = self.device_time.iter().map(|(stage, regions)| (*stage, regions));
        let rows = regions::statistics(stages).into_iter();
        rows.map(|row| ((row.sub_stage, row.action.clone()), DeviceTime::of(&row))).collect()
    }

    /// The parts by the name of their threads, in order of first occurrence.
    pub(crate) fn by_thread_name(&self) -> Vec<NamedThreads<'_, S>> {
        let mut groups: Vec<NamedThreads<'_, S>> = Vec::new();
        for part in &self.parts {
            match groups.iter_mut().find(|group| group.thread == part.thread) {
                Some(group) => group.parts.push(part),
                None => groups.push(NamedThreads {
                    thread: &part.thread,
                    threads: 0,
                    parts: vec![part],
                }),
            }
        }
        for group in &mut groups {
            let in_stage = |stage: Option<Stage>| -> u64 {
                let parts = group.parts.iter().filter(|part| part.sub_stage == stage);
                parts.map(|part| part.threads).sum()
            };
            let stages = group.parts.iter().map(|part| part.sub_stage);
            group.threads = stages.map(in_stage).max().unwrap_or(0);
        }
        groups
    }
}
