//! Recorded data from which a report is made.

use std::collections::HashMap;
use std::sync::Arc;

use super::regions::{self, Regions};
use super::stack::Open;
use crate::report::regions::{DeviceRegion, DeviceTime};
use crate::report::steps::StepSeries;
use crate::{Stage, UnattributedWork};
use mlprof_events::clock::Rate;
use mlprof_events::startup::ProcessStartup;

/// Data of one thread in one session, or of all ended threads with the same name.
pub(crate) struct Part<S> {
    pub(crate) sub_stage: Option<Stage>,
    pub(crate) thread: String,
    pub(crate) threads: u64,
    pub(crate) snapshot: S,
    pub(crate) open: Vec<Open>,
    /// Number of scopes that were open when their threads ended.
    pub(crate) unfinished: u64,
    /// Number of scopes that were not recorded for lack of memory.
    pub(crate) missed: u64,
}

/// All data that a report is made from. Times are in ticks.
pub(crate) struct Collected<S> {
    pub(crate) stage: Option<Stage>,
    pub(crate) started: u64,
    pub(crate) ended: u64,
    pub(crate) rate: Rate,
    /// Process start-up times, if this report shows them.
    pub(crate) startup: Option<ProcessStartup>,
    pub(crate) parts: Vec<Part<S>>,
    /// Device regions, grouped by the nested stage that they belong to (`None`: the reported
    /// stage).
    pub(crate) regions: Vec<(Option<Stage>, Regions)>,
    /// Device time of actions, grouped by the nested stage that they belong to (`None`: the
    /// reported stage).
    pub(crate) device_time: Vec<(Option<Stage>, Regions)>,
    /// Durations of steps, by stage.
    pub(crate) step_series: Vec<StepSeries>,
    pub(crate) lost: u64,
    /// Work that no profiler received while this one was active.
    pub(crate) unattributed: Vec<Arc<UnattributedWork>>,
    /// Notes about the stage.
    pub(crate) notes: Vec<String>,
}

/// All parts of the threads with one name.
pub(crate) struct NamedThreads<'parts, S> {
    pub(crate) thread: &'parts str,
    /// Number of threads. A thread that also took part in a nested stage has a part in each stage
    /// and counts once.
    pub(crate) threads: u64,
    pub(crate) parts: Vec<&'parts Part<S>>,
}

impl<S> Collected<S> {
    /// Returns the statistics of device regions for a report.
    pub(crate) fn device_regions(&self) -> Vec<DeviceRegion> {
        regions::statistics(self.regions.iter().map(|(stage, regions)| (*stage, regions)))
    }

    /// Returns the device time of each action, keyed by nested stage and action name.
    pub(crate) fn device_times(&self) -> HashMap<(Option<Stage>, String), DeviceTime> {
        let stages = self.device_time.iter().map(|(stage, regions)| (*stage, regions));
        let rows = regions::statistics(stages).into_iter();
        rows.map(|row| ((row.sub_stage, row.action.clone()), DeviceTime::of(&row))).collect()
    }

    /// Groups the parts by thread name, in order of first occurrence.
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
