//! Combination of several profilers into one.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::guarded::guarded;
use crate::output::RenderedReport;
use crate::profiler::{Inner, is_open};
use crate::report::internals::{deliver_together, tell_apart};
use crate::{
    Action, ActionKind, Interest, NeverStarted, Output, Profiler, ProfilerExt, Report, RunContext,
    Stage,
};
use mlprof_events::{Observation, OpStart, interest_changes};

/// Forwards events to several profilers, each according to its interest.
/// [`describe`](Profiler::describe) delivers every part's report. Methods with a single result,
/// such as [`report`](Profiler::report) and [`output`](Profiler::output), return that of the first
/// part that has one. Use [`parts`](ProfilerExt::parts) for the other results.
///
/// Every function that takes a profiler also takes several: `"simple+nvtx"`, `["simple", "tensor"]`
/// or a tuple of different profiler types. They can also be combined by hand:
///
/// ```
/// use mlprof_core::{AdvancedProfiler, MultiProfiler, Profiler, ProfilerExt, SimpleProfiler};
/// use std::sync::Arc;
///
/// let simple = Arc::new(SimpleProfiler::new());
/// let advanced: Arc<dyn Profiler> = Arc::new(AdvancedProfiler::new());
/// let both = MultiProfiler::new([simple.clone(), advanced]);
/// drop(both.profile("load_data"));
/// assert!(simple.summary().contains("load_data"));
/// assert!(both.parts()[1].summary().contains("Profile stats for: load_data"));
/// ```
///
/// *Files*: profilers with the same [`filename`](crate::Output::filename) and directory add their
/// kind to their file names, which would otherwise be equal: `fit-run-simple.txt`,
/// `fit-run-advanced.txt`. Profilers of the same kind also add a number: `fit-run-simple-2.txt`.
///
/// *Cost*: what the parts cost, and for each start and stop a look at the action's kind (a few ns).
/// Parts are asked for their [`interest`](Profiler::interest) only when some profiler said that its
/// own changed, and at steps and stages.
pub struct MultiProfiler {
    parts: Vec<Arc<dyn Profiler>>,
    /// The parts if there are exactly two, which is the common case.
    pair: Option<Pair>,
    /// Set if the last part receives all events, even if another profiler is active.
    last_is_beside: bool,
    /// Cached interests of the first parts: one [group](group_of) of bits each for actions,
    /// functions and ops. The upper 32 bits hold the value of [`interest_changes`] at the time of
    /// the query. 0 means that the interests must be queried.
    wanted: AtomicU64,
}

/// Direct pointers to two profilers. They avoid the indirection through `Arc`, which computes each
/// value's address from its vtable.
struct Pair([NonNull<dyn Profiler>; 2]);

impl Pair {
    /// Returns the pair of two parts. The caller must keep the parts alive as long as the pair.
    fn of(parts: &[Arc<dyn Profiler>]) -> Option<Self> {
        let [first, second] = parts else { return None };
        Some(Self([first, second].map(|part| NonNull::from(&**part))))
    }

    #[inline(always)]
    fn parts(&self) -> [&dyn Profiler; 2] {
        // SAFETY: `MultiProfiler` owns both `Arc`s in `parts`, and drops them together with this
        // pair. The value in an `Arc` never moves. Profilers are only used through shared
        // references, so no mutable alias exists.
        self.0.map(|part| unsafe { part.as_ref() })
    }
}

// SAFETY: the pair only gives shared references to profilers, and `Profiler` requires `Send +
// Sync`.
unsafe impl Send for Pair {}
// SAFETY: the pair only gives shared references to profilers, and `Profiler` requires `Send +
// Sync`.
unsafe impl Sync for Pair {}

impl MultiProfiler {
    /// Combines all `parts`. The first part receives starts first and stops last. Nested
    /// combinations are flattened, and duplicate parts are removed.
    pub fn new(parts: impl IntoIterator<Item = Arc<dyn Profiler>>) -> Self {
        let mut all = Vec::new();
        parts.into_iter().for_each(|part| add(part, &mut all));
        tell_apart(all.iter().filter_map(|part| part.output()));
        Self::of_parts(all, false)
    }

    /// Combines the profilers. Returns `None` for an empty list, and the profiler itself if there
    /// is only one.
    pub(crate) fn of(mut parts: Vec<Arc<dyn Profiler>>) -> Option<Arc<dyn Profiler>> {
        match parts.len() {
            0 | 1 => parts.pop(),
            _ => Some(Arc::new(Self::new(parts))),
        }
    }

    /// Combines a profiler with an attached one, which receives all events even if another profiler
    /// is active.
    pub(crate) fn beside(own: Arc<dyn Profiler>, beside: Arc<dyn Profiler>) -> Arc<dyn Profiler> {
        Arc::new(Self::of_parts(vec![own, beside], true))
    }

