//! Which table a thread records into: found by one thread-local read on the hot path.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::KINDS;
use mlprof_events::{ThreadName, open_scopes};

/// Numbers of sessions and recorders; never used twice in a process, so a number that a thread
/// remembers cannot come to mean something else.
pub(super) fn next_number() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

/// The table of one thread in one session. No cache line of it is shared with another thread's
/// data, nor with one that the processor fetches together with it.
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

    /// The thread is gone: nobody writes the table any more, and what it wrote can be seen.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }
}

/// A table as the thread that owns it holds it, whatever its type.
trait AnyTable: Any {
    fn end(&self);
    /// Nobody but this thread can see it, and nothing in it is open.
    fn is_forgotten(self: Arc<Self>) -> bool;
}

impl<T: super::Table> AnyTable for ThreadTable<T> {
    fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
    }

    fn is_forgotten(self: Arc<Self>) -> bool {
        // One reference is this one, the other is the thread's own.
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
    /// The thread ends: what it recorded stays with the recorders that share the tables.
    fn drop(&mut self) {
        forget_current();
        open_scopes::withdraw_thread();
        for attachment in self.0.get_mut() {
            attachment.table.end();
        }
    }
}

/// The table used last by this thread, of those of one [kind](super::Table::KIND): profilers of two kinds
/// that are told in turn find both at once.
///
/// *Invariant*: `table` points to the `T` inside the `ThreadTable<T>` of an entry of this thread's
/// `ATTACHMENTS` whose session is `session`; no entry is removed before all of `CURRENT` is reset. A
/// session belongs to one recorder, so `T` is that recorder's table type.
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

/// Until this is dropped the calling thread attaches to nothing: it holds the lock that attaching may
/// need. What it starts meanwhile, in a signal handler or in the program's allocator, is counted as
/// lost.
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

/// The table of this kind used last by this thread, and its session.
///
/// The pointer is good until this thread attaches to another session or ends, and of type `T` if
/// the session is of a recorder whose tables are of type `T`.
#[inline(always)]
pub(super) fn current<T: super::Table>() -> (u64, *const T) {
    let current = CURRENT.with(|current| current[T::KIND as usize].get());
    (current.session, current.table.cast())
}

/// What [`attach`] answers.
pub(super) struct Attached<T> {
    pub(super) table: Arc<ThreadTable<T>>,
    /// The table that was current until now, if it belongs to a later session of the same
    /// recorder: a stage inside the one that is attached to.
    pub(super) inner: Option<Arc<ThreadTable<T>>>,
}

/// Makes the table of `session` the current one; `make` registers a new one with the recorder if
/// the thread has none yet. `None` if `make` does not, or while the thread is being torn down or is
/// [closed](Closed).
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
            // SAFETY: as `CURRENT`: good until this thread attaches again or ends.
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

/// Tells the numbers of the actions that are open in a table.
///
/// # Safety
///
/// `table` is a `T`, and the calling thread is the one that records into it.
unsafe fn tell_open<T: super::Table>(table: *const (), tell: &mut dyn FnMut(u32)) {
    // SAFETY: as the caller promises.
    unsafe { &*table.cast::<T>() }.stack().tell_open(tell);
}

/// This thread's tables of `recorder` in all sessions, the latest first. Takes no memory: a scope that was
/// lost, in a signal handler, is looked for, too.
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
    // SAFETY: the type was just compared, and the pointer comes from `Arc::into_raw` of the same
    // allocation.
    Some(unsafe { Arc::from_raw(pointer) })
}

/// How often this thread attached, which a start or stop does only where the table that it wants is not
/// at hand.
#[cfg(test)]
pub(crate) mod attaches {
    use std::cell::Cell;

    thread_local!(static ATTACHES: Cell<usize> = const { Cell::new(0) });

    pub(super) fn add() {
        ATTACHES.set(ATTACHES.get() + 1);
    }

    /// Until now.
    pub(crate) fn count() -> usize {
        ATTACHES.get()
    }
}
