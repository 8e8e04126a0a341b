//! Receives the calls of instrumented code.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::enabled_flags::{WANTED, wanted, word};
use super::returned::{self, SplicedTensor};
use super::run;
use super::site::{Site, SiteKind};
use crate::active::{self, ActiveScope};
use crate::hook::{self, Direction, InputsBuilder, Instrumentation, OpStart};
use crate::lines::abi::{self, LineFrame, LineSite};
use crate::{Action, Interest, allocation};

/// Version of [`Sink`] and [`Site`]. A runtime and a program with different versions do not work
/// together.
pub const SINK_VERSION: u32 = 5;

/// Function table that the runtime library calls. Each copy of this crate in a process has one.
#[repr(C)]
#[derive(Debug)]
pub struct Sink {
    /// [`SINK_VERSION`].
    pub version: u32,
    /// Makes this sink the active one. The word receives the [wanted](mod@super::wanted) bits for
    /// instrumented code.
    pub begin: extern "C" fn(wanted: &'static AtomicU32),
    /// Ends the use of this sink, because another one replaces it.
    pub end: extern "C" fn(),
    /// Begins a function. Returns 0 if nothing was opened. The words are those of
    /// [`InputsBuilder::set_words`], or null. They are not copied.
    pub open: unsafe extern "C" fn(site: *const Site, words: *const i64, count: usize) -> u64,
    /// Ends a function. `opened` is the value that `open` returned.
    pub close: unsafe extern "C" fn(site: *const Site, opened: u64),
    /// Passes the tensors that an open op returns, and its inputs. Called only while
    /// [`wanted::OUTPUTS`] is set.
    pub returned: unsafe extern "C" fn(
        site: *const Site,
        outputs: *const SplicedTensor,
        output_count: usize,
        inputs: *const SplicedTensor,
        input_count: usize,
    ),
    /// Functions for lines.
    pub lines: LinesSink,
    /// Functions for the allocator's operations.
    pub allocations: AllocationsSink,
}

/// Functions of [`lines::abi`](crate::lines::abi).
#[repr(C)]
#[derive(Debug)]
pub struct LinesSink {
    /// [`abi::declare`].
    pub declare: unsafe extern "C" fn(site: *const LineSite),
    /// [`abi::enter`].
    pub enter: unsafe extern "C" fn(site: *const LineSite, frame: *const LineFrame, kind: u32),
    /// [`abi::at`].
    pub at: unsafe extern "C" fn(frame: *const LineFrame, point: u32),
    /// [`abi::back`].
    pub back: unsafe extern "C" fn(frame: *const LineFrame, point: u32),
    /// [`abi::leave`].
    pub leave: unsafe extern "C" fn(frame: *const LineFrame),
    /// [`abi::suspend`].
    pub suspend: unsafe extern "C" fn(frame: *const LineFrame),
    /// [`abi::resume`].
    pub resume: unsafe extern "C" fn(frame: *const LineFrame),
}

/// Functions of [`allocation`] that receive allocator events.
#[repr(C)]
#[derive(Debug)]
pub struct AllocationsSink {
    /// [`allocation::allocated`].
    pub allocated: extern "C" fn(address: usize, bytes: usize),
    /// [`allocation::freed`].
    pub freed: extern "C" fn(address: usize, bytes: usize),
    /// [`allocation::kept`].
    pub kept: extern "C" fn(address: usize, bytes: usize),
    /// [`allocation::copied`].
    pub copied: extern "C" fn(bytes: usize),
}

/// Returns the table of this copy of the crate.
pub fn sink() -> &'static Sink {
    static SINK: Sink = Sink {
        version: SINK_VERSION,
        begin,
        end,
        open,
        close,
        returned,
        lines: LinesSink {
            declare: abi::declare,
            enter: abi::enter,
            at: abi::at,
            back: abi::back,
            leave: abi::leave,
            suspend: abi::suspend,
            resume: abi::resume,
        },
        allocations: AllocationsSink { allocated, freed, kept, copied },
    };
    &SINK
}

