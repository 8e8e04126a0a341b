//! Traces of several ranks: on one time line, and who holds the others up.

mod collectives;
mod cycles;
mod device;
mod fit;
pub(crate) mod groups;
mod judgement;
#[cfg(test)]
mod made;
mod meetings;
pub(crate) mod stages;
mod time_line;

use crate::Error;
use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use self::judgement::Judgement;
use self::meetings::Meetings;
pub use self::time_line::{Method, Offset};
use crate::answers::CollectiveTimes;
use crate::host::steps;
use crate::meaning::Meanings;
use crate::trace::{Info, Trace};
use mlprof_report::ranks::median;
pub use mlprof_report::ranks::{Exposed, Stage, StageTable, Straggler, stragglers};

/// What is kept of a rank's trace to put it beside others: memory for its steps and collectives, not for what
/// is in them.
#[derive(Debug, Clone)]
pub struct RankFacts {
    file: String,
    info: Info,
    meetings: Meetings,
    steps: Vec<(u64, [i64; stages::COUNT])>,
    collectives: collectives::OfRank,
    /// When its first slice begins and its last one ends, in nanoseconds of Unix time by its own
    /// clock.
    window: (i64, i64),
    /// `None` if the trace has no work of devices.
    devices: Option<Vec<(u64, [i64; device::COUNT])>>,
}

impl RankFacts {
    /// Which rank it is.
    pub fn rank(&self) -> u32 {
        self.info.rank
    }

    /// What the trace of a file says.
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

/// A file among the others.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Placed {
    /// What it is called.
    pub file: String,
    /// The rank.
    pub rank: u32,
    /// The machine, if it says.
    pub host: Option<String>,
    /// Nanoseconds of Unix time at the zero of its times.
    pub base_ns: i64,
    /// What is added to its times.
    pub offset: Offset,
}

/// What a rank's device did for a step that all ranks have: medians of all such steps, in
/// nanoseconds.
///
/// Work belongs to the step that launched it. Of several devices, the one that computes the longest
/// counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RankDevice {
    /// The rank.
    pub rank: u32,
    /// Time in which it computes.
    pub compute_ns: i64,
    /// Time in which it copies and does nothing else.
    pub memory_ns: i64,
    /// Time in which it communicates and does not compute.
    pub communication_ns: i64,
}

/// Several ranks together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ranks {
    /// How many trained together, as they say themselves.
    pub world_size: u32,
    /// The files, by rank, in the order in which they were recorded.
    pub files: Vec<Placed>,
    /// Of which ranks there is nothing.
    pub missing: Vec<u32>,
    /// How many steps all ranks that are there have.
    pub common_steps: usize,
    /// What holds steps up, stage by stage; nothing of one rank alone, or without common steps.
    pub exposed: Vec<Exposed>,
    /// How long these steps took, each as long as the rank that took longest.
    pub length_ns: i64,
    /// What devices did for these steps, rank by rank; nothing if a rank's trace has no work of
    /// devices.
    pub devices: Vec<RankDevice>,
    /// Ranks that others wait for, by what the host or the device does itself. The slowest come
    /// first.
    pub stragglers: Vec<Straggler>,
    /// Collectives that several ranks took part in, each with the duration of the rank that came
    /// last.
    pub collectives: Vec<CollectiveTimes>,
    /// Why ranks could not be judged, or not by their devices. Without stragglers and without such
    /// reasons, no rank is slow.
    pub not_judged: Vec<String>,
    /// What a reader must know.
    pub notes: Vec<String>,
}

impl Ranks {
    /// What the traces of several ranks say together.
    ///
    /// # Errors
    ///
    /// If there are none, or two are of one rank and the same cycle.
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

/// Steps of a rank by their stage of the run and their number: what they went into.
type Steps<'a, const STAGES: usize> = BTreeMap<(Option<&'a str>, u64), [i64; STAGES]>;

/// Returns what each rank took for each stage of the steps that all of them have.
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

/// Returns the same of their devices. `None` if a trace has no work of devices.
fn table_of_devices(traces: &[&RankFacts]) -> Option<StageTable> {
    let is_complete = traces.iter().all(|one| one.devices.is_some());
    is_complete
        .then(|| table(device::stages(), traces, |one| one.devices.as_deref().unwrap_or_default()))
}

/// Returns what the stages are to blame for. One rank alone is last through nothing.
fn exposed(table: &StageTable) -> Vec<Exposed> {
    match table.ranks.len() < 2 || table.steps.is_empty() {
        true => Vec::new(),
        false => table.exposed(),
    }
}

/// Returns the medians of what the devices did.
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
            notes.push(format!("{} is cut short: {reason}", one.file));
        }
    }
    let sizes: Vec<u32> = traces.iter().map(|one| one.info.world_size).collect();
    if sizes.windows(2).any(|pair| pair[0] != pair[1]) {
        notes.push("the traces disagree on how many ranks there are".to_owned());
    }
    notes
}

#[cfg(test)]
mod tests;
