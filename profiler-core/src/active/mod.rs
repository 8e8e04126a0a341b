//! The active profiler, which receives the scopes of [`profile!`](crate::profile!) and
//! `#[profiled]`.
//!
//! *Cost*: one relaxed load if no profiler is active. If one is active, a thread-local lookup in
//! addition to the profiler's own cost. Each thread keeps its own reference, so threads do not
//! contend for a reference count. With several active profilers it takes a few nanoseconds more.
//!
//! * `activations` holds all activations of the process and one word with the active profilers and
//!   their interest.
//! * `owner` defines the owners of activations and scopes, and `binding` gives several threads the
//!   same owner. `thread` caches both per thread.

mod activations;
mod binding;
mod owner;
mod thread;

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};

use self::activations::{Activation, Activations, ReportTarget, State};
pub(crate) use self::binding::RunningLoop;
pub use self::binding::{Binding, Bound, bound};
use self::owner::Owner;
use self::thread::Teller;
pub(crate) use self::thread::is_in_profiler;
pub use self::thread::let_go;
use crate::guarded::guarded;
use crate::instrumentation;
use crate::multi::MultiProfiler;
use crate::profiler::{self, Profiler, passes_on_to};
use mlprof_events::forking::this_process;
use mlprof_events::{
    Action, Callsite, Interest, Observation, OpStart, UnattributedWork, ask_frameworks, uncounted,
};

/// Activates a profiler; see [`crate::activate`].
pub(crate) fn activate(profiler: Arc<dyn Profiler>) -> Activated {
    let profiler = guarded(profiler);
    let besides = uncounted(|| Activations::lock().besides().to_vec());
    let told = combined(&profiler, &besides);
    let owner = thread::with(|thread| thread.place.own()).unwrap_or_default();
    let activation = activation(owner, profiler, told);
    let (told, wish) = (activation.told.clone(), activation.wish());
    // An allocation here must not be reported to the active profiler, which would wait for the
    // lock.
    uncounted(ask_frameworks);
    let number = uncounted(|| Activations::lock().push(activation));
    instrumentation::announce(interest);
    tell_notes(&*told, wish);
    Activated::new(number)
}

/// Activates `profiler` as a side profiler until the guard is dropped. It receives all events,
/// independent of other activations and their owners. There are at most two side profilers: the one
/// of `mlprof run` and one that watches from outside. The second one is combined with the first
/// until the first ends.
pub(crate) fn activate_beside(profiler: Arc<dyn Profiler>) -> Activated {
    let profiler = guarded(profiler);
    let mut besides = uncounted(|| Activations::lock().besides().to_vec());
    let alone = combined(&profiler, &besides);
    let entry = activation(Arc::default(), alone.clone(), alone);
    let wish = entry.wish();
    besides.push(profiler.clone());
    let number = uncounted(|| Activations::lock().set_beside(entry, besides, combined));
    instrumentation::announce(interest);
    tell_notes(&*profiler, wish);
    Activated::new(number)
}

/// Works like [`activate_beside`] in a forked child. The new profiler replaces the child's copy of
/// a side profiler that its parent activated.
pub(crate) fn activate_in_place_of(
    replaced: &Arc<dyn Profiler>,
    profiler: Arc<dyn Profiler>,
) -> Activated {
    uncounted(|| Activations::lock().forget_beside(replaced));
    activate_beside(profiler)
}

/// Makes every thread look up its profiler again at its next scope. A fork handler may call this,
/// because it only stores one number.
pub(crate) fn take_slow_path() {
    State::take_slow_path();
}

/// Returns `profiler` combined with the side profilers that are not already part of it.
fn combined(profiler: &Arc<dyn Profiler>, besides: &[Arc<dyn Profiler>]) -> Arc<dyn Profiler> {
    let others = besides.iter().filter(|beside| !hands_on(profiler, beside));
    others.fold(profiler.clone(), |all, beside| MultiProfiler::beside(all, beside.clone()))
}

