//! Hooks that can be turned on and off, and their pending work.

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

/// A hook that can be turned on and off and may have pending work.
///
/// Its methods may use the framework and open scopes. They must not
/// [`register`](crate::hook::register) sources or change the active profiler, because mlprof holds
/// the registry lock to keep the calls in order. It holds no other lock.
pub trait Instrumentation: Send + Sync {
    /// Reports a change in the combined interest of all active profilers, or [`Interest::NONE`] if
    /// there is none. [`register`](crate::hook::register) also calls it once. It runs on the thread
    /// that begins or ends a step, or activates a profiler.
    fn interest_changed(&self, interest: Interest);

    /// Returns a note for the report of a profiler with this new interest. It is called for each
    /// profiler that wants ops, on any thread. The default is `None`.
    fn note(&self, _interest: Interest) -> Option<String> {
        None
    }

    /// Delivers all pending work because a recording is about to begin or end. It waits for the
    /// device if necessary. The default does nothing.
    fn flush(&self) {}

    /// Returns the library whose ops this source records, such as `libtorch`. Reports without ops
    /// name it. The default, `None`, is for sources that record other events.
    fn ops_of(&self) -> Option<&'static str> {
        None
    }

    /// Returns `true` if [`context_changed`](Self::context_changed) must be called. It is queried
    /// at registration and after each change of interest.
    fn wants_context(&self) -> bool {
        false
    }

    /// Reports that the calling thread opened or closed an action while ops are recorded. Its
    /// further work belongs to `context`. This is for frameworks that do the work on another
    /// thread.
    fn context_changed(&self, _context: Context) {}
}

struct Registry {
    interest: Interest,
    sources: Vec<(&'static Entry, Arc<dyn Instrumentation>)>,
}

/// List node of a source, for threads that iterate without a lock, in order of registration.
///
/// *Invariants*:
///
/// - Nodes are leaked, because a reader may hold a reference after the source is gone.
/// - Each registration of a source has its own node.
/// - Only the holder of the registry lock sets `next`.
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

/// Keeps a source registered until dropped.
#[must_use = "the source receives changes only until this is dropped"]
pub struct InstrumentationHandle(&'static Entry);

impl InstrumentationHandle {
    /// Keeps the source registered until the process ends.
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

/// Registers `source`. It is notified of the current interest of active profilers and of every
/// later change.
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

/// Returns the notes of all sources for a profiler with this new interest.
pub(crate) fn notes(interest: Interest) -> Vec<String> {
    if !interest.contains(Interest::OPS) {
        return Vec::new();
    }
    sources().filter_map(|source| source.note(interest)).collect()
}

/// Notifies the sources if the interest of active profilers has changed. `read` returns the current
/// interest.
pub(crate) fn announce(read: impl FnOnce() -> Interest) {
    let mut registry = Registry::lock();
    // The interest is read under the lock, so the last caller always announces the latest value.
    let interest = read();
    if registry.interest != interest {
        registry.interest = interest;
        for (_, source) in &registry.sources {
            source.interest_changed(interest);
        }
        registry.publish();
    }
}

/// Makes all sources deliver their pending work, and delivers all pending device regions.
pub(crate) fn flush() {
    wait_for_devices(|| {
        regions::deliver_all();
        sources().for_each(|source| source.flush());
    });
}

/// Returns `true` if any source wants context changes.
#[cfg(any(test, feature = "tensor"))]
#[inline(always)]
pub(crate) fn wants_context() -> bool {
    WANTS_CONTEXT.load(Ordering::Relaxed)
}

/// Reports to the interested sources that the open actions of this thread are now those of
/// `context`.
#[cfg(any(test, feature = "tensor"))]
pub(crate) fn context_changed(context: Context) {
    for source in sources().filter(|source| source.wants_context()) {
        source.context_changed(context);
    }
}

/// Returns the sorted names of the libraries whose ops the registered sources record.
pub(crate) fn sources_of_ops() -> Vec<&'static str> {
    let mut known: Vec<_> = sources().filter_map(|source| source.ops_of()).collect();
    known.order();
    known.dedup();
    known
}

fn entries() -> impl Iterator<Item = &'static Entry> {
    std::iter::successors(FIRST.get().copied(), |entry| entry.next.get().copied())
}

/// Iterates over the registered sources without a lock. Sources may open scopes themselves, and
/// they are notified of each action while ops are recorded.
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
        // This context differs from the contexts of concurrent tests.
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
