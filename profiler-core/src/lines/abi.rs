//! What spliced code calls, and the data that it shares with this crate.
//!
//! A function whose lines are profiled has a static [`LineSite`] and, for every call, a
//! [`LineFrame`] on its stack. Places that can be *running* are its *points*: one per line. The text
//! that is put into spliced crates has the same two types.
//!
//! | when | what is called |
//! |---|---|
//! | the program, or the library that the function is in, is loaded | [`declare`] |
//! | the function, or a closure or an async block in it, begins | [`enter`] |
//! | a line begins | [`at`] |
//! | something goes on that began before another line | [`back`] |
//! | the function ends, in whatever way | [`leave`] |
//! | a future in it is polled, and was not ready | [`resume`], [`suspend`] |
//!
//! All of them may be called on any thread at any time, also before `main` and while a thread is
//! torn down (what runs then is counted as lost), and none unwinds or blocks but for the first call
//! of a function on a thread.

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

// The text in spliced crates has no other way of knowing.
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(std::mem::offset_of!(LineFrame, thread) == 16 && size_of::<LineFrame>() == 32);
    assert!(std::mem::offset_of!(LineSite, points) == 56 && size_of::<LineSite>() == 72);
};

/// What kind of frame [`enter`] opens. An async one may go on on another thread.
pub mod frame_kind {
    /// A call of the function.
    pub const CALL: u32 = 0;
    /// A closure in it: no call of its own.
    pub const CLOSURE: u32 = 1;
    /// A call of an async function.
    pub const ASYNC_CALL: u32 = 2;
    /// An async block in it: no call of its own.
    pub const ASYNC_BLOCK: u32 = 3;
}

/// A function whose lines are profiled: a static of its crate, laid out as C does.
#[derive(Debug)]
#[repr(C)]
pub struct LineSite {
    /// What this crate knows of it; null before the first call.
    function: AtomicPtr<()>,
    first_line: u32,
    last_line: u32,
    /// [`source_hash`](super::source_hash) of these lines.
    source_hash: u64,
    name: Text,
    /// The absolute path of the file that the user wrote.
    file: Text,
    /// The line of every point.
    points: *const u32,
    point_count: usize,
}

// SAFETY: what the pointers point to lives for ever and is never written to.
unsafe impl Sync for LineSite {}

impl LineSite {
    /// What is known of the function. *Cost*: a load but for the first call.
    #[inline]
    fn function(&self) -> Option<&'static Function> {
        let known = self.function.load(Acquire).cast::<Function>();
        // SAFETY: null, or what `register` has stored.
        unsafe { known.as_ref() }.or_else(|| self.register())
    }

    #[cold]
    fn register(&self) -> Option<&'static Function> {
        super::registry::register(&self.function, || self.declared())
    }

    fn declared(&self) -> DeclaredFunction {
        // SAFETY: sites are made by spliced code from literals and a static array; all is copied, for
        // the library that the site is in may be unloaded.
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

/// One call. Nobody but the call itself has its address; atomic only so that the future of an async
/// function may go from thread to thread.
#[repr(C)]
#[derive(Debug)]
pub struct LineFrame {
    /// Null while nothing is recorded.
    block: AtomicPtr<Block>,
    site: AtomicPtr<LineSite>,
    /// The thread that the block belongs to, of an async frame; else 0.
    thread: AtomicU64,
    /// The point that was running when it began, or went on.
    outer: AtomicU32,
    /// The point that goes on when it does.
    point: AtomicU32,
}

impl LineFrame {
    #[inline(always)]
    fn block(&self) -> Option<&'static Block> {
        // SAFETY: null, or one of a thread's blocks, which are never freed.
        unsafe { self.block.load(Relaxed).as_ref() }
    }

    /// The block, of the thread that calls.
    #[inline(always)]
    fn block_here(&self) -> Option<&'static Block> {
        match self.thread.load(Relaxed) {
            0 => self.block(),
            thread => self.moved_block(thread),
        }
    }

    /// Of an async frame that may have been moved to another thread without [`suspend`]: inside of a
    /// macro, whose text has no hooks.
    #[cold]
    fn moved_block(&self, before: u64) -> Option<&'static Block> {
        if thread::number() == Some(before) {
            return self.block();
        }
        self.attach(self.point.load(Relaxed))
    }

    /// Goes on with `point` on this thread.
    fn attach(&self, point: u32) -> Option<&'static Block> {
        // SAFETY: `enter` stored a site that lives for ever.
        let site = unsafe { self.site.load(Relaxed).as_ref() }?;
        let thread = thread::number()?;
        let block = thread::block(site.function()?)?;
        self.outer.store(block.begin(point), Relaxed);
        self.block.store(std::ptr::from_ref(block).cast_mut(), Relaxed);
        self.thread.store(thread, Relaxed);
        Some(block)
    }
}