    fn of_parts(parts: Vec<Arc<dyn Profiler>>, last_is_beside: bool) -> Self {
        // Each part has its own guard, so a panic only disables that part.
        let parts: Vec<_> = parts.into_iter().map(guarded).collect();
        Self { pair: Pair::of(&parts), parts, last_is_beside, wanted: AtomicU64::new(0) }
    }

    /// Returns the parts without an attached one that receives all events.
    fn own_parts(&self) -> &[Arc<dyn Profiler>] {
        &self.parts[..self.parts.len() - usize::from(self.last_is_beside)]
    }

    /// Returns a bit mask of the first [`PARTS_OF_A_GROUP`] parts. A bit is set if the part is
    /// interested in actions of this kind.
    #[inline(always)]
    fn who_is_interested(&self, kind: ActionKind) -> u32 {
        let known = self.wanted.load(Ordering::Relaxed);
        let is_current = known >> 32 == u64::from(interest_changes());
        let wanted = if is_current { known as u32 } else { self.ask_all() };
        (wanted >> group_of(kind)) & ((1 << PARTS_OF_A_GROUP) - 1)
    }

    #[cold]
    fn ask_all(&self) -> u32 {
        // The counter is read first. A change during the queries therefore causes another query.
        let changes = interest_changes();
        let mut wanted = 0;
        for (place, part) in self.parts.iter().take(PARTS_OF_A_GROUP).enumerate() {
            let interest = part.interest();
            for kind in ActionKind::ALL {
                let is_interested = interest.contains(interest_in(kind));
                wanted |= u32::from(is_interested) << (place as u32 + group_of(kind));
            }
        }
        self.wanted.store((u64::from(changes) << 32) | u64::from(wanted), Ordering::Relaxed);
        wanted
    }

    /// Returns the parts that are interested in actions of this kind. It is used if there are not
    /// exactly two parts.
    fn told(&self, kind: ActionKind) -> impl DoubleEndedIterator<Item = &Arc<dyn Profiler>> {
        let wanted = self.who_is_interested(kind);
        let is_told = move |(place, part): &(usize, &Arc<dyn Profiler>)| match *place {
            ..PARTS_OF_A_GROUP => (wanted >> place) & 1 == 1,
            // Parts beyond the first `PARTS_OF_A_GROUP` have no bit, so their interest is queried.
            // Such long lists are rare.
            _ => part.interest().contains(interest_in(kind)),
        };
        self.parts.iter().enumerate().filter(is_told).map(|(_, part)| part)
    }

    /// Returns the parts for which `stage` counts as a stage. A sanity check only counts for parts
    /// that separate it.
    fn parts_with(&self, stage: Option<Stage>) -> impl Iterator<Item = &Arc<dyn Profiler>> {
        let is_for_all = stage != Some(Stage::SanityCheck);
        self.parts.iter().filter(move |part| is_for_all || part.separates_sanity_check())
    }

    /// Clears the cached interests of the parts.
    fn forget_interests(&self) {
        self.wanted.store(0, Ordering::Relaxed);
    }

    fn interested(
        &self,
        interest: Interest,
    ) -> impl DoubleEndedIterator<Item = &Arc<dyn Profiler>> {
        self.parts.iter().filter(move |part| part.interest().contains(interest))
    }
}

/// Adds a profiler, or its parts if it is a combination.
fn add(part: Arc<dyn Profiler>, all: &mut Vec<Arc<dyn Profiler>>) {
    if !part.parts().is_empty() {
        part.parts().iter().for_each(|inner| add(inner.clone(), all));
        return;
    }
    let part = guarded(part);
    if !all.iter().any(|known| Arc::ptr_eq(known, &part)) {
        all.push(part);
    }
}

/// Stops `action` in all parts. Returns an error only if none of them had started it.
fn stop_all<'parts>(
    parts: impl Iterator<Item = &'parts Arc<dyn Profiler>>,
    action: Action,
) -> Result<(), NeverStarted> {
    let mut stopped = Ok(());
    let mut is_stopped = false;
    for part in parts {
        match part.stop(action) {
            Ok(()) => is_stopped = true,
            Err(error) => stopped = Err(error),
        }
    }
    if is_stopped { Ok(()) } else { stopped }
}

/// Number of parts with a bit in each group.
const PARTS_OF_A_GROUP: usize = 10;

/// Bits of the two parts of a pair.
const FIRST: u32 = 1;
const SECOND: u32 = 1 << 1;

