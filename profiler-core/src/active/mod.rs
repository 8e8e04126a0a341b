//! The active profiler: what [`profile!`](crate::profile!) and `#[profiled]` report to.
//!
//! *Cost*: with none active, one relaxed load. With one active, a thread-local look-up besides
//! what the profiler itself costs: each thread keeps its own reference, so threads share no
//! reference count. With several, some nanoseconds more.
//!
//! * `activations` are those of the whole process, and one word that says what is active and wanted.
//! * `owner` is whose activations and scopes are, `binding` how other threads' become the same;
//!   `thread` is what a thread remembers of both.

mod activations;
mod binding;
mod owner;
mod thread;

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};

use self::activations::{Activation, Activations, State, Told};
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

/// See [`crate::activate`].
pub(crate) fn activate(profiler: Arc<dyn Profiler>) -> Activated {
    let profiler = guarded(profiler);
    let besides = uncounted(|| Activations::lock().besides().to_vec());
    let told = combined(&profiler, &besides);
    let owner = thread::with(|thread| thread.place.own()).unwrap_or_default();
    let activation = activation(owner, profiler, told);
    let (told, wish) = (activation.told.clone(), activation.wish());
    // An allocation here must not be told to the active profiler, which would wait for the lock.
    uncounted(ask_frameworks);
    let number = uncounted(|| Activations::lock().push(activation));
    instrumentation::announce(interest);
    tell_notes(&*told, wish);
    Activated::new(number)
}

/// Has `profiler` told of everything, whatever is activated and by whom, until the guard is dropped.
/// There are two such profilers at most: that of `mlprof run`, and who watches from outside. Who comes second
/// is told together with the first, until that one goes.
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

/// As [`activate_beside`], for a forked child: in place of its copy of what its parent has
/// activated so.
pub(crate) fn activate_in_place_of(
    replaced: &Arc<dyn Profiler>,
    profiler: Arc<dyn Profiler>,
) -> Activated {
    uncounted(|| Activations::lock().forget_beside(replaced));
    activate_beside(profiler)
}

/// Has every thread look up anew who is told, at its next scope. For a fork handler: stores one
/// number.
pub(crate) fn take_slow_path() {
    State::take_slow_path();
}

/// `profiler`, and those beside all others unless they are part of it.
fn combined(profiler: &Arc<dyn Profiler>, besides: &[Arc<dyn Profiler>]) -> Arc<dyn Profiler> {
    let others = besides.iter().filter(|beside| !hands_on(profiler, beside));
    others.fold(profiler.clone(), |all, beside| MultiProfiler::beside(all, beside.clone()))
}

/// Whether `profiler` is `other`, or tells it of all that it is told of.
pub(crate) fn hands_on(profiler: &Arc<dyn Profiler>, other: &Arc<dyn Profiler>) -> bool {
    passes_on_to(&**profiler, &**other)
}

