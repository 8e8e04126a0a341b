//! Hooks that can be turned on and off, and what they have under way.

mod patience;
mod regions;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, Weak};

#[doc(hidden)]
pub use regions::add_region_delivery;
pub use regions::{max_pending_regions, set_max_pending_regions};

pub(crate) use patience::STILL_AT_WORK;
pub(crate) use regions::deliver_regions;

use mlprof_events::forking::{Mutex, MutexGuard};
use mlprof_events::{Context, Interest};

use mlprof_events::OrderExt;
use patience::wait_for_devices;

/// A hook that can be turned on and off, and may have work under way.
///
/// Its methods are called with no lock of ours held but the one that keeps calls in order: they may
/// use the framework and open scopes, but not [`register`](crate::hook::register) sources or change the active profiler.
pub trait Instrumentation: Send + Sync {
    /// The wishes of active profilers have changed to this, all together; [`Interest::NONE`] where
    /// there is none. Also called once by [`register`](crate::hook::register). Called on the thread that begins or ends a step, or
    /// activates a profiler.
    fn interest_changed(&self, interest: Interest);

    /// What the report must say of a profiler that begins to want this. Asked for each that wants ops, on
    /// any thread. By default nothing.
    fn note(&self, _interest: Interest) -> Option<String> {
        None
    }

    /// A recording is about to begin or to end: deliver what is still under way, waiting for the
    /// device if need be. By default there is nothing.
    fn flush(&self) {}

    /// What it tells the ops of, such as `libtorch`, for reports in which there are none; `None` (the
    /// default) for a source that tells of something else.
    fn ops_of(&self) -> Option<&'static str> {
        None
    }

    /// Whether [`context_changed`](Self::context_changed) is to be called. Asked at registration and
    /// after each change of wishes.
    fn wants_context(&self) -> bool {
        false
    }

    /// While ops are recorded: the calling thread opened or closed an action, so what it does from
    /// here on belongs to `context`. For frameworks that do the work on another thread.
    fn context_changed(&self, _context: Context) {}
}

struct Registry {
    interest: Interest,
    sources: Vec<(&'static Entry, Arc<dyn Instrumentation>)>,
}

/// A source as threads find it that take no lock, in the order of registration.
///
/// *Invariant*: stays for the life of the process, also when the source is gone: somebody may be looking
/// at it. There is one for each time that a source was registered. `next` is set under the lock.
struct Entry {
    source: Weak<dyn Instrumentation>,
    is_registered: AtomicBool,
    next: OnceLock<&'static Self>,
}

static REGISTRY: Mutex<Registry> =
    Mutex::new(Registry { interest: Interest::NONE, sources: Vec::new() });
static FIRST: OnceLock<&'static Entry> = OnceLock::new();
static WANTS_CONTEXT: AtomicBool = AtomicBool::new(false);

impl Registry {
    fn lock() -> MutexGuard<'static, Self> {
        REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn publish(&self) {
        let wants = self.sources.iter().any(|(_, source)| source.wants_context());
        WANTS_CONTEXT.store(wants, Ordering::Relaxed);
    }
}

/// Keeps a source registered.
#[must_use = "the source is told of changes only until this is dropped"]
pub struct InstrumentationHandle(&'static Entry);

impl InstrumentationHandle {
    /// Keeps the source registered for the life of the process.
    pub fn forever(self) {
        std::mem::forget(self);
    }
}

impl std::fmt::Debug for InstrumentationHandle {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("InstrumentationHandle").finish_non_exhaustive()
    }
}

impl Drop for InstrumentationHandle {
    fn drop(&mut self) {
        let mut registry = Registry::lock();
        self.0.is_registered.store(false, Ordering::Relaxed);
        registry.sources.retain(|(entry, _)| !std::ptr::eq(*entry, self.0));
        registry.publish();
    }
}

/// From here on `source` is told what active profilers want, beginning with what they want now.
pub(crate) fn add(source: Arc<dyn Instrumentation>) -> InstrumentationHandle {
    let mut registry = Registry::lock();
    source.interest_changed(registry.interest);
    let entry: &'static Entry = Box::leak(Box::new(Entry {
        source: Arc::downgrade(&source),
        is_registered: AtomicBool::new(true),
        next: OnceLock::new(),
    }));
    let last = entries().last();
    let is_linked = last.map_or(&FIRST, |last| &last.next).set(entry);
    debug_assert!(is_linked.is_ok(), "under the lock there is one last entry");
    registry.sources.push((entry, source));
    registry.publish();
    InstrumentationHandle(entry)
}

