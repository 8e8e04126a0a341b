//! The active profiler: what [`profile!`](crate::profile!) and `#[profile]` report to.
//!
//! *Cost*: with none active, one relaxed load. With one active, a thread-local look-up besides
//! what the profiler itself costs: each thread keeps its own reference, so threads share no
//! reference count.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::action::{Action, Callsite};
use crate::allocation::uncounted;
use crate::hook::OpStart;
use crate::profiler::{Interest, Profiler};

const INTEREST_BITS: u32 = u8::BITS;

/// The generation of the active profiler above its interest; 0 when none is active.
static STATE: AtomicU64 = AtomicU64::new(0);
static ACTIVATIONS: Mutex<Activations> =
    Mutex::new(Activations { last_generation: 0, stack: Vec::new() });

struct Activations {
    last_generation: u64,
    /// In the order of activation; the last one is active.
    stack: Vec<Activation>,
}

#[derive(Clone)]
struct Activation {
    generation: u64,
    interest: Interest,
    profiler: Arc<dyn Profiler>,
}

impl Activations {
    fn lock() -> MutexGuard<'static, Self> {
        ACTIVATIONS.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn publish(&self) {
        let state = self.stack.last().map_or(0, |top| {
            if top.interest == Interest::NONE {
                return 0;
            }
            (top.generation << INTEREST_BITS) | u64::from(top.interest.bits())
        });
        STATE.store(state, Ordering::Release);
    }
}

thread_local! {
    /// This thread's own references: the profilers whose scopes it opened, the latest last.
    static SEEN: RefCell<Vec<Activation>> = const { RefCell::new(Vec::new()) };
}

/// Makes `profiler` the active one of the whole process until the guard is dropped; then the one
/// that was active before is active again. Trainers do this for the length of a stage.
///
/// Activations may overlap (two trainings at once in one process): the latest that is still alive
/// is active, for all threads. Models of such trainings had better hold their own
/// `Arc<dyn Profiler>`.
pub fn activate(profiler: Arc<dyn Profiler>) -> Activated {
    crate::spliced::keep_registration();
    let interest = profiler.interest(); // before the lock: it may open scopes itself
    let mut activations = Activations::lock();
    activations.last_generation += 1;
    let generation = activations.last_generation;
    // An allocation here must not be told to the active profiler, which would wait for the lock.
    uncounted(|| activations.stack.push(Activation { generation, interest, profiler }));
    activations.publish();
    drop(activations);
    crate::hook::announce();
    Activated { generation }
}

/// Asks all activated profilers again what they want.
pub(crate) fn refresh() {
    // Asked outside of the lock: a profiler may open scopes itself.
    let asked: Vec<_> = uncounted(|| Activations::lock().stack.clone());
    let answers: Vec<_> =
        asked.iter().map(|entry| (entry.generation, entry.profiler.interest())).collect();
    let mut activations = Activations::lock();
    for (generation, interest) in answers {
        let mut entries = activations.stack.iter_mut();
        if let Some(entry) = entries.find(|entry| entry.generation == generation) {
            entry.interest = interest;
        }
    }
    activations.publish();
    drop(activations);
    drop(asked);
    crate::hook::announce();
}

/// What the active profiler wants.
#[inline(always)]
pub(crate) fn interest() -> Interest {
    Interest::from_bits(STATE.load(Ordering::Relaxed) as u8)
}

/// Calls `tell` with the active profiler, if it wants `interest`; outside of the profiler's own work.
#[inline(always)]
pub(crate) fn with_active(interest: Interest, tell: impl FnOnce(&dyn Profiler)) {
    let state = STATE.load(Ordering::Relaxed);
    if state != 0 && Interest::from_bits(state as u8).contains(interest) {
        tell_seen(state >> INTEREST_BITS, tell);
    }
}

/// Calls `tell` with the profiler of `generation`; false if this thread cannot reach it now.
#[inline(never)]
fn tell_seen(generation: u64, tell: impl FnOnce(&dyn Profiler)) -> bool {
    let told = SEEN.try_with(|seen| {
        // Exclusive while the profiler works: a scope that it opens itself is not measured,
        // or it would never come to an end.
        let mut references = seen.try_borrow_mut().ok()?;
        if references.last().is_none_or(|top| top.generation != generation) {
            drop(references);
            if !see(seen, generation) {
                return None;
            }
            references = seen.try_borrow_mut().ok()?;
        }
        let top = references.last().filter(|top| top.generation == generation)?;
        tell(&*top.profiler);
        Some(())
    });
    matches!(told, Ok(Some(())))
}

/// Whether the active profiler has `action` open on this thread. Not on a hot path.
pub(crate) fn is_open(action: Action) -> bool {
    let mut is_open = false;
    with_active(Interest::ACTIONS, |profiler| is_open = profiler.is_open(action));
    is_open
}

