//! What is open on a thread, where a signal handler on that thread can read it.
//!
//! Every thread that records has an [`OpenScopes`] in its thread-local memory, which says where the
//! tables are that it records into. The thread announces the address once; the sampler hands it to
//! the handler, which so never touches a thread-local of ours itself: in a shared library the first
//! touch may allocate.

use std::cell::Cell;
use std::collections::HashMap;
use std::ptr;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering, compiler_fence};
use std::thread::Thread;

use crate::forking::{Mutex, apart_from_forks};

/// Tells the numbers of the open actions of the table that the pointer points to, outermost first.
pub type Tell = unsafe fn(table: *const (), tell: &mut dyn FnMut(u32));

/// How many tables a thread can show at once: one of each kind that records.
pub const TABLES: usize = 4;

/// Where a thread's open scopes are: those of the first of its tables that has any.
pub struct OpenScopes([OpenTable; TABLES]);
crate::debug_as_name!([] OpenScopes);

/// Where one of a thread's tables is.
///
/// *Invariant*: written by its own thread only, and read by a handler on the same thread. `tell` is
/// null, or the function for the `table`, which is alive: it is made null before the table may go.
struct OpenTable {
    session: AtomicU64,
    table: AtomicPtr<()>,
    /// A [`Tell`], as a pointer.
    tell: AtomicPtr<()>,
}

thread_local! {
    // Constant and without a destructor: the memory is good until the thread is gone.
    static OPEN: OpenScopes = const { OpenScopes([const { OpenTable::none() }; TABLES]) };
    static IS_ANNOUNCED: Cell<bool> = const { Cell::new(false) };
}

impl OpenScopes {
    /// Tells the open actions, outermost first, of the first table that has any; the session that they
    /// belong to. Where nothing is open, that of the first table; 0 where there is no table.
    ///
    /// # Safety
    ///
    /// Only in a signal handler on the thread that it belongs to, or on that thread.
    pub unsafe fn read(&self, tell_action: &mut dyn FnMut(u32)) -> u64 {
        let mut first = 0;
        for table in &self.0 {
            let mut is_open = false;
            let mut tell = |number| {
                is_open = true;
                tell_action(number);
            };
            // SAFETY: as the caller promises.
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
    /// As for [`OpenScopes::read`].
    unsafe fn read(&self, tell_action: &mut dyn FnMut(u32)) -> u64 {
        let tell = self.tell.load(Ordering::Relaxed);
        if tell.is_null() {
            return 0;
        }
        compiler_fence(Ordering::Acquire);
        // SAFETY: not null, so it was made from a `Tell`.
        let tell = unsafe { std::mem::transmute::<*mut (), Tell>(tell) };
        // SAFETY: by the invariant the table is the one that `tell` is for, and alive.
        unsafe { tell(self.table.load(Ordering::Relaxed), tell_action) };
        self.session.load(Ordering::Relaxed)
    }

    fn withdraw(&self) {
        self.tell.store(ptr::null_mut(), Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
    }
}

/// From here on nothing is read of the table that was published at this place.
pub fn withdraw_table(place: usize) {
    OPEN.with(|open| open.0[place].withdraw());
}

/// From here on nothing is read of any table of the calling thread.
pub fn withdraw_tables() {
    OPEN.with(|open| open.0.iter().for_each(OpenTable::withdraw));
}

/// Makes the open actions of `table` readable, at a place below [`TABLES`]: where several have open
/// actions, those of the lowest place are read.
///
/// # Safety
///
/// `table` is good for `tell` until [`withdraw_table`] is called for this place on this thread.
pub unsafe fn publish_table(place: usize, session: u64, table: *const (), tell: Tell) {
    OPEN.with(|open| {
        let open = &open.0[place];
        open.withdraw();
        open.session.store(session, Ordering::Relaxed);
        open.table.store(table.cast_mut(), Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        open.tell.store(tell as *mut (), Ordering::Relaxed);
    });
    if !IS_ANNOUNCED.replace(true) {
        announce();
    }
}

/// Threads that have open scopes to read, by their numbers.
#[derive(Default)]
struct Announced {
    threads: HashMap<i32, Address>,
    /// To be woken when there is a new one.
    listener: Option<Thread>,
}

/// Where a thread's [`OpenScopes`] are.
#[derive(Debug, Clone, Copy)]
pub struct Address(pub *const OpenScopes);

// SAFETY: only its own thread, or a handler on it, uses the pointer.
unsafe impl Send for Address {}

static ANNOUNCED: Mutex<Option<Announced>> = Mutex::new(None);

fn with_announced<T>(use_them: impl FnOnce(&mut Announced) -> T) -> T {
    apart_from_forks(|| {
        let mut announced = ANNOUNCED.lock().unwrap_or_else(PoisonError::into_inner);
        use_them(announced.get_or_insert_default())
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

/// The thread ends: its memory goes when it is gone.
pub fn withdraw_thread() {
    withdraw_tables();
    if IS_ANNOUNCED.replace(false) {
        with_announced(|announced| announced.threads.remove(&this_thread()));
    }
}

/// Hands out the addresses of all threads that announced themselves. Each is good as long as its
/// thread lives.
pub fn with_addresses(use_addresses: impl FnOnce(&HashMap<i32, Address>)) {
    with_announced(|announced| use_addresses(&announced.threads));
}

/// Who is woken when a thread announces itself; `None`: nobody any more.
pub fn listen(listener: Option<Thread>) {
    with_announced(|announced| announced.listener = listener);
}

#[cfg(target_os = "linux")]
fn this_thread() -> i32 {
    // SAFETY: it only reads, and cannot fail.
    unsafe { libc::gettid() }
}

#[cfg(not(target_os = "linux"))]
fn this_thread() -> i32 {
    0
}
