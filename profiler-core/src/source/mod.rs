//! Hooks that can be turned on and off, and what they have under way.

mod regions;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};

#[doc(hidden)]
pub use regions::set_region_delivery;

pub(crate) use regions::deliver_regions;

use profiler_events::forking::{Mutex, MutexGuard};
use profiler_events::{Context, Interest};

/// A hook that can be turned on and off, and may have work under way.
///
/// Its methods are called with no lock of ours held but the one that keeps calls in order: they may
/// use the framework and open scopes, but not [`register`](crate::hook::register) sources or change the active profiler.
pub trait Source: Send + Sync {
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
    sources: Vec<(u64, Arc<dyn Source>)>,
    last: u64,
}

static REGISTRY: Mutex<Registry> =
    Mutex::new(Registry { interest: Interest::NONE, sources: Vec::new(), last: 0 });
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
#[derive(Debug)]
#[must_use = "the source is told of changes only until this is dropped"]
pub struct SourceHandle(u64);

impl SourceHandle {
    /// Keeps the source registered for the life of the process.
    pub fn forever(self) {
        std::mem::forget(self);
    }
}

impl Drop for SourceHandle {
    fn drop(&mut self) {
        let mut registry = Registry::lock();
        registry.sources.retain(|(number, _)| *number != self.0);
        registry.publish();
    }
}

/// From here on `source` is told what active profilers want, beginning with what they want now.
pub(crate) fn add(source: Arc<dyn Source>) -> SourceHandle {
    let mut registry = Registry::lock();
    source.interest_changed(registry.interest);
    registry.last += 1;
    let number = registry.last;
    registry.sources.push((number, source));
    registry.publish();
    SourceHandle(number)
}

/// What sources have to say in the report of a profiler that begins to want this.
pub(crate) fn notes(interest: Interest) -> Vec<String> {
    if !interest.contains(Interest::OPS) {
        return Vec::new();
    }
    sources().into_iter().filter_map(|source| source.note(interest)).collect()
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
    deliver_regions();
    for source in sources() {
        source.flush();
    }
}

/// Whether some source wants to know which actions are open.
#[inline(always)]
pub(crate) fn wants_context() -> bool {
    WANTS_CONTEXT.load(Ordering::Relaxed)
}

/// The calling thread's open actions are now those of `context`.
pub(crate) fn context_changed(context: Context) {
    for source in sources().into_iter().filter(|source| source.wants_context()) {
        source.context_changed(context);
    }
}

/// What the registered sources tell the ops of.
pub(crate) fn sources_of_ops() -> Vec<&'static str> {
    let mut known: Vec<_> = sources().iter().filter_map(|source| source.ops_of()).collect();
    known.sort_unstable();
    known.dedup();
    known
}

/// Outside of the lock, since they may open scopes themselves.
fn sources() -> Vec<Arc<dyn Source>> {
    Registry::lock().sources.iter().map(|(_, source)| source.clone()).collect()
}
