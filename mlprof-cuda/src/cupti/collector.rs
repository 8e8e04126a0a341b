//! CUPTI, turned on and off.

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

/// CUPTI gives this up if a reader takes longer: rather a table without the last kernels than a
/// training that stands still.
const PATIENCE: Duration = Duration::from_secs(60);

/// CUPTI as this process uses it.
pub(super) struct Collector {
    functions: &'static Functions,
    delivery: &'static Mutex<Delivery>,
    /// What was claimed, and the kinds of records that are collected.
    active: Mutex<Option<Active>>,
    recordings: AtomicU32,
    /// CUPTI was taken out of the process at least once.
    has_left: AtomicBool,
}

struct Active {
    subscriber: *mut c_void,
    kinds: Vec<u32>,
    interest: Interest,
}

// SAFETY: a subscriber may be given back on any thread.
unsafe impl Send for Active {}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Kinds without which there is nothing to show.
const NEEDED: [u32; 3] = [kind::CONCURRENT_KERNEL, kind::RUNTIME, kind::DRIVER];

/// Kinds that are collected where they can be.
const WELCOME: [u32; 6] = [
    kind::MEMCPY,
    kind::MEMCPY2,
    kind::MEMSET,
    kind::SYNCHRONIZATION,
    kind::OVERHEAD,
    kind::EXTERNAL_CORRELATION,
];

/// Whether CUPTI is the tool that NVTX tells of ranges.
fn hears_nvtx() -> bool {
    let tool = variable("NVTX_INJECTION64_PATH").unwrap_or_default();
    tool.to_string_lossy().contains("cupti")
}

static NUMBERS: OnceLock<&'static Functions> = OnceLock::new();
/// CUPTI is in the process: any function of it would bring it back.
static IS_THERE: AtomicBool = AtomicBool::new(false);

/// CUPTI's numbers of a context and a stream of it.
fn numbers_of(context: *mut c_void, stream: *mut c_void) -> Option<(u32, u32)> {
    let functions = NUMBERS.get().filter(|_| IS_THERE.load(Ordering::Relaxed))?;
    let (mut context_number, mut stream_number) = (0, 0);
    // SAFETY: both exist, as the caller has work on the stream; the places are ours.
    let are_known = unsafe {
        (functions.context_number?)(context, &mut context_number) == code::SUCCESS
            && (functions.stream_number?)(context, stream, 0, &mut stream_number) == code::SUCCESS
    };
    are_known.then_some((context_number, stream_number))
}

extern "C" fn buffer_requested(buffer: *mut *mut u8, size: *mut usize, records: *mut usize) {
    let given = catch_unwind(|| uncounted(|| BUFFERS.request())).ok().flatten();
    let (start, room) = given.map_or((std::ptr::null_mut(), 0), |given| (given.into_raw(), SIZE));
    // SAFETY: CUPTI's places for the answer.
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
            // SAFETY: CUPTI gives each buffer back once.
            if let Some(buffer) = unsafe { Buffer::from_raw(buffer) } {
                BUFFERS.complete(buffer, filled);
            }
        });
    });
}

impl Collector {
    /// Loads CUPTI; once in a process. `driver` is CUDA's major version that the
    /// driver knows.
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

    /// Agrees with CUPTI on clock, numbers of threads and room; before any kind of records is turned
    /// on.
    fn prepare(&self) -> Result<Timeline, Unavailable> {
        let functions = self.functions;
        let timeline = Timeline::agree(functions);
        if let Some(set) = functions.set_thread_numbers {
            const OF_THE_SYSTEM: u32 = 1;
            // SAFETY: takes any number; one that it does not know is an error, and calls then belong
            // to threads of their own.
            unsafe { set(OF_THE_SYSTEM) };
        }
        // SAFETY: both are there for the life of the process.
        let code = unsafe { (functions.register_callbacks)(buffer_requested, buffer_completed) };
        check("cuptiActivityRegisterCallbacks", code)
            .map_err(|failure| functions.explain(failure))?;
        Ok(timeline)
    }

