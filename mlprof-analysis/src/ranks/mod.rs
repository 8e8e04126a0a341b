//! Analysis of several ranks: common time line and slow ranks.

mod collectives;
mod cycles;
mod device;
mod fit;
pub(crate) mod groups;
mod judgement;
mod meetings;
pub(crate) mod stages;
#[cfg(test)]
mod synthetic_trace;
mod time_line;

use crate::Error;
use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use self::judgement::Judgement;
use self::meetings::Meetings;
pub use self::time_line::{Method, Offset};
use crate::answers::CollectiveTimes;
use crate::classify::Meanings;
use crate::host::steps;
use crate::trace::{Info, Trace};
use mlprof_report::ranks::median;
pub use mlprof_report::ranks::{Exposed, Stage, StageTable, Straggler, stragglers};

/// Data kept of a rank's trace for the multi-rank analysis. Its size depends on the numbers of
/// steps and collectives only.
#[derive(Debug, Clone)]
pub struct RankFacts {
    file: String,
    info: Info,
    meetings: Meetings,
    steps: Vec<(u64, [i64; stages::COUNT])>,
    collectives: collectives::OfRank,
    /// Start of the first slice and end of the last one, as Unix time in nanoseconds by the rank's
    /// own clock.
    window: (i64, i64),
    /// Device times of each step. `None` if the trace has no device work.
    devices: Option<Vec<(u64, [i64; device::COUNT])>>,
}

impl RankFacts {
    /// Returns the rank.
    pub fn rank(&self) -> u32 {
        self.info.rank
    }

    /// Extracts the data from the trace of a file.
    pub fn of(file: impl Into<String>, trace: &Trace) -> Self {
        let meanings = Meanings::of(trace);
        let steps = steps::find(trace, &meanings);
        let (base, (begin, end)) = (trace.info.base_ns, trace.window().unwrap_or((0, 0)));
        Self {
            file: file.into(),
            info: trace.info.clone(),
            meetings: meetings::meetings(trace, &meanings, &steps),
            steps: stages::of_steps(trace, &meanings, &steps),
            collectives: collectives::of_rank(trace, &meanings),
            window: (base.saturating_add(begin), base.saturating_add(end)),
            devices: device::of_steps(trace, &meanings, &steps),
        }
    }
}

/// File of a rank on the common time line.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Placed {
    /// Name of the file.
    pub file: String,
    /// Rank of the file.
    pub rank: u32,
    /// Host name of the machine, if the trace contains it.
    pub host: Option<String>,
    /// Unix time in nanoseconds at which the file's own time is zero.
    pub base_ns: i64,
    /// Offset to the reference clock.
    pub offset: Offset,
}

/// Device times of a rank: medians over the steps that all ranks have, in nanoseconds.
///
/// Work belongs to the step that launched it. Of several devices, the one with the longest
/// computation counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RankDevice {
    /// Rank of the device.
    pub rank: u32,
    /// Compute time in nanoseconds.
    pub compute_ns: i64,
    /// Time in nanoseconds in which the device only copies.
    pub memory_ns: i64,
    /// Time in nanoseconds in which the device communicates and does not compute.
    pub communication_ns: i64,
}

/// Multi-rank analysis.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ranks {
    /// Number of ranks in the training job, as stated in the traces.
    pub world_size: u32,
    /// Files by rank, in recorded order.
    pub files: Vec<Placed>,
    /// Ranks without a trace.
    pub missing: Vec<u32>,
    /// Number of steps that all present ranks have.
    pub common_steps: usize,
    /// Time that each stage adds to the steps. Empty for a single rank or without common steps.
    pub exposed: Vec<Exposed>,
    /// Total duration of the common steps in nanoseconds. Each step counts with its slowest rank.
    pub length_ns: i64,
    /// Device times of the common steps by rank. Empty if a rank's trace has no device work.
    pub devices: Vec<RankDevice>,
    /// Ranks that others wait for, judged by the work of their host or device. The slowest come
    /// first.
    pub stragglers: Vec<Straggler>,
    /// Collectives of several ranks, with the duration of the last rank to join.
    pub collectives: Vec<CollectiveTimes>,
    /// Reasons why ranks, or only their devices, could not be judged. Without stragglers and
    /// without such reasons, no rank is slow.
    pub not_judged: Vec<String>,
    /// Notes for the reader.
    pub notes: Vec<String>,
}