/// Marks a site that is opened only because its end is the end of a step.
const ONLY_A_STEP: u64 = u64::MAX;

/// Keeps the word in line with the interest of the active profilers.
struct SplicedCode;

impl Instrumentation for SplicedCode {
    fn interest_changed(&self, interest: Interest) {
        let Some(word) = word() else { return };
        let others = word.load(Ordering::Relaxed) & !wanted::INTEREST;
        let outputs = if interest.contains(Interest::OP_OUTPUTS) { wanted::OUTPUTS } else { 0 };
        let lower = u32::from(interest.bits()) & u32::from(u8::MAX);
        word.store(others | lower | outputs, Ordering::Relaxed);
    }

    fn ops_of(&self) -> Option<&'static str> {
        run::has_ops().then_some("the hooks of `mlprof run --ops`")
    }
}

extern "C" fn begin(wanted: &'static AtomicU32) {
    // A panic must not unwind into C.
    let _ = catch_unwind(|| {
        wanted.store(0, Ordering::Relaxed);
        WANTED.store(std::ptr::from_ref(wanted).cast_mut(), Ordering::Release);
        hook::register(Arc::new(SplicedCode)).forever();
        run::start();
    });
}

extern "C" fn end() {
    let _ = catch_unwind(|| {
        run::abandon();
        WANTED.store(std::ptr::null_mut(), Ordering::Release);
    });
}

extern "C" fn allocated(address: usize, bytes: usize) {
    allocation::allocated(address, bytes);
}

extern "C" fn freed(address: usize, bytes: usize) {
    allocation::freed(address, bytes);
}

extern "C" fn kept(address: usize, bytes: usize) {
    allocation::kept(address, bytes);
}

extern "C" fn copied(bytes: usize) {
    allocation::copied(bytes);
}

thread_local! {
    /// Number of open calls that compute gradients.
    static BACKWARD: Cell<u32> = const { Cell::new(0) };
    /// Open ops with run-time names, innermost last.
    static NAMED: RefCell<Vec<Action>> = const { RefCell::new(Vec::new()) };
}

/// # Safety
///
/// `site` must point to a site that lives forever. `words` must be null or point to `count` words.
unsafe extern "C" fn open(site: *const Site, words: *const i64, count: usize) -> u64 {
    let opened = catch_unwind(|| {
        // SAFETY: the caller guarantees that `site` points to a site that lives forever.
        let site = unsafe { &*site };
        match site.kind() {
            SiteKind::Function | SiteKind::Resumption => {
                active::open(|| site.action(), Interest::FUNCTIONS)
            }
            SiteKind::Op | SiteKind::ResumedOp | SiteKind::Backward | SiteKind::ResumedBackward => {
                // SAFETY: the caller guarantees that `words` is null or points to `count` words.
                let opened = unsafe { open_op(site.action(), words, count) };
                if site.kind().is_backward() && opened.is_some() {
                    BACKWARD.set(BACKWARD.get() + 1);
                }
                opened
            }
            SiteKind::NamedOp => {
                // SAFETY: the caller guarantees `count` words. For a named op, instrumented code
                // passes the address and length of the name first.
                unsafe { open_named_op(site, words, count) }
            }
            SiteKind::Action => open_action(site),
            SiteKind::Step => Some(open_action(site).unwrap_or(ONLY_A_STEP)),
        }
    });
    opened.ok().flatten().unwrap_or(0)
}

/// # Safety
///
/// `words` must be null or point to `count` words.
#[inline(always)]
unsafe fn open_op(action: Action, words: *const i64, count: usize) -> Option<u64> {
    let direction = match BACKWARD.get() {
        0 => Direction::Forward,
        _ => Direction::Backward,
    };
    let open = |inputs: Option<&InputsBuilder>| {
        let op = OpStart { direction, inputs, ..OpStart::new(action) };
        ActiveScope::open_op(&op, Interest::OPS)
    };
    if words.is_null() {
        return open(None);
    }
    // SAFETY: `words` is not null, so the caller guarantees that it points to `count` words.
    let words = unsafe { std::slice::from_raw_parts(words, count) };
    InputsBuilder::with_words(words, |inputs| open(Some(inputs)))
}

