//! Finds the table that the calling thread records into. The hot path needs one thread-local read.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::KINDS;
use mlprof_events::{ThreadName, open_scopes};

/// Returns a new number for a session or recorder. Numbers are never reused within a process, so a
/// number that a thread remembers stays unambiguous.
pub(super) fn next_number() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

/// Table of one thread in one session. The alignment keeps other threads' data off its cache lines,
/// including the lines that the processor prefetches in pairs.
#[repr(align(128))]
pub(super) struct ThreadTable<T> {
    pub(super) thread: ThreadName,
    has_ended: AtomicBool,
    pub(super) table: T,
}

impl<T> ThreadTable<T> {
    pub(super) fn new(thread: ThreadName, table: T) -> Self {
        Self { thread, has_ended: AtomicBool::new(false), table }
    }

    /// Returns `true` if the thread has ended. It no longer writes the table, and all its writes
    /// are visible to the caller.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }
}

/// Type-erased table, as the owning thread stores it.
trait AnyTable: Any {
    fn end(&self);
    /// Returns `true` if no other owner shares the table and no scope in it is open.
    fn is_forgotten(self: Arc<Self>) -> bool;
}

impl<T: super::Table> AnyTable for ThreadTable<T> {
    fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
    }

    fn is_forgotten(self: Arc<Self>) -> bool {
        // `self` is one reference, and the thread's own attachment is the other.
        Arc::strong_count(&self) <= 2 && self.table.stack().is_empty()
    }
}

#[derive(Clone)]
struct Attachment {
    session: u64,
    recorder: u64,
    table: Arc<dyn AnyTable>,
}

#[derive(Default)]
struct Attachments(RefCell<Vec<Attachment>>);

impl Drop for Attachments {
    /// Marks the thread's tables as ended. The recorders share the tables, so the recorded data
    /// stays available.
    fn drop(&mut self) {
        forget_current();
        open_scopes::withdraw_thread();
        for attachment in self.0.get_mut() {
            attachment.table.end();
        }
    }
}

/// The table of one [kind](super::Table::KIND) that this thread used last. With one entry per kind,
/// profilers of different kinds can receive events in turn without a new lookup.
///
/// *Invariant*: an entry of this thread's `ATTACHMENTS` has the session `session`, and `table`
/// points to the `T` inside its `ThreadTable<T>`. All of `CURRENT` is reset before any entry is
/// removed. A session belongs to one recorder, so `T` is that recorder's table type.
#[derive(Clone, Copy)]
struct Current {
    session: u64,
    table: *const (),
}

impl Current {
    const NONE: Self = Self { session: 0, table: ptr::null() };
}

thread_local! {
    static CURRENT: [Cell<Current>; KINDS] = const { [const { Cell::new(Current::NONE) }; KINDS] };
    static ATTACHMENTS: Attachments = Attachments::default();
    static IS_CLOSED: Cell<bool> = const { Cell::new(false) };
}

fn forget_current() {
    CURRENT.with(|current| current.iter().for_each(|current| current.set(Current::NONE)));
    open_scopes::withdraw_tables();
}

/// Guard that keeps the calling thread from attaching, because the thread holds a lock that
/// attaching may need. Actions that it starts meanwhile, in a signal handler or in the program's
/// allocator, count as lost.
pub(super) struct Closed {
    was_closed: bool,
}

impl Closed {
    pub(super) fn begin() -> Self {
        Self { was_closed: IS_CLOSED.replace(true) }
    }
}

impl Drop for Closed {
    fn drop(&mut self) {
        IS_CLOSED.set(self.was_closed);
    }
}

/// Returns the session and the table of this kind that this thread used last.
///
/// The pointer is valid until this thread attaches to another session or ends. It has type `T` if
/// the session belongs to a recorder with tables of type `T`.
#[inline(always)]
pub(super) fn current<T: super::Table>() -> (u64, *const T) {
    let current = CURRENT.with(|current| current[T::KIND as usize].get());
    (current.session, current.table.cast())
}

/// Result of [`attach`].
pub(super) struct Attached<T> {
    pub(super) table: Arc<ThreadTable<T>>,
    /// Table that was current before, if it belongs to a later session of the same recorder. That
    /// session is a stage inside the attached one.
    pub(super) inner: Option<Arc<ThreadTable<T>>>,
}