/// Returns `true` if `profiler` is `other` or passes all of its events on to it.
pub(crate) fn hands_on(profiler: &Arc<dyn Profiler>, other: &Arc<dyn Profiler>) -> bool {
    passes_on_to(&**profiler, &**other)
}

/// Returns an activation without a number.
fn activation(
    owner: Arc<Owner>,
    profiler: Arc<dyn Profiler>,
    told: Arc<dyn Profiler>,
) -> Activation {
    // The interest is queried before the lock is taken, because a profiler may open scopes itself.
    let wish = Arc::new(AtomicU16::new(told.interest().bits()));
    let unattributed = Arc::new(UnattributedWork::default());
    profiler.observe(&Observation::Unattributed(&unattributed));
    Activation {
        number: 0,
        generation: 0,
        owner,
        profiler,
        told,
        wish,
        unattributed,
        is_used: Arc::new(AtomicBool::new(false)),
        says_shared: Arc::new(AtomicBool::new(false)),
    }
}

/// Passes the notes of all instrumentation about this interest to `profiler`, for its report.
fn tell_notes(profiler: &dyn Profiler, interest: Interest) {
    instrumentation::notes(interest)
        .iter()
        .for_each(|note| profiler.observe(&Observation::Note(note)));
}

/// Queries the interest of all activated profilers again.
pub(crate) fn refresh() {
    // The interest is queried outside of the lock, because a profiler may open scopes itself.
    let asked: Vec<Activation> = uncounted(|| Activations::lock().all().cloned().collect());
    let begins = asked.iter().filter(|entry| {
        let wish = entry.told.interest();
        let before = entry.wish.swap(wish.bits(), Ordering::Relaxed);
        wish.contains(Interest::OPS) && !Interest::from_bits(before).contains(Interest::OPS)
    });
    let begins: Vec<_> = begins.collect();
    Activations::lock().publish();
    instrumentation::announce(interest);
    begins.into_iter().for_each(|entry| tell_notes(&*entry.told, entry.wish()));
}

/// Returns the combined interest of all active profilers.
#[inline(always)]
pub(crate) fn interest() -> Interest {
    State::load().interest()
}

/// Runs `tell` with the profiler that the calling thread reports to, if it wants `interest`. Does
/// not run it inside the profiler's own work. *Cost*: one relaxed load if no profiler wants the
/// event.
#[inline(always)]
pub fn with_active(interest: Interest, tell: impl FnOnce(&dyn Profiler)) {
    let state = State::load();
    if state.wants(interest) {
        thread::tell(state.key(), interest, Teller::Delivery, |profiler, _| tell(profiler));
    }
}

/// Runs `work`. Events of this thread are not reported meanwhile.
pub(crate) fn unseen<T>(work: impl FnOnce() -> T) -> T {
    thread::unseen(work)
}

/// Returns `true` if the active profiler has `action` open on this thread. Not intended for hot
/// paths.
pub(crate) fn is_open(action: Action) -> bool {
    let mut is_open = false;
    with_active(Interest::ACTIONS, |profiler| is_open = profiler::is_open(profiler, action));
    is_open
}

/// Works like [`with_active`], but calls `tell` with all active profilers if the calling thread
/// belongs to no known training.
pub(crate) fn with_active_or_all(interest: Interest, tell: impl Fn(&dyn Profiler)) {
    let state = State::load();
    if state.wants(interest) && state.key().is_several() && thread::is_unattributed(state.key()) {
        return with_all(interest, |_, profiler| tell(profiler));
    }
    with_active(interest, tell);
}

/// Runs `tell` with every active profiler that wants `interest`, for events of the whole process.
/// The first argument is `true` when a profiler shares such events for the first time.
pub(crate) fn with_all(interest: Interest, tell: impl Fn(bool, &dyn Profiler)) {
    let state = State::load();
    if !state.wants(interest) {
        return;
    }
    if !state.key().is_several() {
        return with_active(interest, |profiler| tell(false, profiler));
    }
    let tops: Vec<Activation> = uncounted(|| {
        let activations = Activations::lock();
        activations.tops().filter(|top| top.wish().contains(interest)).cloned().collect()
    });
    let told: Vec<_> = uncounted(|| tops.iter().map(|top| top.told.clone()).collect());
    let is_first = |profiler: &dyn Profiler| {
        let address = std::ptr::from_ref(profiler).cast::<()>();
        let is = |top: &&Activation| Arc::as_ptr(&top.told).cast::<()>() == address;
        tops.iter().find(is).is_some_and(|top| !top.says_shared.swap(true, Ordering::Relaxed))
    };
    thread::tell_each(&told, |profiler| tell(is_first(profiler), profiler));
}