/// Yet without a number.
fn activation(
    owner: Arc<Owner>,
    profiler: Arc<dyn Profiler>,
    told: Arc<dyn Profiler>,
) -> Activation {
    // Asked before the lock is taken: a profiler may open scopes itself.
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

/// Has the report of `profiler`, which begins to want this, say what sources have to say of it.
fn tell_notes(profiler: &dyn Profiler, interest: Interest) {
    instrumentation::notes(interest)
        .iter()
        .for_each(|note| profiler.observe(&Observation::Note(note)));
}

/// Asks all activated profilers again what they want.
pub(crate) fn refresh() {
    // Asked outside of the lock: a profiler may open scopes itself.
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

/// What active profilers want.
#[inline(always)]
pub(crate) fn interest() -> Interest {
    State::load().interest()
}

/// Calls `tell` with the profiler that the calling thread reports to, if it wants `interest`; outside
/// of the profiler's own work. *Cost*: one relaxed load if nobody wants it.
#[inline(always)]
pub fn with_active(interest: Interest, tell: impl FnOnce(&dyn Profiler)) {
    let state = State::load();
    if state.wants(interest) {
        thread::tell(state.key(), interest, Teller::Delivery, |profiler, _| tell(profiler));
    }
}

/// Calls `work`; nobody is told of what this thread does meanwhile.
pub(crate) fn unseen<T>(work: impl FnOnce() -> T) -> T {
    thread::unseen(work)
}

/// Whether the active profiler has `action` open on this thread. Not on a hot path.
pub(crate) fn is_open(action: Action) -> bool {
    let mut is_open = false;
    with_active(Interest::ACTIONS, |profiler| is_open = profiler::is_open(profiler, action));
    is_open
}

/// As [`with_active`], but where nobody knows whose the calling thread is, all are told.
pub(crate) fn with_active_or_all(interest: Interest, tell: impl Fn(&dyn Profiler)) {
    let state = State::load();
    if state.wants(interest) && state.key().is_several() && thread::is_unattributed(state.key()) {
        return with_all(interest, |_, profiler| tell(profiler));
    }
    with_active(interest, tell);
}

/// Calls `tell` with whoever is active and wants `interest`: of what belongs to the whole process.
/// Besides, whether it is the first time that this one has to share.
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

/// The profilers of all trainings that run, as they were given.
pub(crate) fn tops() -> Vec<Arc<dyn Profiler>> {
    uncounted(|| Activations::lock().tops().map(|top| top.profiler.clone()).collect())
}

/// The profiler that the calling thread reports to, if there is one.
pub fn active() -> Option<Arc<dyn Profiler>> {
    let owner = thread::with(|thread| thread.place.owner()).flatten();
    let activations = Activations::lock();
    match activations.look_up(owner.as_ref()).1 {
        Told::To(activation) => Some(activation.profiler.clone()),
        Told::Nobody(_) => activations.beside().map(|beside| beside.profiler.clone()),
    }
}

/// Keeps a profiler active; see [`activate`](crate::activate()).
#[derive(Debug)]
#[must_use = "the profiler is active only until this is dropped"]
pub struct Activated {
    number: u64,
    /// [The process](this_process) that it was activated in.
    process: u64,
}

impl Activated {
    fn new(number: u64) -> Self {
        Self { number, process: this_process() }
    }
}

impl Drop for Activated {
    fn drop(&mut self) {
        // In a forked child nothing is under way: devices and frameworks are its parent's, and may
        // not be asked.
        let is_inherited = self.process != this_process();
        // What is under way belongs to this profiler, which must still be active to be told of it.
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

/// An open action of the active profiler; made by [`profile!`](crate::profile!).
#[must_use = "an action ends when its guard is dropped: bind it, `let _scope = …`"]
#[derive(Debug)]
pub struct ActiveScope {
    /// 0: no profiler was active when the scope was opened.
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

    /// Opens the action of a callsite that a macro made.
    #[doc(hidden)]
    #[inline(always)]
    pub fn at(callsite: &'static Callsite, interest: Interest) -> Self {
        Self::open(|| callsite.action(), interest)
    }

    /// Whether there is something to stop.
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

    /// Opens an op; the generation to close it with, which is never 0.
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

    /// Stops what was opened under `generation`.
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

/// Opens `action` if the active profiler wants `interest`; the generation to
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
/// *Cost*: one relaxed load when no profiler is active. The name must be a literal or a constant;
/// for names made at run time use [`profile_dynamic!`](crate::profile_dynamic!).
///
/// *Where*: anywhere. In a destructor of a thread's own data, when the thread ends, it is measured or
/// counted as lost, which the report says. It may stand in the program's allocator and in signal
/// handlers: while the thread is inside of the profiler itself it is not measured, or stands in the row
/// `(inside of the profiler)`, and never waits for a lock of the thread's own.
///
/// A signal handler that may interrupt an allocation may not allocate, so its scopes need a first time
/// outside of it. On Unix, under the Simple and the Advanced profiler, a scope takes nothing from the
/// program's allocator, however long it is, if the same one has been opened on that thread before: since a
/// profiler was activated or let go of last, since the stage began, and under the Advanced profiler also
/// inside the same scopes, as every place of its call tree takes memory once. It must end before the scopes
/// around it do, and be one of at most four thousand inside each other. The other profilers may allocate
/// for any scope.
#[macro_export]
macro_rules! profile {
    ($name:expr) => {{
        static CALLSITE: $crate::Callsite = $crate::Callsite::action_named($name);
        $crate::ActiveScope::at(&CALLSITE, $crate::Interest::ACTIONS)
    }};
}

/// [`profile!`](crate::profile!) for a name made at run time. The name is not even made when no
/// profiler is active.
///
/// ```
/// # use mlprof_core::profile_dynamic;
/// let layer = 3;
/// let _scope = profile_dynamic!(format!("layer_{layer}"));
/// ```
///
/// *Cost*: while a profiler is active a scope costs some four times what one with a literal does: the
/// name is made and looked up each time. Where that is too much keep the [`Action`](crate::Action) of
/// each name, and open `profiler.profile(action)`.
#[macro_export]
macro_rules! profile_dynamic {
    ($name:expr) => {
        $crate::ActiveScope::open(|| $crate::Action::from($name), $crate::Interest::ACTIONS)
    };
}
