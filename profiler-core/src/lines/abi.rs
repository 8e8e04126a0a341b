//! C functions that instrumented code calls, and the data that it shares with this crate.
//!
//! A function with line profiling has a static [`LineSite`]. Every call of it has a [`LineFrame`]
//! on its stack. A *point* is a line that can be *running*. The code template for instrumented
//! crates defines the same two types.
//!
//! | event | function |
//! |---|---|
//! | the program or library with the function is loaded | [`declare`] |
//! | the function, or a closure or async block in it, begins | [`enter`] |
//! | a line begins | [`at`] |
//! | an earlier line continues after another one | [`back`] |
//! | the function returns or unwinds | [`leave`] |
//! | a future in it is polled again, or returns `Pending` | [`resume`], [`suspend`] |
//!
//! All of them may be called on any thread at any time, including before `main`. Calls while a
//! thread is torn down are counted as lost. No function unwinds. Only the first call of a function
//! on a thread may block.

use std::panic::catch_unwind;
use std::sync::atomic::{
    AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed},
};

use super::DeclaredFunction;
use super::block::{Block, NOWHERE};
use super::registry::Function;
use super::thread;
use mlprof_events::Text;

// The code template in instrumented crates uses the same layout, but cannot refer to these types.
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(std::mem::offset_of!(LineFrame, thread) == 16 && size_of::<LineFrame>() == 32);
    assert!(std::mem::offset_of!(LineSite, points) == 56 && size_of::<LineSite>() == 72);
};

/// Kinds of frames that [`enter`] opens. An async frame may continue on another thread.
pub mod frame_kind {
    /// Call of the function.
    pub const CALL: u32 = 0;
    /// Closure in the function, which does not count as a call.
    pub const CLOSURE: u32 = 1;
    /// Call of an async function.
    pub const ASYNC_CALL: u32 = 2;
    /// Async block in the function, which does not count as a call.
    pub const ASYNC_BLOCK: u32 = 3;
}

/// Static of an instrumented crate that describes a function with line profiling, in C layout.
#[derive(Debug)]
#[repr(C)]
pub struct LineSite {
    /// Registered function of this crate, or null before the first call.
    function: AtomicPtr<()>,
    first_line: u32,
    last_line: u32,
    /// [`source_hash`](super::source_hash) of the function's lines.
    source_hash: u64,
    name: Text,
    /// Absolute path of the original source file.
    file: Text,
    /// Line number of each point.
    points: *const u32,
    point_count: usize,
}

// SAFETY: the pointers refer to static data that is never written. `function` is an atomic.
unsafe impl Sync for LineSite {}

impl LineSite {
    /// Returns the registered function. *Cost*: one load, except for the first call.
    #[inline]
    fn function(&self) -> Option<&'static Function> {
        let known = self.function.load(Acquire).cast::<Function>();
        // SAFETY: the pointer is null or was stored by `register`. It then refers to a leaked
        // `Function`.
        unsafe { known.as_ref() }.or_else(|| self.register())
    }

    #[cold]
    fn register(&self) -> Option<&'static Function> {
        super::registry::register(&self.function, || self.declared())
    }

    fn declared(&self) -> DeclaredFunction {
        // SAFETY: instrumented code builds each site from string literals and a static array, so
        // all pointers and lengths are valid. Everything is copied, because the library with the
        // site may be unloaded later.
        let (name, file, points) = unsafe {
            let points = std::slice::from_raw_parts(self.points, self.point_count);
            (self.name.read(), self.file.read(), points.to_vec())
        };
        let Self { first_line, last_line, source_hash, .. } = *self;
        DeclaredFunction { name, file, first_line, last_line, source_hash, points }
    }
}

#[cfg(all(test, not(loom)))]
impl LineSite {
    pub(super) fn for_tests(name: &str, file: &str, points: &[u32]) -> &'static Self {
        let points = points.to_vec().leak();
        let leaked = |text: &str| {
            let text = text.to_owned().leak();
            Text { start: text.as_ptr(), length: text.len() }
        };
        Box::leak(Box::new(Self {
            function: AtomicPtr::default(),
            first_line: points[0],
            last_line: points[points.len() - 1],
            source_hash: 0,
            name: leaked(name),
            file: leaked(file),
            points: points.as_ptr(),
            point_count: points.len(),
        }))
    }
}

#[cfg(all(test, not(loom)))]
impl LineFrame {
    pub(super) fn for_tests() -> Self {
        Self {
            block: AtomicPtr::default(),
            site: AtomicPtr::default(),
            thread: AtomicU64::new(0),
            outer: AtomicU32::new(0),
            point: AtomicU32::new(0),
        }
    }
}

/// State of one call. Only the call itself has its address. The fields are atomic so that the
/// future of an async function may move between threads.
#[repr(C)]
#[derive(Debug)]
pub struct LineFrame {
    /// Null while recording is off.
    block: AtomicPtr<Block>,
    site: AtomicPtr<LineSite>,
    /// Number of the thread that owns the block, for async frames. 0 for other frames.
    thread: AtomicU64,
    /// Point that was running when this frame began or resumed.
    outer: AtomicU32,
    /// Point at which an async frame resumes.
    point: AtomicU32,
}

