//! Aggregated results of all cycles of a stage.

mod averages;
mod counters;
mod fold;
mod idle;
mod kinds;
mod module_view;
mod modules;
mod steps;
#[cfg(all(test, not(loom)))]
mod tests;
mod threads;
mod tree;

pub(crate) use self::averages::place;

use rustc_hash::FxHashMap;

use self::counters::CounterSums;
use self::fold::{Bytes, Fold, Links, ModuleFinder};
use self::idle::IdleSums;
use self::threads::ThreadSums;
use self::tree::{NOWHERE, NodeId, PathKey, PathTree};
use crate::cycle::Cycle;
use crate::memory::keep_fullest;
use mlprof_events::clock::Rate;
use mlprof_events::{
    Action, ActionKind, DeviceActivity, DeviceEvent, GroupBy, MemoryDevice, ShapeList, Stage,
    TimingMethod, clock,
};
use mlprof_report::internals::StepLog;
use mlprof_report::steps::StepSeries;
use mlprof_report::tensor::{
    CycleSummary, DeviceCounterStatistics, DeviceIdle, DroppedEvents, KeyAverages, MemoryOverTime,
    RecordedThread, TuningSummary,
};

/// Maximum number of cycles to list separately. Further ones are only counted.
const CYCLES_LISTED: usize = 100;

/// Aggregated results of all cycles of a stage. The memory depends on the number of different
/// paths, not on the number of events.
pub struct Profile {
    /// Start of the stage in ticks.
    pub started: u64,
    tree: PathTree,
    memory: FxHashMap<(NodeId, MemoryDevice), Bytes>,
    /// Count and duration in ticks of compiling kernels and trying them out.
    tuning: FxHashMap<Action, (u64, u64)>,
    /// Count and duration in ticks of the driver's and CUPTI's own work.
    overhead: FxHashMap<Action, (u64, u64)>,
    counters: CounterSums,
    idle: IdleSums,
    threads: ThreadSums,
    steps: StepLog,
    /// Sums over all cycles.
    pub totals: Totals,
    /// Summaries of the first cycles.
    pub cycles: Vec<CycleSummary>,
    /// Memory by category, for each memory in the cycle with its highest use.
    pub memory_over_time: Vec<MemoryOverTime>,
    /// Summary of the latest cycle, whether it is listed or not.
    pub last_cycle: Option<CycleSummary>,
    /// End of the stage in ticks.
    ended: Option<u64>,
}
mlprof_events::debug_as_name!([] Profile);

/// Sums over all cycles.
#[derive(Debug, Clone, Default)]
pub struct Totals {
    /// Number of cycles.
    pub cycles: u64,
    /// Number of steps.
    pub steps: u64,
    /// Total duration of the cycles in seconds.
    pub seconds: f64,
    /// Number of events.
    pub events: u64,
    /// Number of forward ops that the framework numbered for a backward pass.
    pub tracked_ops: u64,
    /// Number of scopes that were still open when their cycle ended.
    pub unfinished: u64,
    /// Number of such scopes on other threads, which are not among the events.
    pub open_elsewhere: u64,
    /// Numbers of events that were dropped for lack of space.
    pub dropped: DroppedEvents,
    /// Number of device events that were timed by the host.
    pub timed_by_host: u64,
    /// Number of device events without times.
    pub not_timed: u64,
    /// Number of device events without a known cause.
    pub unattributed: u64,
    /// Sum of [`Cycle::kernels_told_twice`].
    pub told_twice: u64,
}

impl Default for Profile {
    fn default() -> Self {
        Self {
            started: clock::ticks(),
            tree: PathTree::default(),
            memory: FxHashMap::default(),
            tuning: FxHashMap::default(),
            overhead: FxHashMap::default(),
            counters: CounterSums::default(),
            idle: IdleSums::default(),
            threads: ThreadSums::default(),
            steps: StepLog::default(),
            totals: Totals::default(),
            cycles: Vec::new(),
            memory_over_time: Vec::new(),
            last_cycle: None,
            ended: None,
        }
    }
}

