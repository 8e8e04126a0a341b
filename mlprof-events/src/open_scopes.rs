//! Open scopes of a thread, readable by a signal handler on that thread.
//!
//! Every thread that records has an [`OpenScopes`] in its thread-local memory. It points to the
//! tables into which the thread records. The thread announces the address once, and the sampler
//! passes it to the handler. The handler therefore never accesses a thread-local itself: in a
//! shared library, the first access may allocate.

use std::cell::Cell;
use std::collections::HashMap;
use std::ptr;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering, compiler_fence};
use std::thread::Thread;

use crate::forking::{Mutex, apart_from_forks, forks};

/// Function that passes the numbers of a table's open actions to `tell`, outermost first.
pub type Tell = unsafe fn(table: *const (), tell: &mut dyn FnMut(u32));

/// Number of tables that a thread can publish at once: one for each kind of recorder.
pub const TABLES: usize = 4;

/// Published tables of a thread. Readers use the first table with open scopes.
pub struct OpenScopes([OpenTable; TABLES]);
crate::debug_as_name!([] OpenScopes);

/// One published table of a thread.
///
/// *Invariant*: only the owning thread writes it, and only a handler on the same thread or the
/// thread itself reads it. `tell` is either null or the function for `table`, which is then valid.
/// The owner sets `tell` to null before it changes the other fields or frees the table, and sets it
/// to the function last.
struct OpenTable {
    session: AtomicU64,
    table: AtomicPtr<()>,
    /// A [`Tell`], stored as a pointer.
    tell: AtomicPtr<()>,
}

thread_local! {
    // The initial value is constant and the type has no destructor. The memory therefore stays
    // valid until the thread has ended.
    static OPEN: OpenScopes = const { OpenScopes([const { OpenTable::none() }; TABLES]) };
    /// Process in which the thread has announced itself, as 1 + [`forks`], or 0. A forked child has
    /// a copy of the value of its parent.
    static ANNOUNCED_IN: Cell<u32> = const { Cell::new(0) };
}

impl OpenScopes {
    /// Passes the open actions of the first table that has any to `tell_action`, outermost first.
    /// Returns the session of that table. If no action is open, returns the session of the first
    /// published table, or 0 if there is none.
    ///
    /// # Safety
    ///
    /// The caller must be the owning thread, or a signal handler that interrupted it.
    pub unsafe fn read(&self, tell_action: &mut dyn FnMut(u32)) -> u64 {
        let mut first = 0;
        for table in &self.0 {
            let mut is_open = false;
            let mut tell = |number| {
                is_open = true;
                tell_action(number);
            };
            // SAFETY: the caller runs on the owning thread, as the contract of this function
            // requires.
            let session = unsafe { table.read(&mut tell) };
            if is_open {
                return session;
            }
            if first == 0 {
                first = session;
            }
        }
        first
    }
}