impl LineFrame {
    #[inline(always)]
    fn block(&self) -> Option<&'static Block> {
        // SAFETY: the pointer is null or refers to a block, and blocks are never freed.
        unsafe { self.block.load(Relaxed).as_ref() }
    }

    /// Returns the block of the calling thread.
    #[inline(always)]
    fn block_here(&self) -> Option<&'static Block> {
        match self.thread.load(Relaxed) {
            0 => self.block(),
            thread => self.moved_block(thread),
        }
    }

    /// Returns the block of an async frame that may have moved to another thread without
    /// [`suspend`]. This happens inside a macro, whose tokens are not instrumented.
    #[cold]
    fn moved_block(&self, before: u64) -> Option<&'static Block> {
        if thread::number() == Some(before) {
            return self.block();
        }
        self.attach(self.point.load(Relaxed))
    }

    /// Resumes at `point` on the calling thread.
    fn attach(&self, point: u32) -> Option<&'static Block> {
        // SAFETY: `enter` stored a pointer to a site with static lifetime.
        let site = unsafe { self.site.load(Relaxed).as_ref() }?;
        let thread = thread::number()?;
        let block = thread::block(site.function()?)?;
        self.outer.store(block.begin(point), Relaxed);
        self.block.store(std::ptr::from_ref(block).cast_mut(), Relaxed);
        self.thread.store(thread, Relaxed);
        Some(block)
    }
}

/// Declares a function with line profiling, so that reports show it even if it never runs.
///
/// # Safety
///
/// `site` must point to a site with static lifetime.
pub unsafe extern "C" fn declare(site: *const LineSite) {
    // A panic must not unwind out of a function that is called from C.
    let _ = catch_unwind(|| {
        // SAFETY: the caller guarantees that `site` points to a site with static lifetime.
        super::registry::declare(|| unsafe { &*site }.declared());
    });
}

/// Begins a call.
///
/// # Safety
///
/// `site` must point to a site with static lifetime. `frame` must point to a valid frame, whose
/// contents do not matter.
pub unsafe extern "C" fn enter(site: *const LineSite, frame: *const LineFrame, kind: u32) {
    // A panic must not unwind out of a function that is called from C.
    let _ = catch_unwind(|| {
        // SAFETY: the caller guarantees that `site` is static and that `frame` is valid during this
        // call.
        let (site, frame) = unsafe { (&*site, &*frame) };
        frame.block.store(std::ptr::null_mut(), Relaxed);
        let is_async = kind >= frame_kind::ASYNC_CALL;
        let block = site.function().and_then(thread::block);
        let number = if is_async { thread::number() } else { Some(0) };
        let (Some(block), Some(number)) = (block, number) else {
            super::registry::count_lost();
            return;
        };
        let is_call = matches!(kind, frame_kind::CALL | frame_kind::ASYNC_CALL);
        let outer = block.enter(is_call);
        frame.outer.store(outer, Relaxed);
        frame.point.store(NOWHERE, Relaxed);
        frame.thread.store(number, Relaxed);
        frame.site.store(std::ptr::from_ref(site).cast_mut(), Relaxed);
        frame.block.store(std::ptr::from_ref(block).cast_mut(), Relaxed);
    });
}

/// Begins the line of `point` and counts one hit.
///
/// # Safety
///
/// `frame` must point to a frame that was [entered](enter).
#[inline]
pub unsafe extern "C" fn at(frame: *const LineFrame, point: u32) {
    // SAFETY: the caller guarantees that `frame` points to an entered frame.
    let frame = unsafe { &*frame };
    if let Some(block) = frame.block_here() {
        if frame.thread.load(Relaxed) != 0 {
            frame.point.store(point, Relaxed);
        }
        block.at(point);
    }
}

/// Continues the line of `point` without counting a hit.
///
/// # Safety
///
/// `frame` must point to a frame that was [entered](enter).
#[inline]
pub unsafe extern "C" fn back(frame: *const LineFrame, point: u32) {
    // SAFETY: the caller guarantees that `frame` points to an entered frame.
    let frame = unsafe { &*frame };
    if let Some(block) = frame.block_here() {
        if frame.thread.load(Relaxed) != 0 {
            frame.point.store(point, Relaxed);
        }
        block.back(point);
    }
}

/// Ends a call.
///
/// # Safety
///
/// `frame` must point to a frame that was [entered](enter).
#[inline]
pub unsafe extern "C" fn leave(frame: *const LineFrame) {
    // SAFETY: the caller guarantees that `frame` points to an entered frame.
    let frame = unsafe { &*frame };
    let thread = frame.thread.load(Relaxed);
    // A frame that ends on another thread than the one it last ran on has nothing open on this
    // thread.
    if let Some(block) = frame.block()
        && (thread == 0 || thread::number() == Some(thread))
    {
        block.end(frame.outer.load(Relaxed));
    }
    frame.block.store(std::ptr::null_mut(), Relaxed);
}

/// Suspends an async frame when its future returns to the executor. Nothing runs in it until
/// [`resume`].
///
/// # Safety
///
/// `frame` must point to an async frame that was [entered](enter).
pub unsafe extern "C" fn suspend(frame: *const LineFrame) {
    // SAFETY: the caller guarantees that `frame` points to an entered frame.
    unsafe { leave(frame) };
}

/// Resumes a suspended async frame on any thread.
///
/// # Safety
///
/// `frame` must point to an async frame that was [entered](enter).
pub unsafe extern "C" fn resume(frame: *const LineFrame) {
    let _ = catch_unwind(|| {
        // SAFETY: the caller guarantees that `frame` points to an entered frame.
        let frame = unsafe { &*frame };
        if frame.attach(frame.point.load(Relaxed)).is_none() {
            super::registry::count_lost();
        }
    });
}