/// Whether the calling thread is inside of a profiler that it told of something here.
#[inline(always)]
pub(crate) fn is_in_profiler() -> bool {
    SEEN.try_with(|seen| seen.try_borrow_mut().is_err()).unwrap_or(false)
}

/// The active profiler, if there is one.
pub fn active() -> Option<Arc<dyn Profiler>> {
    Activations::lock().stack.last().map(|top| top.profiler.clone())
}

/// Keeps a profiler active; see [`activate`].
#[derive(Debug)]
#[must_use = "the profiler is active only until this is dropped"]
pub struct Activated {
    generation: u64,
}

impl Drop for Activated {
    fn drop(&mut self) {
        // What is under way belongs to this profiler, which must still be active to be told of it.
        if interest().contains(Interest::OPS) {
            crate::hook::flush();
        }
        let mut activations = Activations::lock();
        activations.stack.retain(|activation| activation.generation != self.generation);
        activations.publish();
        drop(activations);
        forget_generation(self.generation);
        crate::hook::announce();
    }
}

/// Lets go of this thread's reference early; other threads do so when they next open a scope.
fn forget_generation(generation: u64) {
    let _ = SEEN.try_with(|seen| {
        let gone = seen.try_borrow_mut().ok().and_then(|mut seen| {
            let position = seen.iter().position(|entry| entry.generation == generation)?;
            Some(seen.remove(position))
        });
        drop(gone); // outside the borrow: a profiler's own destructor may open scopes
    });
}

/// Lets go of all profilers that the calling thread has seen, for threads that wait and open no
/// scopes.
#[cfg(feature = "cuda")]
pub(crate) fn let_go() {
    let _ = SEEN.try_with(|seen| {
        let gone = seen.try_borrow_mut().ok().map(|mut seen| std::mem::take(&mut *seen));
        drop(gone); // outside the borrow, as above
    });
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
    #[inline(always)]
    pub fn open(action: impl FnOnce() -> Action, interest: Interest) -> Self {
        let state = STATE.load(Ordering::Relaxed);
        if !Interest::from_bits(state as u8).contains(interest) || state == 0 {
            return Self::OFF;
        }
        Self::start(state >> INTEREST_BITS, action())
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

    fn start(generation: u64, action: Action) -> Self {
        if !tell_seen(generation, |profiler| profiler.start(action)) {
            return Self::OFF;
        }
        Self { generation, action: Some(action), stays_on_its_thread: PhantomData }
    }

    /// Opens an op; the generation to close it with, which is never 0.
    #[inline(always)]
    pub(crate) fn open_op(op: &OpStart<'_>, interest: Interest) -> Option<u64> {
        let state = STATE.load(Ordering::Relaxed);
        if state == 0 || !Interest::from_bits(state as u8).contains(interest) {
            return None;
        }
        let generation = state >> INTEREST_BITS;
        tell_seen(generation, |profiler| profiler.start_op(op)).then_some(generation)
    }

    /// Stops what was opened under `generation`.
    #[inline(never)]
    pub(crate) fn close(generation: u64, action: Action) {
        let _ = SEEN.try_with(|seen| {
            let Ok(seen) = seen.try_borrow() else { return };
            // Nearly always the last; an older one if another profiler was activated in between.
            if let Some(own) = seen.iter().rfind(|entry| entry.generation == generation) {
                let _ = own.profiler.stop(action);
            }
        });
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

/// Takes this thread's own reference to the profiler of `generation`, and lets go of those that
/// are no longer activated. False if it is gone already, or if a profiler opens a scope from inside
/// its own `start` while the references are in use.
#[cold]
#[inline(never)]
fn see(seen: &RefCell<Vec<Activation>>, generation: u64) -> bool {
    let (found, alive) = uncounted(|| {
        let activations = Activations::lock();
        let found = activations.stack.iter().find(|entry| entry.generation == generation).cloned();
        (found, activations.stack.iter().map(|entry| entry.generation).collect::<Vec<_>>())
    });
    let Some(found) = found else { return false };
    let Ok(mut references) = seen.try_borrow_mut() else { return false };
    let (kept, gone): (Vec<_>, Vec<_>) = references
        .drain(..)
        .partition(|entry| alive.contains(&entry.generation) && entry.generation != generation);
    *references = kept;
    references.push(found);
    drop(references);
    drop(gone);
    true
}

/// Measures the rest of the block as an action of the active profiler.
///
/// ```
/// use profiler_core::{SimpleProfiler, Profiler, activate, profile};
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
/// # use profiler_core::profile_dynamic;
/// let layer = 3;
/// let _scope = profile_dynamic!(format!("layer_{layer}"));
/// ```
#[macro_export]
macro_rules! profile_dynamic {
    ($name:expr) => {
        $crate::ActiveScope::open(|| $crate::Action::from($name), $crate::Interest::ACTIONS)
    };
}