impl Profile {
    /// Adds the data of `cycle`.
    pub fn add(&mut self, cycle: &Cycle) {
        let mut links = Links::default();
        for number in 1.. {
            let context = mlprof_events::Context::from_number(number);
            let Some(open) = context.and_then(|context| cycle.context(context)) else { break };
            links.contexts.push(self.tree.descend(open.actions));
        }
        let mut finder = ModuleFinder::new(&mut self.tree, &mut links);
        for track in cycle.tracks() {
            finder.track(track.events());
        }
        let mut fold = Fold::new(&mut self.tree, &mut self.memory, links);
        for track in cycle.tracks() {
            let outermost = fold.track(track.events(), track.memory_events());
            self.threads.add(track, outermost);
        }
        self.totals.tracked_ops += fold.tracked_ops;
        let (links, unfinished) = (fold.links, fold.unfinished);
        for step in fold.steps.take(&cycle.steps) {
            self.steps.add(step);
        }
        for event in &cycle.device_events {
            self.add_device_event(event, &links);
        }
        self.counters.add(cycle);
        self.idle.add(cycle);
        keep_fullest(&mut self.memory_over_time, cycle);
        self.totals.unfinished += unfinished;
        self.note(cycle);
    }

    fn note(&mut self, cycle: &Cycle) {
        let steps = cycle.steps.end.saturating_sub(cycle.steps.start);
        let wall_seconds = cycle.recorded_nanoseconds() as f64 * 1e-9;
        let totals = &mut self.totals;
        totals.cycles += 1;
        totals.steps += steps;
        totals.seconds += wall_seconds;
        totals.events += cycle.event_count() as u64;
        totals.open_elsewhere += cycle.open_elsewhere;
        totals.told_twice += cycle.kernels_told_twice;
        totals.dropped.events += cycle.dropped.events;
        totals.dropped.memory += cycle.dropped.memory;
        totals.dropped.device += cycle.dropped.device;
        let summary = CycleSummary {
            number: cycle.number,
            first_step: cycle.steps.start,
            steps,
            is_complete: cycle.is_complete,
            started_at: cycle.wall_time(cycle.started),
            wall_seconds,
            events: cycle.event_count() as u64,
        };
        if self.cycles.len() < CYCLES_LISTED {
            self.cycles.push(summary.clone());
        }
        self.last_cycle = Some(summary);
    }

    /// Ends the stage, if it has not ended.
    pub fn end(&mut self) {
        self.ended.get_or_insert_with(clock::ticks);
    }

    /// Returns the end of the stage in ticks, or the current time if it has not ended.
    pub fn ended(&self) -> u64 {
        self.ended.unwrap_or_else(clock::ticks)
    }

    /// Adds device work. It belongs to the scope around its launch, or to the scope that was open
    /// at its call site.
    fn add_device_event(&mut self, event: &DeviceEvent, links: &Links) {
        // Waiting is work of the host, and its calls are already in the table. The kernels of a
        // region are also in the table.
        if matches!(event.activity, DeviceActivity::Synchronization | DeviceActivity::Region) {
            return;
        }
        let duration = match event.method {
            TimingMethod::None => 0,
            _ => event.end.ticks().saturating_sub(event.start.ticks()),
        };
        if event.activity == DeviceActivity::Overhead {
            let (count, ticks) = self.overhead.entry(event.action).or_default();
            (*count, *ticks) = (*count + 1, *ticks + duration);
            return;
        }
        match event.method {
            TimingMethod::Device | TimingMethod::Driver => {}
            TimingMethod::Host => self.totals.timed_by_host += 1,
            TimingMethod::None => self.totals.not_timed += 1,
        }
        if event.activity == DeviceActivity::Tuning {
            let (count, ticks) = self.tuning.entry(event.action).or_default();
            *count += 1;
            *ticks += duration;
            return;
        }
        let launch = links.launches.get(&event.correlation).filter(|_| event.correlation != 0);
        let around = launch.map(|launch| self.tree.nodes[*launch as usize].key.parent);
        let parent = match (around.filter(|parent| *parent != NOWHERE), event.context) {
            (Some(parent), _) => parent,
            (None, Some(context)) => links.context(context),
            (None, None) => {
                self.totals.unattributed += 1;
                NOWHERE
            }
        };
        let id = self.tree.node(PathKey::plain(parent, event.action));
        self.tree.nodes[id as usize].calls.add(event.start.ticks(), duration);
    }

