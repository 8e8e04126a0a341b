//! Traces of several ranks: on one time line, and who holds the others up.

mod collectives;
mod cycles;
#[cfg(test)]
mod made;
mod meetings;
pub(crate) mod stages;
pub(crate) mod text;
mod time_line;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use self::meetings::Meeting;
pub use self::time_line::{Method, Offset};
use crate::answers::CollectiveTimes;
use crate::host::steps;
use crate::meaning::Meanings;
use crate::trace::{Info, Trace};
use profiler_report::ranks::step_stages;
pub use profiler_report::ranks::{Exposed, Stage, StageTable, Straggler, stragglers};

/// What is kept of a rank's trace to put it beside others: memory for its steps and collectives, not for what
/// is in them.
#[derive(Debug, Clone)]
pub struct RankFacts {
    file: String,
    info: Info,
    meetings: Vec<Meeting>,
    steps: Vec<(u64, [i64; stages::COUNT])>,
    collectives: collectives::OfRank,
    /// When its first slice begins and its last one ends, in nanoseconds of Unix time by its own clock.
    window: (i64, i64),
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
        }
    }
}

/// Why traces cannot be put together.
#[derive(thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum RanksError {
    /// Two files of one rank and the same steps.
    #[error(
        "{first} and {second} are both of rank {rank}, and of the same cycle: leave one of them out"
    )]
    TwoOfOneRank {
        /// Which rank.
        rank: u32,
        /// A file of it.
        first: String,
        /// Another one.
        second: String,
    },
    /// Two files that do not state their rank, and that were recorded at the same time.
    #[error(
        "{first} and {second} do not state their rank (no distributedInfo, no rank in the file's \
         name): give it as RANK=FILE, such as 0={first} 1={second}"
    )]
    NoRank {
        /// A file.
        first: String,
        /// Another one.
        second: String,
    },
    /// There are no traces.
    #[error("there are no traces to be put together")]
    None,
}

profiler_events::debug_as_display!(RanksError);

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
    /// What holds steps up, stage by stage; nothing without common steps.
    pub exposed: Vec<Exposed>,
    /// How long these steps took, each as long as the rank that took longest.
    pub length_ns: i64,
    /// Ranks that others wait for.
    pub stragglers: Vec<Straggler>,
    /// Collectives that several ranks took part in, each with the duration of the rank that came last.
    pub collectives: Vec<CollectiveTimes>,
    /// What a reader must know.
    pub notes: Vec<String>,
}

impl Ranks {
    /// What the traces of several ranks say together.
    ///
    /// # Errors
    ///
    /// If there are none, or two are of one rank and the same cycle.
    pub fn of(traces: &[RankFacts]) -> Result<Self, RanksError> {
        let numbered = cycles::numbered(traces)?;
        let sorted: Vec<&RankFacts> = numbered.iter().collect();
        let sizes = sorted.iter().map(|one| one.info.world_size);
        let world_size = sizes.max().ok_or(RanksError::None)?;
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
        let table = table(&sorted);
        Ok(Self {
            world_size,
            missing,
            common_steps: table.steps.len(),
            exposed: if table.steps.is_empty() { Vec::new() } else { table.exposed() },
            length_ns: table.length(),
            stragglers: stragglers(&table),
            collectives: collectives::met(&sorted),
            notes: notes(&sorted),
            files,
        })
    }
}

/// Steps of a rank by their stage of the run and their number: what they went into.
type Steps<'a> = BTreeMap<(Option<&'a str>, u64), [i64; stages::COUNT]>;

/// What each rank took for each stage of the steps that all of them have.
fn table(traces: &[&RankFacts]) -> StageTable {
    let mut ranks: BTreeMap<u32, Steps<'_>> = BTreeMap::new();
    for one in traces {
        let of_rank = ranks.entry(one.info.rank).or_default();
        for (number, durations) in &one.steps {
            of_rank.insert((one.info.stage.as_deref(), *number), *durations);
        }
    }
    StageTable::of_common_steps(step_stages(), &ranks, |(_, number)| *number)
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