    pub(super) fn functions(&self) -> &'static Functions {
        self.functions
    }

    /// Which recording, counted from 1.
    pub(super) fn recording(&self) -> u32 {
        self.recordings.load(Ordering::Relaxed)
    }

    /// Collects from here on what `interest` asks for.
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
                // After CUPTI has put down what it does at the end, so that ours is done before.
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
            // SAFETY: takes any number.
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
            // SAFETY: a kind that was turned on.
            unsafe { (self.functions.disable)(kind) };
        }
        // SAFETY: what `claim` has given.
        unsafe { (self.functions.unsubscribe)(active.subscriber) };
    }

    /// Collects nothing any more, and takes CUPTI out of the process where that is safe or wanted.
    pub(super) fn end(&self) {
        let Some(active) = lock(&self.active).take() else { return };
        self.turn_off(active);
        let leaves = lock(self.delivery).callers.let_cupti_leave();
        if leaves && let Some(finalize) = self.functions.finalize {
            IS_THERE.store(false, Ordering::Relaxed);
            // SAFETY: nothing is collected, and what was has been delivered. No other thread made
            // calls of CUDA's in the recording, or the program has asked for it.
            unsafe { finalize() };
            self.has_left.store(true, Ordering::Relaxed);
        }
    }

    /// Delivers all that is complete. Returns what is missing, in words.
    pub(super) fn flush(&self) -> Vec<String> {
        const ALL: u32 = 1;
        // SAFETY: takes any number.
        let code = unsafe { (self.functions.flush_all)(ALL) };
        let mut missing = Vec::new();
        if let Err(failure) = check("cuptiActivityFlushAll", code) {
            missing.push(format!("kernels may be missing: {}", self.functions.explain(failure)));
        }
        if !BUFFERS.wait_until_read(PATIENCE) {
            missing.push("kernels are missing: reading them took too long".to_owned());
        }
        let mut dropped = 0;
        // SAFETY: the place is ours; null means all contexts.
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
        // Waiting for the devices is a call that CUPTI tells of.
        if records == 0 && self.has_left.load(Ordering::Relaxed) {
            missing.push(
                "CUPTI tells of nothing since it was taken out of the process while threads were \
                 inside of calls of CUDA's: kernels and copies are missing"
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
                "CUPTI had no room for {dropped} of its records (kernels, copies and calls): they \
                 are missing"
            ));
        }
        if lost.unreadable > 0 {
            words.push(format!("{} records of CUPTI's could not be read", lost.unreadable));
        }
        if lost.untimed > 0 {
            words.push(format!(
                "CUPTI has no times of {} kernels and copies: they are not in the numbers",
                lost.untimed
            ));
        }
        words
    }
}

/// The reading thread's work.
fn read_buffers(functions: &'static Functions, delivery: &Mutex<Delivery>) {
    loop {
        let (buffer, filled) = BUFFERS.take();
        // Whatever goes wrong in a profiler, the room is wanted back.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            let read = || read_buffer(functions, &mut lock(delivery), &buffer, filled);
            process_exit::before(read);
            // Whoever waits does not keep a profiler alive.
            mlprof_core::let_go();
        }));
        BUFFERS.give_back(buffer);
    }
}

fn read_buffer(functions: &Functions, delivery: &mut Delivery, buffer: &Buffer, filled: usize) {
    let (start, mut record) = (buffer.start(), std::ptr::null_mut());
    loop {
        // SAFETY: so many bytes are filled, and `record` is where CUPTI has put it.
        match unsafe { (functions.next_record)(start, filled, &mut record) } {
            code::SUCCESS => {}
            code::MAX_LIMIT_REACHED => return,
            // What comes after it cannot be found.
            _ => {
                delivery.lost.unreadable += 1;
                return;
            }
        }
        let Some(offset) = record.addr().checked_sub(start.addr()).filter(|at| *at < filled) else {
            delivery.lost.unreadable += 1;
            return;
        };
        // SAFETY: inside of what is filled, which nobody writes to any more.
        let bytes = unsafe { std::slice::from_raw_parts(record, filled - offset) };
        match records::read(bytes) {
            // SAFETY: names are CUPTI's, which keeps them.
            Ok(record) => unsafe { delivery.record(&record) },
            Err(_) => delivery.lost.unreadable += 1,
        }
    }
}
