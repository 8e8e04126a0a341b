//! Start and end of CUPTI's collection.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, Once, OnceLock, PoisonError};
use std::time::Duration;

use super::buffers::{Buffer, Buffers, SIZE};
use super::delivery::{Delivery, Lost};
use super::departure::Callers;
use super::functions::{Functions, check, code};
use super::records::{self, kind};
use super::timeline::Timeline;
use super::unavailable::Unavailable;
use crate::events::set_numbering;
use crate::process_exit;
use mlprof_core::Interest;
use mlprof_events::environment::variable;
use mlprof_events::own_thread;
use mlprof_events::uncounted;

static BUFFERS: LazyLock<Buffers> = LazyLock::new(Buffers::new);

/// Maximum time to wait for the reader thread. A report without the last kernels is better than a
/// blocked training.
const PATIENCE: Duration = Duration::from_secs(60);

/// State of CUPTI in this process.
pub(super) struct Collector {
    functions: &'static Functions,
    delivery: &'static Mutex<Delivery>,
    /// Active subscription, if there is one.
    active: Mutex<Option<Active>>,
    recordings: AtomicU32,
    /// Set after CUPTI has left the process at least once.
    has_left: AtomicBool,
}

struct Active {
    subscriber: *mut c_void,
    kinds: Vec<u32>,
    interest: Interest,
}

// SAFETY: `subscriber` is an opaque handle that only CUPTI dereferences. `cuptiUnsubscribe` accepts
// it on any thread.
unsafe impl Send for Active {}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Record kinds that are required.
const NEEDED: [u32; 3] = [kind::CONCURRENT_KERNEL, kind::RUNTIME, kind::DRIVER];

/// Record kinds that are collected if CUPTI supports them.
const WELCOME: [u32; 6] = [
    kind::MEMCPY,
    kind::MEMCPY2,
    kind::MEMSET,
    kind::SYNCHRONIZATION,
    kind::OVERHEAD,
    kind::EXTERNAL_CORRELATION,
];

/// Returns `true` if CUPTI is the tool that receives NVTX ranges.
fn hears_nvtx() -> bool {
    let tool = variable("NVTX_INJECTION64_PATH").unwrap_or_default();
    tool.to_string_lossy().contains("cupti")
}

static NUMBERS: OnceLock<&'static Functions> = OnceLock::new();
/// Set while CUPTI is loaded. Calling any CUPTI function after it has left would load it again.
static IS_THERE: AtomicBool = AtomicBool::new(false);

/// Returns CUPTI's ids of a context and a stream of it.
fn numbers_of(context: *mut c_void, stream: *mut c_void) -> Option<(u32, u32)> {
    let functions = NUMBERS.get().filter(|_| IS_THERE.load(Ordering::Relaxed))?;
    let (mut context_number, mut stream_number) = (0, 0);
    // SAFETY: the context and the stream exist, because the caller enqueues work on the stream. The
    // functions write one `u32` each to initialised locals.
    let are_known = unsafe {
        (functions.context_number?)(context, &mut context_number) == code::SUCCESS
            && (functions.stream_number?)(context, stream, 0, &mut stream_number) == code::SUCCESS
    };
    are_known.then_some((context_number, stream_number))
}

extern "C" fn buffer_requested(buffer: *mut *mut u8, size: *mut usize, records: *mut usize) {
    let given = catch_unwind(|| uncounted(|| BUFFERS.request())).ok().flatten();
    let (start, room) = given.map_or((std::ptr::null_mut(), 0), |given| (given.into_raw(), SIZE));
    // SAFETY: CUPTI passes pointers to three locations of its own, which are valid for writes
    // during the callback. `start` is null, or it points to `SIZE` bytes that CUPTI owns until it
    // returns the buffer.
    unsafe {
        *records = 0;
        *size = room;
        *buffer = start;
    }
}

extern "C" fn buffer_completed(
    _context: *mut c_void,
    _stream: u32,
    buffer: *mut u8,
    _size: usize,
    filled: usize,
) {
    let _ = catch_unwind(|| {
        uncounted(|| {
            // SAFETY: `buffer` is a pointer that `buffer_requested` obtained from `into_raw`, or
            // null. CUPTI returns each buffer exactly once.
            if let Some(buffer) = unsafe { Buffer::from_raw(buffer) } {
                BUFFERS.complete(buffer, filled);
            }
        });
    });
}