    /// Returns the table of all cycles. A report that needs several results must pass the same rate
    /// to all methods.
    pub fn key_averages(&self, group_by: &GroupBy, rate: Rate) -> KeyAverages {
        averages::key_averages(self, *group_by, rate)
    }

    /// Returns the driver's and CUPTI's own work on the host: each kind with its count and seconds,
    /// sorted by descending duration.
    pub fn driver_overhead(&self, rate: Rate) -> Vec<(Action, u64, f64)> {
        longest_first(&self.overhead, rate)
    }

    /// Returns the work of compiling kernels and trying them out.
    pub fn tuning(&self, rate: Rate) -> Vec<TuningSummary> {
        let summary = |(action, count, device_seconds): (Action, u64, f64)| TuningSummary {
            name: action.name().to_owned(),
            count,
            device_seconds,
        };
        longest_first(&self.tuning, rate).into_iter().map(summary).collect()
    }

    /// Returns the totals of each thread, sorted by descending duration.
    pub fn threads(&self, rate: Rate) -> Vec<RecordedThread> {
        self.threads.rows(rate)
    }

    /// Returns the statistics of the device counters.
    pub fn device_counters(&self, rate: Rate) -> Vec<DeviceCounterStatistics> {
        self.counters.statistics(rate)
    }

    /// Returns the idle times of devices, grouped by cause.
    pub fn device_idle(&self) -> Vec<DeviceIdle> {
        self.idle.statistics()
    }

    /// Returns the durations of the recorded steps, if there are any. `stage` is the stage of the
    /// steps.
    pub fn step_series(&self, stage: Option<Stage>, rate: Rate) -> Vec<StepSeries> {
        let series = self.steps.series(stage, self.started, |ticks| rate.seconds(ticks));
        if self.steps.is_empty() { Vec::new() } else { vec![series] }
    }

    /// Returns `true` if there were calls of this kind.
    pub fn has(&self, kind: ActionKind) -> bool {
        self.tree.nodes.iter().any(|node| node.kind == kind && node.calls.measured() > 0)
    }

    /// Returns `true` if any memory was allocated or freed.
    pub fn has_memory(&self) -> bool {
        !self.memory.is_empty()
    }

    /// Returns `true` if there was not enough space to distinguish all paths and shapes.
    pub fn is_full(&self) -> bool {
        self.tree.is_full() || ShapeList::are_full()
    }
}

impl Cycle {
    /// Returns the table of this cycle alone. *Cost*: about 50 ns per event.
    pub fn key_averages(&self, group_by: &GroupBy) -> KeyAverages {
        let mut profile = Profile::default();
        profile.add(self);
        profile.key_averages(group_by, Rate::now())
    }
}

/// Converts counts and ticks by action to counts and seconds, sorted by descending duration and
/// then by name.
fn longest_first(sums: &FxHashMap<Action, (u64, u64)>, rate: Rate) -> Vec<(Action, u64, f64)> {
    let row =
        |(action, (count, ticks)): (&Action, &(u64, u64))| (*action, *count, rate.seconds(*ticks));
    let mut rows: Vec<_> = sums.iter().map(row).collect();
    rows.sort_by(|one, other| {
        other.2.total_cmp(&one.2).then_with(|| one.0.name().cmp(other.0.name()))
    });
    rows
}
