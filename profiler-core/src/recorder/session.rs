//! A stage, or the time outside of any: the tables of its threads and the stages inside it.

use std::collections::HashMap;
use std::sync::Arc;

use super::Table;
use super::attach::{ThreadTable, next_number};
use super::collected::Part;
use super::regions::Regions;
use super::steps::Steps;
use crate::{Stage, UnattributedWork};
use mlprof_events::startup::ProcessStartup;
use mlprof_events::{OfStage, Stages};

/// Maximum number of names for ended threads. It keeps memory independent of the number of threads.
const ENDED_NAMES: usize = 256;

pub(super) struct Sessions<T: Table> {
    /// Running sessions, never empty. If no stage runs, this holds the session outside of any
    /// stage.
    pub(super) running: Stages<Session<T>>,
    /// Stage that ended last, until another session has data to report.
    pub(super) finished: Option<Session<T>>,
}

pub(super) struct Session<T: Table> {
    pub(super) number: u64,
    /// Stage of the session, or `None` outside of any stage.
    pub(super) stage: Option<Stage>,
    pub(super) started: u64,
    pub(super) ended: Option<u64>,
    /// Process start-up times, if this session's report shows them.
    pub(super) startup: Option<ProcessStartup>,
    pub(super) tables: Vec<Arc<ThreadTable<T>>>,
    pub(super) ended_threads: HashMap<String, EndedThreads<T::Snapshot>>,
    /// Device regions, which belong to no thread.
    pub(super) regions: Regions,
    /// Device time of actions, if it is measured.
    pub(super) device_time: Regions,
    /// Durations of steps.
    pub(super) steps: Steps,
    /// Work that no profiler received while this one was active.
    pub(super) unattributed: Vec<Arc<UnattributedWork>>,
    /// Notes about the stage, without duplicates.
    pub(super) notes: Vec<String>,
    /// Ended stages inside this one.
    pub(super) inner: Vec<Session<T>>,
}

#[derive(Default)]
pub(super) struct EndedThreads<S> {
    threads: u64,
    unfinished: u64,
    missed: u64,
    snapshot: S,
}

impl<T: Table> Sessions<T> {
    /// Returns the index of the running session that a report made now covers.
    pub(super) fn reported(&self) -> usize {
        self.running.reported().unwrap_or(0)
    }
}

impl<T: Table> OfStage for Session<T> {
    fn stage(&self) -> Option<Stage> {
        self.stage
    }
}

impl<T: Table> Session<T> {
    pub(super) fn new(stage: Option<Stage>, started: u64) -> Self {
        Self {
            number: next_number(),
            stage,
            started,
            ended: None,
            startup: None,
            tables: Vec::new(),
            ended_threads: HashMap::new(),
            regions: Regions::default(),
            device_time: Regions::default(),
            steps: Steps::default(),
            unattributed: Vec::new(),
            notes: Vec::new(),
            inner: Vec::new(),
        }
    }

    pub(super) fn startup(&self) -> Option<ProcessStartup> {
        self.startup.or_else(|| self.inner.iter().find_map(Self::startup))
    }

    /// Returns `true` if the session is outside of any stage and has recorded nothing yet.
    pub(super) fn is_idle(&self) -> bool {
        self.stage.is_none()
            && self.tables.is_empty()
            && self.ended_threads.is_empty()
            && self.regions.is_empty()
            && self.device_time.is_empty()
    }

    /// Merges the tables of ended threads, so that memory depends only on the live threads.
    pub(super) fn fold_ended_threads(&mut self) {
        let (ended, alive): (Vec<_>, Vec<_>) =
            self.tables.drain(..).partition(|table| table.has_ended());
        self.tables = alive;
        for table in ended {
            let mut name = table.thread.name.clone();
            if table.thread.is_made_up {
                name = "unnamed threads".to_owned();
            }
            if self.ended_threads.len() >= ENDED_NAMES && !self.ended_threads.contains_key(&name) {
                name = "other threads".to_owned();
            }
            let entry = self.ended_threads.entry(name).or_default();
            entry.threads += 1;
            entry.unfinished += table.table.stack().open().len() as u64;
            entry.missed += table.table.stack().missed();
            T::merge(&mut entry.snapshot, &table.table.snapshot());
        }
    }

    pub(super) fn collect_into(
        &mut self,
        parts: &mut Vec<Part<T::Snapshot>>,
        sub_stage: Option<Stage>,
    ) {
        self.fold_ended_threads();
        for table in &self.tables {
            parts.push(Part {
                sub_stage,
                thread: table.thread.name.clone(),
                threads: 1,
                snapshot: table.table.snapshot(),
                open: table.table.stack().open(),
                unfinished: 0,
                missed: table.table.stack().missed(),
            });
        }
        for (name, ended) in &self.ended_threads {
            parts.push(Part {
                sub_stage,
                thread: name.clone(),
                threads: ended.threads,
                snapshot: ended.snapshot.clone(),
                open: Vec::new(),
                unfinished: ended.unfinished,
                missed: ended.missed,
            });
        }
        for inner in &mut self.inner {
            let stage = inner.stage;
            inner.collect_into(parts, stage);
        }
    }
}