/// Returns the profilers of all running trainings, as passed by their callers.
pub(crate) fn tops() -> Vec<Arc<dyn Profiler>> {
    uncounted(|| Activations::lock().tops().map(|top| top.profiler.clone()).collect())
}

/// Returns the profiler that the calling thread reports to, if any.
pub fn active() -> Option<Arc<dyn Profiler>> {
    let owner = thread::with(|thread| thread.place.owner()).flatten();
    let activations = Activations::lock();
    match activations.look_up(owner.as_ref()).1 {
        ReportTarget::To(activation) => Some(activation.profiler.clone()),
        ReportTarget::Nobody(_) => activations.beside().map(|beside| beside.profiler.clone()),
    }
}

/// Guard that keeps a profiler active; see [`activate`](crate::activate()).
#[derive(Debug)]
#[must_use = "the profiler is active only until this is dropped"]
pub struct Activated {
    number: u64,
    /// [Process](this_process) in which the profiler was activated.
    process: u64,
}

impl Activated {
    fn new(number: u64) -> Self {
        Self { number, process: this_process() }
    }
}

impl Drop for Activated {
    fn drop(&mut self) {
        // A forked child has no pending work. The devices and frameworks belong to its parent and
        // must not be used.
        let is_inherited = self.process != this_process();
        // Pending work belongs to this profiler, which must still be active to receive it.
        if !is_inherited && interest().contains(Interest::OPS) {
            instrumentation::flush();
        }
        let gone = uncounted(|| Activations::lock().remove(self.number));
        if let Some(gone) = &gone {
            gone.unattributed.end();
            thread::forget(gone.generation);
        }
        drop(gone); // outside of the lock: a profiler's own destructor may open scopes
        if !is_inherited {
            instrumentation::announce(interest);
        }
    }
}

/// An open action of the active profiler. [`profile!`](crate::profile!) creates it.
#[must_use = "an action ends when its guard is dropped: bind it, `let _scope = …`"]
#[derive(Debug)]
pub struct ActiveScope {
    /// Generation of the receiving profiler, or 0 if no profiler was active when the scope was
    /// opened.
    generation: u64,
    action: Option<Action>,
    stays_on_its_thread: PhantomData<*const ()>,
}

impl ActiveScope {
    const OFF: Self = Self { generation: 0, action: None, stays_on_its_thread: PhantomData };

    /// Opens `action` if the active profiler wants `interest`.
    #[doc(hidden)]
    #[inline(always)]
    pub fn open(action: impl FnOnce() -> Action, interest: Interest) -> Self {
        let state = State::load();
        if !state.wants(interest) {
            return Self::OFF;
        }
        Self::start(state, interest, action())
    }

    /// Opens the action of a call site created by a macro.
    #[doc(hidden)]
    #[inline(always)]
    pub fn at(callsite: &'static Callsite, interest: Interest) -> Self {
        Self::open(|| callsite.action(), interest)
    }

    /// Returns `true` if there is an action to stop.
    pub(crate) const fn is_open(&self) -> bool {
        self.action.is_some()
    }

    fn start(state: State, interest: Interest, action: Action) -> Self {
        let told = thread::tell(state.key(), interest, Teller::Scope, |profiler, _| {
            profiler.start(action)
        });
        match told.or_else(|| thread::tell_late(interest, |profiler| profiler.start(action))) {
            None => Self::OFF,
            Some(generation) => {
                let action = Some(action);
                Self { generation, action, stays_on_its_thread: PhantomData }
            }
        }
    }