/// # Safety
///
/// `words` must point to `count` words. The first two must be the address and the length of a text
/// that is valid during the call.
unsafe fn open_named_op(site: &Site, words: *const i64, count: usize) -> Option<u64> {
    // SAFETY: the caller guarantees that `words` points to `count` words.
    let words = unsafe { std::slice::from_raw_parts(words, count) };
    let [address, length, inputs @ ..] = words else { return None };
    // SAFETY: the caller guarantees that the first two words are the address and length of a valid
    // text.
    let name = unsafe { std::slice::from_raw_parts(*address as *const u8, *length as usize) };
    // Memory allocated here does not count as the program's.
    mlprof_events::uncounted(|| {
        let action = site.op_named(&String::from_utf8_lossy(name));
        let inputs_start = if inputs.is_empty() { std::ptr::null() } else { inputs.as_ptr() };
        // SAFETY: `inputs` is a valid slice, or the pointer is null.
        let opened = unsafe { open_op(action, inputs_start, inputs.len()) }?;
        let noted = NAMED.try_with(|open| open.try_borrow_mut().map(|mut open| open.push(action)));
        if matches!(noted, Ok(Ok(()))) {
            return Some(opened);
        }
        // The thread is being torn down and could not find the op when it ends.
        ActiveScope::close(opened, action);
        None
    })
}

/// Opens an action unless it would be recorded twice. mlprof's training loops report actions
/// themselves, and a user's loop may do so with `.profile_optimizer()` or `profile!`. A loop on an
/// unrelated thread does not matter.
fn open_action(site: &Site) -> Option<u64> {
    if active::RunningLoop::is_around() || active::is_open(site.action()) {
        return None;
    }
    active::open(|| site.action(), Interest::ACTIONS)
}

/// # Safety
///
/// `site` must point to a site that lives forever.
unsafe extern "C" fn close(site: *const Site, opened: u64) {
    let _ = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the caller guarantees that `site` points to a site that lives forever.
        let site = unsafe { &*site };
        if site.kind() == SiteKind::NamedOp {
            let last = NAMED.try_with(|open| open.try_borrow_mut().ok()?.pop());
            if let Some(action) = last.ok().flatten() {
                ActiveScope::close(opened, action);
            }
        } else if opened != ONLY_A_STEP {
            ActiveScope::close(opened, site.action());
        }
        match site.kind() {
            kind if kind.is_backward() => BACKWARD.set(BACKWARD.get().saturating_sub(1)),
            SiteKind::Step => run::step(),
            _ => {}
        }
    }));
}

/// # Safety
///
/// `site` must point to a site that lives forever. `outputs` and `inputs` must point to the given
/// numbers of tensors, which follow the rules of [`SplicedTensor`].
unsafe extern "C" fn returned(
    site: *const Site,
    outputs: *const SplicedTensor,
    output_count: usize,
    inputs: *const SplicedTensor,
    input_count: usize,
) {
    let _ = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the caller guarantees that `site` is valid and that the pointers refer to the
        // given numbers of tensors. Pointers of empty vectors are not null and are aligned.
        let (site, outputs, inputs) = unsafe {
            (
                &*site,
                std::slice::from_raw_parts(outputs, output_count),
                std::slice::from_raw_parts(inputs, input_count),
            )
        };
        let direction = match BACKWARD.get() {
            0 => Direction::Forward,
            _ => Direction::Backward,
        };
        let action = match site.kind() {
            SiteKind::NamedOp => NAMED.with_borrow(|open| open.last().copied()),
            _ => Some(site.action()),
        };
        if let Some(action) = action {
            mlprof_events::uncounted(|| {
                returned::tell(action.name(), direction, outputs, inputs);
            });
        }
    }));
}