/// Makes the table of `session` the thread's current one. If the thread has no table yet, `make`
/// registers a new one with the recorder. Returns `None` if `make` does, while the thread is being
/// torn down, or while the thread is [closed](Closed).
pub(super) fn attach<T: super::Table>(
    recorder: u64,
    session: u64,
    make: impl FnOnce(ThreadName) -> Option<Arc<ThreadTable<T>>>,
) -> Option<Attached<T>> {
    if IS_CLOSED.get() {
        return None;
    }
    #[cfg(test)]
    attaches::add();
    ATTACHMENTS
        .try_with(|attachments| {
            let mut attachments = attachments.0.try_borrow_mut().ok()?;
            let set_current = |new| CURRENT.with(|current| current[T::KIND as usize].replace(new));
            let last = set_current(Current::NONE).session;
            open_scopes::withdraw_table(T::KIND as usize);
            let inner = find(&attachments, |entry| {
                entry.session == last && entry.session > session && entry.recorder == recorder
            });
            let table = match find(&attachments, |entry| entry.session == session) {
                Some(known) => known,
                None => {
                    forget_current();
                    attachments.retain(|entry| !entry.table.clone().is_forgotten());
                    let new = make(ThreadName::of_this_thread())?;
                    let table: Arc<dyn AnyTable> = new.clone();
                    attachments.push(Attachment { session, recorder, table });
                    new
                }
            };
            let pointer: *const T = &table.table;
            set_current(Current { session, table: pointer.cast() });
            // SAFETY: `pointer` is valid until this thread attaches again or ends, by the invariant
            // of `CURRENT`. Both withdraw the table first. `tell_open::<T>` gets a pointer to a
            // `T`.
            unsafe {
                open_scopes::publish_table(
                    T::KIND as usize,
                    session,
                    pointer.cast(),
                    tell_open::<T>,
                );
            }
            Some(Attached { table, inner })
        })
        .ok()
        .flatten()
}

/// Passes the number of each open action of a table to `tell`.
///
/// # Safety
///
/// `table` must point to a live `T`, and the calling thread must be its owner.
unsafe fn tell_open<T: super::Table>(table: *const (), tell: &mut dyn FnMut(u32)) {
    // SAFETY: the caller guarantees that `table` points to a live `T` which this thread owns.
    unsafe { &*table.cast::<T>() }.stack().tell_open(tell);
}

/// Returns this thread's tables of `recorder` in all sessions, latest first. It does not allocate,
/// because a signal handler may look for a scope too.
pub(super) fn tables_of<T: super::Table>(
    recorder: u64,
) -> impl Iterator<Item = Arc<ThreadTable<T>>> {
    let mut seen = 0;
    std::iter::from_fn(move || {
        let next = |attachments: &Attachments| {
            let attachments = attachments.0.try_borrow().ok()?;
            let mut left = attachments.iter().rev().skip(seen);
            left.find_map(|entry| {
                seen += 1;
                if entry.recorder == recorder { downcast(&entry.table) } else { None }
            })
        };
        ATTACHMENTS.try_with(next).ok().flatten()
    })
}

fn find<T: super::Table>(
    attachments: &[Attachment],
    is_wanted: impl Fn(&Attachment) -> bool,
) -> Option<Arc<ThreadTable<T>>> {
    attachments.iter().find(|entry| is_wanted(entry)).and_then(|entry| downcast(&entry.table))
}

fn downcast<T: super::Table>(table: &Arc<dyn AnyTable>) -> Option<Arc<ThreadTable<T>>> {
    if (**table).type_id() != std::any::TypeId::of::<ThreadTable<T>>() {
        return None;
    }
    let pointer = Arc::into_raw(table.clone()).cast::<ThreadTable<T>>();
    // SAFETY: the concrete type was just compared, and the pointer comes from `Arc::into_raw` of
    // the same allocation.
    Some(unsafe { Arc::from_raw(pointer) })
}

/// Counts how often this thread attached. A start or stop attaches only if the current table is not
/// the one it needs.
#[cfg(test)]
pub(crate) mod attaches {
    use std::cell::Cell;

    thread_local!(static ATTACHES: Cell<usize> = const { Cell::new(0) });

    pub(super) fn add() {
        ATTACHES.set(ATTACHES.get() + 1);
    }

    /// Returns the number of attaches on this thread until now.
    pub(crate) fn count() -> usize {
        ATTACHES.get()
    }
}