/// Returns the first bit of the group for actions of this kind.
#[inline(always)]
const fn group_of(kind: ActionKind) -> u32 {
    // The table is packed into one integer, so a lookup needs only one shift.
    const GROUPS: u64 = {
        let (mut groups, mut number) = (0, 0);
        while number < ActionKind::ALL.len() {
            let kind = ActionKind::ALL[number];
            let group = match interest_in(kind) {
                Interest::FUNCTIONS => 1,
                Interest::OPS => 2,
                _ => 0,
            };
            groups |= (group * PARTS_OF_A_GROUP as u64) << (kind as u32 * 8);
            number += 1;
        }
        groups
    };
    (GROUPS >> (kind as u32 * 8)) as u32 & 0xff
}

/// Returns the interest required for receiving actions of this kind.
const fn interest_in(kind: ActionKind) -> Interest {
    match kind {
        ActionKind::Function | ActionKind::Span => Interest::FUNCTIONS,
        ActionKind::Op | ActionKind::Launch | ActionKind::Kernel => Interest::OPS,
        ActionKind::Action | ActionKind::Module | ActionKind::Step => Interest::ACTIONS,
    }
}

impl Profiler for MultiProfiler {
    fn start(&self, action: Action) {
        let kind = action.kind();
        let Some(pair) = &self.pair else {
            return self.told(kind).for_each(|part| part.start(action));
        };
        let wanted = self.who_is_interested(kind);
        let [first, second] = pair.parts();
        if wanted & FIRST != 0 {
            first.start(action);
        }
        if wanted & SECOND != 0 {
            second.start(action);
        }
    }

    /// Stops `action` in the interested parts. Returns an error only if none of them had started
    /// it.
    fn stop(&self, action: Action) -> Result<(), NeverStarted> {
        // The last part to receive the start is the first to receive the stop.
        let kind = action.kind();
        let Some(pair) = &self.pair else { return stop_all(self.told(kind).rev(), action) };
        let wanted = self.who_is_interested(kind);
        let [first, second] = pair.parts();
        match (wanted & FIRST != 0, wanted & SECOND != 0) {
            (true, false) => first.stop(action),
            (false, true) => second.stop(action),
            (true, true) => {
                let stopped = second.stop(action);
                first.stop(action).or(stopped)
            }
            (false, false) => Ok(()),
        }
    }

    fn interest(&self) -> Interest {
        self.parts.iter().fold(Interest::NONE, |all, part| all | part.interest())
    }

    fn start_op(&self, op: &OpStart<'_>) {
        let without = OpStart { inputs: None, ..*op };
        for part in self.interested(Interest::OPS) {
            let has_shapes = part.interest().contains(Interest::SHAPES);
            part.start_op(if has_shapes { op } else { &without });
        }
    }

    fn observe(&self, observation: &Observation<'_>) {
        match (observation, observation.interest()) {
            // The attached last part does not belong to any training, so it does not need this
            // observation.
            (Observation::Unattributed(_), _) => {
                self.own_parts().iter().for_each(|part| part.observe(observation));
            }
            (_, Interest::NONE) => self.parts.iter().for_each(|part| part.observe(observation)),
            (_, wanted) => self.interested(wanted).for_each(|part| part.observe(observation)),
        }
        if let Observation::StepEnd | Observation::StepsPaused | Observation::StepsResumed =
            observation
        {
            self.forget_interests();
        }
    }

    fn setup(&self, stage: Stage, run: &RunContext) {
        self.parts_with(Some(stage)).for_each(|part| part.setup(stage, run));
        self.forget_interests();
    }

    fn teardown(&self, stage: Option<Stage>) {
        self.parts_with(stage).for_each(|part| part.teardown(stage));
        self.forget_interests();
    }

    fn summary(&self) -> String {
        let texts = self.parts.iter().map(|part| part.summary());
        texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
    }

    fn report(&self) -> Option<Report> {
        self.parts.iter().find_map(|part| part.report())
    }

    fn output(&self) -> Option<&Output> {
        self.parts.iter().find_map(|part| part.output())
    }

    /// Delivers the report of each part to its own output. Findings shared by several reports
    /// appear once on the console.
    fn describe(&self) {
        deliver_together(|| self.parts.iter().for_each(|part| part.describe()));
    }

    fn inner(&self) -> Inner<'_> {
        Inner::internals(self)
    }
}

impl crate::profiler::Internals for MultiProfiler {
    fn parts(&self) -> &[Arc<dyn Profiler>] {
        self.own_parts()
    }

    fn receivers(&self) -> &[Arc<dyn Profiler>] {
        &self.parts
    }

    fn is_enabled(&self) -> bool {
        self.parts.iter().any(|part| part.is_enabled())
    }

    /// Returns `true` if the action is open in any part.
    fn is_open(&self, action: Action) -> bool {
        self.interested(interest_in(action.kind())).any(|part| is_open(&**part, action))
    }

    fn separates_sanity_check(&self) -> bool {
        self.parts.iter().any(|part| part.separates_sanity_check())
    }

    fn render(&self) -> RenderedReport {
        RenderedReport::joined(self.parts.iter().map(|part| part.render()))
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