impl OpenTable {
    const fn none() -> Self {
        Self {
            session: AtomicU64::new(0),
            table: AtomicPtr::new(ptr::null_mut()),
            tell: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// # Safety
    ///
    /// The caller must be the owning thread, or a signal handler that interrupted it.
    unsafe fn read(&self, tell_action: &mut dyn FnMut(u32)) -> u64 {
        let tell = self.tell.load(Ordering::Relaxed);
        if tell.is_null() {
            return 0;
        }
        compiler_fence(Ordering::Acquire);
        // SAFETY: the pointer is not null, so `publish_table` stored a `Tell` in it. Function
        // pointers and data pointers have the same size here.
        let tell = unsafe { std::mem::transmute::<*mut (), Tell>(tell) };
        // SAFETY: `tell` is not null, so by the invariant `table` belongs to it and is valid. The
        // owner cannot withdraw it meanwhile, because this code runs on the owner's thread.
        unsafe { tell(self.table.load(Ordering::Relaxed), tell_action) };
        self.session.load(Ordering::Relaxed)
    }

    fn withdraw(&self) {
        self.tell.store(ptr::null_mut(), Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
    }
}

/// Withdraws the table published at `place`. Handlers do not read it after this call.
pub fn withdraw_table(place: usize) {
    OPEN.with(|open| open.0[place].withdraw());
}

/// Withdraws all tables of the calling thread. Handlers do not read them after this call.
pub fn withdraw_tables() {
    OPEN.with(|open| open.0.iter().for_each(OpenTable::withdraw));
}

/// Publishes the open actions of `table` at `place`, which must be below [`TABLES`]. If several
/// tables have open actions, readers use the one at the lowest place.
///
/// # Safety
///
/// `table` must stay valid for `tell` until [`withdraw_table`] is called for this place on this
/// thread.
pub unsafe fn publish_table(place: usize, session: u64, table: *const (), tell: Tell) {
    OPEN.with(|open| {
        let open = &open.0[place];
        open.withdraw();
        open.session.store(session, Ordering::Relaxed);
        open.table.store(table.cast_mut(), Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        open.tell.store(tell as *mut (), Ordering::Relaxed);
    });
    let process = forks() + 1;
    if ANNOUNCED_IN.replace(process) != process {
        announce();
    }
}

/// Threads that have announced their open scopes, by thread id.
#[derive(Default)]
struct Announced {
    /// Value of [`forks`] in the process whose threads these are.
    forks: u32,
    threads: HashMap<i32, Address>,
    /// Thread to wake when a new thread registers.
    listener: Option<Thread>,
}

/// Address of a thread's [`OpenScopes`].
#[derive(Debug, Clone, Copy)]
pub struct Address(pub *const OpenScopes);

// SAFETY: sending the pointer does not access the memory. Only the owning thread, or a handler on
// it, reads through it.
unsafe impl Send for Address {}

static ANNOUNCED: Mutex<Option<Announced>> = Mutex::new(None);

fn with_announced<T>(use_them: impl FnOnce(&mut Announced) -> T) -> T {
    apart_from_forks(|| {
        let mut announced = ANNOUNCED.lock().unwrap_or_else(PoisonError::into_inner);
        let announced = announced.get_or_insert_default();
        if announced.forks != forks() {
            // This is a forked child: it has none of its parent's other threads, and other ids.
            *announced = Announced { forks: forks(), ..Announced::default() };
        }
        use_them(announced)
    })
}

fn announce() {
    let address = OPEN.with(|open| Address(ptr::from_ref(open)));
    with_announced(|announced| {
        announced.threads.insert(this_thread(), address);
        if let Some(listener) = &announced.listener {
            listener.unpark();
        }
    });
}

/// Removes the calling thread from the announced threads. It must be called before the thread ends
/// and its thread-local memory is freed.
pub fn withdraw_thread() {
    withdraw_tables();
    if ANNOUNCED_IN.replace(0) == forks() + 1 {
        with_announced(|announced| announced.threads.remove(&this_thread()));
    }
}

/// Passes the addresses of all announced threads to `use_addresses`. Each address is valid as long
/// as its thread lives.
pub fn with_addresses(use_addresses: impl FnOnce(&HashMap<i32, Address>)) {
    with_announced(|announced| use_addresses(&announced.threads));
}

/// Sets the thread to wake when a new thread registers, or clears it with `None`.
pub fn listen(listener: Option<Thread>) {
    with_announced(|announced| announced.listener = listener);
}

#[cfg(target_os = "linux")]
fn this_thread() -> i32 {
    // SAFETY: `gettid` takes no arguments, changes no state and cannot fail.
    unsafe { libc::gettid() }
}

#[cfg(not(target_os = "linux"))]
fn this_thread() -> i32 {
    0
}

#[cfg(all(test, target_os = "linux", not(loom), not(miri)))]
mod tests {
    use super::*;

    fn no_actions(_table: *const (), _tell: &mut dyn FnMut(u32)) {}

    fn publish() {
        // SAFETY: `no_actions` does not read the table.
        unsafe { publish_table(0, 1, ptr::null(), no_actions) };
    }

    fn announced() -> Vec<i32> {
        let mut threads = Vec::new();
        with_addresses(|addresses| threads.extend(addresses.keys()));
        threads
    }

    #[test]
    fn a_forked_child_announces_its_own_threads_only() {
        publish();
        assert!(announced().contains(&this_thread()));
        // SAFETY: the child takes locks that forks respect, allocates, which the C library allows
        // in a child, and exits.
        let child = unsafe { libc::fork() };
        assert!(child >= 0);
        if child == 0 {
            let starts_empty = announced().is_empty();
            publish();
            let is_right = starts_empty && announced() == [this_thread()];
            // SAFETY: `_exit` takes a number. It ends the child without running the parent's exit
            // handlers.
            unsafe { libc::_exit(i32::from(!is_right)) }
        }
        let mut status = 1;
        // SAFETY: `status` is a valid place for the exit status.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
        assert!(announced().contains(&this_thread()));
        withdraw_thread();
        assert!(!announced().contains(&this_thread()));
    }
}