/// What sources have to say in the report of a profiler that begins to want this.
pub(crate) fn notes(interest: Interest) -> Vec<String> {
    if !interest.contains(Interest::OPS) {
        return Vec::new();
    }
    sources().filter_map(|source| source.note(interest)).collect()
}

/// What active profilers want may have changed: `read` says what it is now.
pub(crate) fn announce(read: impl FnOnce() -> Interest) {
    let mut registry = Registry::lock();
    // Read under the lock: whoever comes last announces the latest.
    let interest = read();
    if registry.interest != interest {
        registry.interest = interest;
        for (_, source) in &registry.sources {
            source.interest_changed(interest);
        }
        registry.publish();
    }
}

/// Has all sources deliver what is under way, and regions of devices besides.
pub(crate) fn flush() {
    wait_for_devices(|| {
        regions::deliver_all();
        sources().for_each(|source| source.flush());
    });
}

/// Whether some source wants to know which actions are open.
#[cfg(any(test, feature = "tensor"))]
#[inline(always)]
pub(crate) fn wants_context() -> bool {
    WANTS_CONTEXT.load(Ordering::Relaxed)
}

/// The calling thread's open actions are now those of `context`.
#[cfg(any(test, feature = "tensor"))]
pub(crate) fn context_changed(context: Context) {
    for source in sources().filter(|source| source.wants_context()) {
        source.context_changed(context);
    }
}

/// What the registered sources tell the ops of.
pub(crate) fn sources_of_ops() -> Vec<&'static str> {
    let mut known: Vec<_> = sources().filter_map(|source| source.ops_of()).collect();
    known.order();
    known.dedup();
    known
}

fn entries() -> impl Iterator<Item = &'static Entry> {
    std::iter::successors(FIRST.get().copied(), |entry| entry.next.get().copied())
}

/// Takes no lock: they may open scopes themselves, and are told of each action while ops are recorded.
fn sources() -> impl Iterator<Item = Arc<dyn Instrumentation>> {
    let registered = entries().filter(|entry| entry.is_registered.load(Ordering::Relaxed));
    registered.filter_map(|entry| entry.source.upgrade())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::mpsc::{Sender, channel};
    use std::time::{Duration, Instant};

    use super::*;

    struct Telling(Mutex<Sender<Context>>);

    impl Instrumentation for Telling {
        fn interest_changed(&self, _interest: Interest) {}

        fn wants_context(&self) -> bool {
            true
        }

        fn context_changed(&self, context: Context) {
            let _ = self.0.lock().map(|tell| tell.send(context));
        }
    }

    #[test]
    fn contexts_are_told_while_sources_are_locked_and_to_none_that_is_gone() {
        let (tell, told) = channel();
        let source = Arc::new(Telling(Mutex::new(tell)));
        let handle = add(source.clone());
        // Unlike those that other tests have meanwhile.
        let context = Context::from_number(u32::MAX - 7).expect("not 0");
        let teller = {
            let _locked = Registry::lock();
            let teller = std::thread::spawn(move || context_changed(context));
            let until = Instant::now() + Duration::from_secs(20);
            let next = || told.recv_timeout(until.saturating_duration_since(Instant::now()));
            let is_told = std::iter::from_fn(|| next().ok()).any(|told| told == context);
            assert!(is_told, "no lock is waited for");
            teller
        };
        teller.join().expect("no panic");
        let count = || told.try_iter().filter(|told| *told == context).count();
        drop(handle);
        context_changed(context);
        assert_eq!(count(), 0, "it is not registered any more");
        let again = add(source.clone());
        context_changed(context);
        assert_eq!(count(), 1, "once, though it was registered twice");
        drop(again);
    }
}
