//! Several profilers as one.

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

/// Hands everything on to several profilers, to each what it is interested in. Each one's report comes
/// once, and what is asked of all is answered by the first that can: [`report`](Profiler::report) and
/// [`output`](Profiler::output) are its own, those of the others are had through
/// [`parts`](ProfilerExt::parts).
///
/// Whatever takes a profiler takes several: `"simple+nvtx"`, `["simple", "tensor"]`, a tuple of profilers
/// of several types. By hand:
///
/// ```
/// use mlprof_core::{AdvancedProfiler, MultiProfiler, Profiler, ProfilerExt, SimpleProfiler};
/// use std::sync::Arc;
///
/// let simple = Arc::new(SimpleProfiler::new());
/// let both = MultiProfiler::new([simple.clone(), Arc::new(AdvancedProfiler::new()) as Arc<dyn Profiler>]);
/// drop(both.profile("load_data"));
/// assert!(simple.summary().contains("load_data"));
/// assert!(both.parts()[1].summary().contains("Profile stats for: load_data"));
/// ```
///
/// *Files*: profilers that were given the same [`filename`](crate::Output::filename) and directory each
/// have their word in the names of all their files, which would be the same otherwise:
/// `fit-run-simple.txt`, `fit-run-advanced.txt`. Those of one kind are told apart by a number, too:
/// `fit-run-simple-2.txt`.
///
/// *Cost*: what the parts cost, and for each start and stop a look at the action's kind (a few ns). Parts are
/// asked for their [`interest`](Profiler::interest) only when some profiler said that its own
/// changed, and at steps and stages.
pub struct MultiProfiler {
    parts: Vec<Arc<dyn Profiler>>,
    /// The parts if there are two, as nearly everybody has.
    pair: Option<Pair>,
    /// Whether the last part is told of everything, whoever else is active.
    last_is_beside: bool,
    /// Which of the first parts want to hear of actions, functions and ops, a [group](group_of) of bits each, and above
    /// them how often interests had [changed](interest_changes) when they were asked; 0 if they are to be asked.
    wanted: AtomicU64,
}

/// Two profilers without the way through `Arc`, which looks up in each one's table of methods where its value
/// begins.
struct Pair([NonNull<dyn Profiler>; 2]);

impl Pair {
    /// The pair of these parts, for whoever keeps them as long as it.
    fn of(parts: &[Arc<dyn Profiler>]) -> Option<Self> {
        let [first, second] = parts else { return None };
        Some(Self([first, second].map(|part| NonNull::from(&**part))))
    }

    #[inline(always)]
    fn parts(&self) -> [&dyn Profiler; 2] {
        // SAFETY: `MultiProfiler` keeps both in its `parts`, which it neither changes nor hands out
        // to be changed, until it is dropped together with this; an `Arc` never moves what it
        // holds. Profilers are only ever called through shared references.
        self.0.map(|part| unsafe { part.as_ref() })
    }
}

// SAFETY: a `Profiler` is `Send + Sync`, and shared references to profilers are all that is had from this.
unsafe impl Send for Pair {}
// SAFETY: as above.
unsafe impl Sync for Pair {}

impl MultiProfiler {
    /// All of `parts`. What comes first hears first of starts and last of stops. Parts that are several
    /// themselves are taken apart, and one that is there twice is told once.
    pub fn new(parts: impl IntoIterator<Item = Arc<dyn Profiler>>) -> Self {
        let mut all = Vec::new();
        parts.into_iter().for_each(|part| add(part, &mut all));
        tell_apart(all.iter().filter_map(|part| part.output()));
        Self::of_parts(all, false)
    }

    /// `None` for no profiler, and the profiler itself if there is only one.
    pub(crate) fn of(mut parts: Vec<Arc<dyn Profiler>>) -> Option<Arc<dyn Profiler>> {
        match parts.len() {
            0 | 1 => parts.pop(),
            _ => Some(Arc::new(Self::new(parts))),
        }
    }

    /// A profiler, and one that is told of everything, whoever else is active.
    pub(crate) fn beside(own: Arc<dyn Profiler>, beside: Arc<dyn Profiler>) -> Arc<dyn Profiler> {
        Arc::new(Self::of_parts(vec![own, beside], true))
    }

    fn of_parts(parts: Vec<Arc<dyn Profiler>>, last_is_beside: bool) -> Self {
        // Each by itself: a panic of one part costs that part.
        let parts: Vec<_> = parts.into_iter().map(guarded).collect();
        Self { pair: Pair::of(&parts), parts, last_is_beside, wanted: AtomicU64::new(0) }
    }

    /// Without the one that is told of everything.
    fn own_parts(&self) -> &[Arc<dyn Profiler>] {
        &self.parts[..self.parts.len() - usize::from(self.last_is_beside)]
    }

    /// Which of the first parts are interested in actions of this kind, a bit each.
    #[inline(always)]
    fn who_is_interested(&self, kind: ActionKind) -> u32 {
        let known = self.wanted.load(Ordering::Relaxed);
        let is_current = known >> 32 == u64::from(interest_changes());
        let wanted = if is_current { known as u32 } else { self.ask_all() };
        (wanted >> group_of(kind)) & ((1 << PARTS_OF_A_GROUP) - 1)
    }

    #[cold]
    fn ask_all(&self) -> u32 {
        // Before they are asked: who changes its mind meanwhile is asked again.
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

    /// Those of more than two parts that hear of actions of this kind.
    fn told(&self, kind: ActionKind) -> impl DoubleEndedIterator<Item = &Arc<dyn Profiler>> {
        let wanted = self.who_is_interested(kind);
        let is_told = move |(place, part): &(usize, &Arc<dyn Profiler>)| match *place {
            ..PARTS_OF_A_GROUP => (wanted >> place) & 1 == 1,
            // Nobody has so many.
            _ => part.interest().contains(interest_in(kind)),
        };
        self.parts.iter().enumerate().filter(is_told).map(|(_, part)| part)
    }

    /// Returns the parts that `stage` is a stage for: a sanity check is one only for those that
    /// separate it.
    fn parts_with(&self, stage: Option<Stage>) -> impl Iterator<Item = &Arc<dyn Profiler>> {
        let is_for_all = stage != Some(Stage::SanityCheck);
        self.parts.iter().filter(move |part| is_for_all || part.separates_sanity_check())
    }

    /// Has the parts say again what they are interested in.
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

/// Adds a profiler, or those that it consists of.
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

/// Fails if none has started it.
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

/// So many parts have a bit in each group.
const PARTS_OF_A_GROUP: usize = 10;

/// The bits of a pair's parts.
const FIRST: u32 = 1;
const SECOND: u32 = 1 << 1;

/// Where the bits begin of those that want to hear of actions of this kind.
#[inline(always)]
const fn group_of(kind: ActionKind) -> u32 {
    // A table in a number: one shift.
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

/// What a profiler must be interested in to hear of an action of this kind.
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

    /// Fails if no part has started it.
    fn stop(&self, action: Action) -> Result<(), NeverStarted> {
        // The last one to hear of the start is the first one to hear of the end.
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
            // The one beside the others belongs to no training.
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

    /// Each to an output of its own; what more than one of them found is said once on the console.
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

    /// Whether any part has it open.
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