impl Ranks {
    /// Analyses the traces of several ranks.
    ///
    /// # Errors
    ///
    /// Returns an error if there are no traces, or if two traces have the same rank and cycle.
    pub fn of(traces: &[RankFacts]) -> Result<Self, Error> {
        let numbered = cycles::numbered(traces)?;
        let sorted: Vec<&RankFacts> = numbered.iter().collect();
        let sizes = sorted.iter().map(|one| one.info.world_size);
        let world_size = sizes.max().ok_or(Error::NoTraces)?;
        let files = sorted.iter().zip(time_line::offsets(&sorted)).map(|(one, offset)| Placed {
            file: one.file.clone(),
            rank: one.info.rank,
            host: one.info.host.clone(),
            base_ns: one.info.base_ns,
            offset,
        });
        let files: Vec<Placed> = files.collect();
        let there: BTreeSet<u32> = files.iter().map(|file| file.rank).collect();
        let missing = (0..world_size).filter(|rank| !there.contains(rank)).collect();
        let table = table(stages::stages(), &sorted, |one| one.steps.as_slice());
        let of_devices = table_of_devices(&sorted);
        let has_devices = sorted.iter().any(|one| one.devices.is_some());
        let judgement = Judgement::of(&table, of_devices.as_ref(), has_devices);
        Ok(Self {
            world_size,
            missing,
            common_steps: table.steps.len(),
            exposed: exposed(&table),
            length_ns: table.length(),
            collectives: collectives::met(&sorted),
            devices: of_devices.as_ref().map(devices).unwrap_or_default(),
            stragglers: judgement.stragglers,
            not_judged: judgement.not_judged,
            notes: notes(&sorted),
            files,
        })
    }
}

/// Stage durations of a rank's steps, by run stage and step number.
type Steps<'a, const STAGES: usize> = BTreeMap<(Option<&'a str>, u64), [i64; STAGES]>;

/// Returns the stage durations of each rank for the steps that all ranks have.
fn table<'a, const STAGES: usize>(
    stages: Vec<Stage>,
    traces: &[&'a RankFacts],
    steps: impl Fn(&'a RankFacts) -> &'a [(u64, [i64; STAGES])],
) -> StageTable {
    let mut ranks: BTreeMap<u32, Steps<'_, STAGES>> = BTreeMap::new();
    for one in traces {
        let of_rank = ranks.entry(one.info.rank).or_default();
        for (number, durations) in steps(one) {
            of_rank.insert((one.info.stage.as_deref(), *number), *durations);
        }
    }
    StageTable::of_common_steps(stages, &ranks, |(_, number)| *number)
}

/// Returns the device times of each rank for these steps. `None` if a trace has no device work.
fn table_of_devices(traces: &[&RankFacts]) -> Option<StageTable> {
    let is_complete = traces.iter().all(|one| one.devices.is_some());
    is_complete
        .then(|| table(device::stages(), traces, |one| one.devices.as_deref().unwrap_or_default()))
}

/// Returns the time that each stage adds to the steps. A single rank has no such times.
fn exposed(table: &StageTable) -> Vec<Exposed> {
    match table.ranks.len() < 2 || table.steps.is_empty() {
        true => Vec::new(),
        false => table.exposed(),
    }
}

/// Returns the median device times of each rank.
fn devices(table: &StageTable) -> Vec<RankDevice> {
    let middle = |rank: usize, part: usize| {
        median((0..table.steps.len()).map(|step| table.row(step, rank)[part]).collect())
    };
    let of_rank = |(place, rank): (usize, &u32)| RankDevice {
        rank: *rank,
        compute_ns: middle(place, 0),
        memory_ns: middle(place, 1),
        communication_ns: middle(place, 2),
    };
    let has_steps = !table.steps.is_empty();
    table.ranks.iter().enumerate().filter(|_| has_steps).map(of_rank).collect()
}

fn notes(traces: &[&RankFacts]) -> Vec<String> {
    let mut notes = Vec::new();
    for one in traces {
        if let Some(reason) = &one.info.cut_short {
            notes.push(format!("the end of {} is missing: {reason}", one.file));
        }
    }
    let sizes: Vec<u32> = traces.iter().map(|one| one.info.world_size).collect();
    if sizes.windows(2).any(|pair| pair[0] != pair[1]) {
        notes.push("the traces state different numbers of ranks".to_owned());
    }
    notes
}

#[cfg(test)]
mod tests;