impl Collector {
    /// Loads CUPTI and starts the reader thread, once per process. `driver` is the major CUDA
    /// version that the driver supports.
    pub(super) fn new(driver: Option<u32>) -> Result<Self, Unavailable> {
        let functions: &'static Functions = Box::leak(Box::new(Functions::load(driver)?));
        let _ = NUMBERS.set(functions);
        set_numbering(numbers_of);
        let delivery: &'static Mutex<Delivery> =
            Box::leak(Box::new(Mutex::new(Delivery::new(functions))));
        let started = own_thread::spawn("mlprof-cupti", move || read_buffers(functions, delivery));
        started.map_err(|error| Unavailable::Failed {
            function: "starting a thread",
            name: error.to_string(),
        })?;
        Ok(Self {
            functions,
            delivery,
            active: Mutex::new(None),
            recordings: AtomicU32::new(0),
            has_left: AtomicBool::new(false),
        })
    }

    /// Configures the clock, the thread ids and the buffers. It must run before any record kind is
    /// enabled.
    fn prepare(&self) -> Result<Timeline, Unavailable> {
        let functions = self.functions;
        let timeline = Timeline::agree(functions);
        if let Some(set) = functions.set_thread_numbers {
            const OF_THE_SYSTEM: u32 = 1;
            // SAFETY: the function takes an integer and rejects unknown values. In that case, calls
            // have CUPTI's own thread ids.
            unsafe { set(OF_THE_SYSTEM) };
        }
        // SAFETY: both arguments are `extern "C"` functions with CUPTI's signatures. They exist
        // until the process ends, and they do not unwind.
        let code = unsafe { (functions.register_callbacks)(buffer_requested, buffer_completed) };
        check("cuptiActivityRegisterCallbacks", code)
            .map_err(|failure| functions.explain(failure))?;
        Ok(timeline)
    }

    pub(super) fn functions(&self) -> &'static Functions {
        self.functions
    }

    /// Returns the number of the recording, from 1.
    pub(super) fn recording(&self) -> u32 {
        self.recordings.load(Ordering::Relaxed)
    }

    /// Starts to collect the records that `interest` needs.
    pub(super) fn begin(&self, interest: Interest) -> Result<(), Unavailable> {
        let mut active = lock(&self.active);
        if active.as_ref().is_some_and(|active| active.interest == interest) {
            return Ok(());
        }
        if let Some(before) = active.take() {
            self.turn_off(before);
        }
        IS_THERE.store(true, Ordering::Relaxed);
        let subscriber = self.functions.claim()?;
        let mut begun = Active { subscriber, kinds: Vec::new(), interest };
        let turned_on = self.prepare().and_then(|timeline| {
            let recording = self.recordings.fetch_add(1, Ordering::Relaxed) + 1;
            lock(self.delivery).begin(recording, timeline);
            self.turn_on(&mut begun)
        });
        match turned_on {
            Ok(()) => {
                *active = Some(begun);
                // `atexit` handlers run in reverse order. Registering ours after CUPTI's makes it
                // run first.
                static ENDING: Once = Once::new();
                ENDING.call_once(process_exit::watch);
            }
            Err(_) => self.turn_off(begun),
        }
        turned_on
    }

    fn turn_on(&self, active: &mut Active) -> Result<(), Unavailable> {
        let memory = active.interest.contains(Interest::MEMORY).then_some(kind::MEMORY2);
        let marker = hears_nvtx().then_some(kind::MARKER);
        for kind in NEEDED.into_iter().chain(WELCOME).chain(memory).chain(marker) {
            // SAFETY: the function takes an integer and rejects unknown kinds.
            let enabled = check("cuptiActivityEnable", unsafe { (self.functions.enable)(kind) });
            match enabled {
                Ok(()) => active.kinds.push(kind),
                Err(failure) if NEEDED.contains(&kind) => {
                    return Err(self.functions.explain(failure));
                }
                Err(_) => {}
            }
        }
        Ok(())
    }

    fn turn_off(&self, active: Active) {
        for kind in active.kinds {
            // SAFETY: the function takes an integer. This kind was enabled before.
            unsafe { (self.functions.disable)(kind) };
        }
        // SAFETY: `claim` returned this subscriber. `Active` is consumed here, so it is
        // unsubscribed only once.
        unsafe { (self.functions.unsubscribe)(active.subscriber) };
    }

    /// Stops collecting, and makes CUPTI leave the process if that is safe or requested.
    pub(super) fn end(&self) {
        let Some(active) = lock(&self.active).take() else { return };
        self.turn_off(active);
        let leaves = lock(self.delivery).callers.let_cupti_leave();
        if leaves && let Some(finalize) = self.functions.finalize {
            IS_THERE.store(false, Ordering::Relaxed);
            // SAFETY: all kinds are disabled and the subscriber is gone. `cuptiFinalize` also
            // requires that no other thread is inside a CUDA call. Either only this thread made
            // CUDA calls in the recording, or the program accepted the risk through
            // `finalize_cupti`.
            unsafe { finalize() };
            self.has_left.store(true, Ordering::Relaxed);
        }
    }

    /// Delivers all completed records. Returns sentences about missing data.
    pub(super) fn flush(&self) -> Vec<String> {
        const ALL: u32 = 1;
        // SAFETY: the function takes an integer. 1 is `CUPTI_ACTIVITY_FLAG_FLUSH_FORCED`, a valid
        // flag.
        let code = unsafe { (self.functions.flush_all)(ALL) };
        let mut missing = Vec::new();
        if let Err(failure) = check("cuptiActivityFlushAll", code) {
            missing.push(format!("kernels may be missing: {}", self.functions.explain(failure)));
        }
        if !BUFFERS.wait_until_read(PATIENCE) {
            missing.push("kernels are missing: reading them took too long".to_owned());
        }
        let mut dropped = 0;
        // SAFETY: the function writes one `usize` to `dropped`, an initialised local. A null
        // context selects the count for all contexts.
        unsafe { (self.functions.dropped_records)(std::ptr::null_mut(), 0, &mut dropped) };
        let has_dropped = BUFFERS.take_refused() > 0 || dropped > 0;
        let (lost, records) = {
            let mut delivery = lock(self.delivery);
            delivery.settle();
            if has_dropped {
                delivery.callers = Callers::Several;
            }
            (std::mem::take(&mut delivery.lost), delivery.records)
        };
        // Waiting for the devices is a call that CUPTI always records. Without any record, CUPTI no
        // longer works.
        if records == 0 && self.has_left.load(Ordering::Relaxed) {
            missing.push(
                "kernels and copies are missing: CUPTI reports nothing after it was detached during CUDA \
                 calls of other threads"
                    .to_owned(),
            );
        }
        missing.extend(Self::describe(lost, has_dropped.then_some(dropped)));
        missing
    }

    fn describe(lost: Lost, dropped: Option<usize>) -> Vec<String> {
        let mut words = Vec::new();
        if let Some(dropped) = dropped {
            words.push(format!(
                "CUPTI had no room for {dropped} of its records (kernels, copies and calls), so they are missing"
            ));
        }
        if lost.unreadable > 0 {
            words.push(format!("{} unreadable CUPTI records are missing", lost.unreadable));
        }
        if lost.untimed > 0 {
            words.push(format!(
                "the numbers exclude {} kernels and copies, because CUPTI has no times for them",
                lost.untimed
            ));
        }
        words
    }
}