/// There is a function whose lines are profiled: reports show it also if it never runs.
///
/// # Safety
///
/// `site` points to a site that lives for ever.
pub unsafe extern "C" fn declare(site: *const LineSite) {
    // No panic may leave a function that C calls.
    let _ = catch_unwind(|| {
        // SAFETY: by the contract of this function.
        super::registry::declare(|| unsafe { &*site }.declared());
    });
}

/// A call begins.
///
/// # Safety
///
/// `site` points to a site that lives for ever, `frame` to a frame, which may hold anything.
pub unsafe extern "C" fn enter(site: *const LineSite, frame: *const LineFrame, kind: u32) {
    // No panic may leave a function that C calls.
    let _ = catch_unwind(|| {
        // SAFETY: by the contract of this function.
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

/// The line of `point` begins: one hit.
///
/// # Safety
///
/// `frame` points to a frame that was [entered](enter).
#[inline]
pub unsafe extern "C" fn at(frame: *const LineFrame, point: u32) {
    // SAFETY: by the contract of this function.
    let frame = unsafe { &*frame };
    if let Some(block) = frame.block_here() {
        if frame.thread.load(Relaxed) != 0 {
            frame.point.store(point, Relaxed);
        }
        block.at(point);
    }
}

/// The line of `point` goes on.
///
/// # Safety
///
/// As of [`at`].
#[inline]
pub unsafe extern "C" fn back(frame: *const LineFrame, point: u32) {
    // SAFETY: by the contract of this function.
    let frame = unsafe { &*frame };
    if let Some(block) = frame.block_here() {
        if frame.thread.load(Relaxed) != 0 {
            frame.point.store(point, Relaxed);
        }
        block.back(point);
    }
}

/// A call ends.
///
/// # Safety
///
/// As of [`at`].
#[inline]
pub unsafe extern "C" fn leave(frame: *const LineFrame) {
    // SAFETY: by the contract of this function.
    let frame = unsafe { &*frame };
    let thread = frame.thread.load(Relaxed);
    // One that ends on another thread than it ran on last left nothing open on this one.
    if let Some(block) = frame.block()
        && (thread == 0 || thread::number() == Some(thread))
    {
        block.end(frame.outer.load(Relaxed));
    }
    frame.block.store(std::ptr::null_mut(), Relaxed);
}

/// The future of an async frame returns to whoever polled it: until [`resume`] nothing is running.
///
/// # Safety
///
/// As of [`at`], and the frame is async.
pub unsafe extern "C" fn suspend(frame: *const LineFrame) {
    // SAFETY: by the contract of this function.
    unsafe { leave(frame) };
}

/// An async frame goes on, on any thread, where it was suspended.
///
/// # Safety
///
/// As of [`suspend`].
pub unsafe extern "C" fn resume(frame: *const LineFrame) {
    let _ = catch_unwind(|| {
        // SAFETY: by the contract of this function.
        let frame = unsafe { &*frame };
        if frame.attach(frame.point.load(Relaxed)).is_none() {
            super::registry::count_lost();
        }
    });
}