    /// Opens an op. Returns the generation to close it with, which is never 0.
    #[inline(always)]
    pub(crate) fn open_op(op: &OpStart<'_>, interest: Interest) -> Option<u64> {
        let state = State::load();
        if !state.wants(interest) {
            return None;
        }
        let told = thread::tell(state.key(), interest, Teller::Scope, |profiler, wish| {
            if wish.contains(Interest::SHAPES) {
                return profiler.start_op(op);
            }
            profiler.start_op(&OpStart { inputs: None, ..*op });
        });
        told.or_else(|| thread::tell_late(interest, |profiler| profiler.start_op(op)))
    }

    /// Stops an action that was opened under `generation`.
    pub(crate) fn close(generation: u64, action: Action) {
        thread::stop(generation, action);
    }
}

impl Drop for ActiveScope {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(action) = self.action {
            Self::close(self.generation, action);
        }
    }
}

/// Opens `action` if the active profiler wants `interest`. Returns the generation to
/// [close](ActiveScope::close) it with, which is never 0.
#[inline(always)]
pub(crate) fn open(action: impl FnOnce() -> Action, interest: Interest) -> Option<u64> {
    let scope = std::mem::ManuallyDrop::new(ActiveScope::open(action, interest));
    scope.action.is_some().then_some(scope.generation)
}

/// Measures the rest of the block as an action of the active profiler.
///
/// ```
/// use mlprof_core::{SimpleProfiler, Profiler, activate, profile};
/// use std::sync::Arc;
///
/// fn load_data() -> u64 {
///     let _scope = profile!("load_data");
///     42
/// }
///
/// let profiler = Arc::new(SimpleProfiler::new());
/// let activated = activate(profiler.clone());
/// load_data();
/// assert!(profiler.summary().contains("load_data"));
/// drop(activated);
/// load_data(); // not measured any more
/// ```
///
/// *Cost*: one relaxed load if no profiler is active. The name must be a literal or a constant. For
/// names made at run time use [`profile_dynamic!`](crate::profile_dynamic!).
///
/// *Placement*: the macro may be used anywhere, with these special cases:
///
/// - In a destructor of thread-local data, when the thread ends, the scope is measured or counted
///   as lost. The report shows lost scopes.
/// - It may be used in the program's allocator and in signal handlers. Inside the profiler itself,
///   the scope is not measured or appears in the row `(inside of the profiler)`. It never waits for
///   a lock that its own thread holds.
///
/// A signal handler that may interrupt an allocation must not allocate, so its scopes need a first
/// use outside of the handler. On Unix, the Simple and the Advanced profiler then take no memory
/// from the program's allocator for a scope, however long it is. These conditions apply:
///
/// - The same scope has been opened on that thread since the last activation or deactivation of a
///   profiler, and since the stage began.
/// - Under the Advanced profiler it has also been opened inside the same scopes, because every new
///   node of the call tree allocates once.
/// - The scope ends before the scopes around it, and at most four thousand scopes are nested.
///
/// Other profilers may allocate for any scope.
#[macro_export]
macro_rules! profile {
    ($name:expr) => {{
        static CALLSITE: $crate::Callsite = $crate::Callsite::action_named($name);
        $crate::ActiveScope::at(&CALLSITE, $crate::Interest::ACTIONS)
    }};
}

/// Works like [`profile!`](crate::profile!) for a name made at run time. The name is not created if
/// no profiler is active.
///
/// ```
/// # use mlprof_core::profile_dynamic;
/// let layer = 3;
/// let _scope = profile_dynamic!(format!("layer_{layer}"));
/// ```
///
/// *Cost*: while a profiler is active, a scope costs about four times as much as one with a literal
/// name. The name is created and looked up each time. To avoid this, keep the
/// [`Action`](crate::Action) of each name and open `profiler.profile(action)`.
#[macro_export]
macro_rules! profile_dynamic {
    ($name:expr) => {
        $crate::ActiveScope::open(|| $crate::Action::from($name), $crate::Interest::ACTIONS)
    };
}