/// Runs the reader thread, which reads full buffers forever.
fn read_buffers(functions: &'static Functions, delivery: &Mutex<Delivery>) {
    loop {
        let (buffer, filled) = BUFFERS.take();
        // The buffer must be returned to the pool even if reading it panics.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            let read = || read_buffer(functions, &mut lock(delivery), &buffer, filled);
            process_exit::before(read);
            // The thread must not keep a finished profiler alive while it waits.
            mlprof_core::let_go();
        }));
        BUFFERS.give_back(buffer);
    }
}

fn read_buffer(functions: &Functions, delivery: &mut Delivery, buffer: &Buffer, filled: usize) {
    let (start, mut record) = (buffer.start(), std::ptr::null_mut());
    loop {
        // SAFETY: `start` points to a buffer that CUPTI returned with `filled` bytes of records,
        // and this thread owns it. `record` is null for the first record, and otherwise the
        // previous record in the same buffer.
        match unsafe { (functions.next_record)(start, filled, &mut record) } {
            code::SUCCESS => {}
            code::MAX_LIMIT_REACHED => return,
            // The position of the records after this one is unknown.
            _ => {
                delivery.lost.unreadable += 1;
                return;
            }
        }
        let Some(offset) = record.addr().checked_sub(start.addr()).filter(|at| *at < filled) else {
            delivery.lost.unreadable += 1;
            return;
        };
        // SAFETY: `offset < filled <= SIZE`, so these bytes are inside the buffer. CUPTI has
        // written the first `filled` bytes. This thread owns the buffer, so the bytes do not change
        // during the borrow. `u8` needs no alignment.
        let bytes = unsafe { std::slice::from_raw_parts(record, filled - offset) };
        match records::read(bytes) {
            // SAFETY: CUPTI owns the strings that the record points to, and it keeps them after it
            // has returned the buffer.
            Ok(record) => unsafe { delivery.record(&record) },
            Err(_) => delivery.lost.unreadable += 1,
        }
    }
}
