//! Tests memory at the ends of lines, exact to the byte. There is only one test, because memory is
//! measured for the whole process.

use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};

use mlprof_core::allocation::TrackingAllocator;
use mlprof_core::lines::LineProfiler;
use mlprof_core::lines::abi::{self, LineFrame, LineSite, frame_kind};
use mlprof_core::report::lines::{FunctionLines, LineMemory};

#[global_allocator]
static ALLOCATOR: TrackingAllocator = TrackingAllocator::new();

/// Instrumented code's equivalent of [`LineSite`].
#[repr(C)]
struct Site {
    function: AtomicPtr<()>,
    lines: [u32; 2],
    source_hash: u64,
    name: (*const u8, usize),
    file: (*const u8, usize),
    points: (*const u32, usize),
}

/// Equivalent of [`LineFrame`].
#[repr(C)]
#[derive(Default)]
struct Frame {
    block: AtomicPtr<()>,
    site: AtomicPtr<()>,
    thread: AtomicU64,
    points: [AtomicU32; 2],
}

struct Call(Frame);

impl Call {
    fn of(site: &'static Site) -> Self {
        let call = Self(Frame::default());
        // SAFETY: both types have the layout of the types that they represent, and the site lives
        // forever.
        unsafe { abi::enter(std::ptr::from_ref(site).cast(), call.frame(), frame_kind::CALL) };
        call
    }

    fn frame(&self) -> *const LineFrame {
        std::ptr::from_ref(&self.0).cast()
    }

    fn at(&self, point: u32) {
        // SAFETY: `of` entered the frame, and it has not been left.
        unsafe { abi::at(self.frame(), point) };
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        // SAFETY: `of` entered the frame, and it is left only here.
        unsafe { abi::leave(self.frame()) };
    }
}

fn site() -> &'static Site {
    assert_eq!(size_of::<Site>(), size_of::<LineSite>());
    assert_eq!(size_of::<Frame>(), size_of::<LineFrame>());
    static POINTS: [u32; 3] = [11, 12, 13];
    let text = |text: &'static str| (text.as_ptr(), text.len());
    Box::leak(Box::new(Site {
        function: AtomicPtr::default(),
        lines: [10, 14],
        source_hash: 0,
        name: text("load"),
        file: text("/nowhere.rs"),
        points: (POINTS.as_ptr(), POINTS.len()),
    }))
}

const BLOCK: usize = 1 << 20;

/// Runs three lines: the first keeps 1 MiB, the second allocates and frees another, and the third
/// frees the first.
fn load(site: &'static Site) {
    let call = Call::of(site);
    call.at(0);
    let kept = std::hint::black_box(vec![1_u8; BLOCK]);
    call.at(1);
    drop(std::hint::black_box(vec![1_u8; BLOCK]));
    call.at(2);
    drop(kept);
}

fn function(profiler: &LineProfiler) -> FunctionLines {
    let report = profiler.report();
    report.functions.into_iter().find(|function| function.name == "load").expect("load has run")
}

#[test]
fn increments_and_the_highest_levels() {
    let site = site();
    load(site); // not measured yet
    let profiler = LineProfiler::with_memory();
    let before = function(&profiler);
    assert_eq!((before.entry_memory, before.lines[0].memory), (None, None));
    for _ in 0..3 {
        load(site);
    }
    let found = function(&profiler);
    assert_eq!(found.lines.iter().map(|line| line.hits).collect::<Vec<_>>(), [4, 4, 4]);
    let memory: Vec<LineMemory> = found.lines.iter().filter_map(|line| line.memory).collect();
    let size = BLOCK as i64;
    let increments: Vec<_> = memory.iter().map(|line| line.increment_bytes).collect();
    assert_eq!(increments, [3 * size, 0, -3 * size]);
    assert!(memory.iter().all(|line| line.occurrences == 3), "{memory:?}");
    let entry = found.entry_memory.expect("counted");
    assert_eq!(entry.occurrences, 3);
    // Other threads of the test program use very little memory.
    let around = |level: i64, expected: i64| (level - expected).abs() < size / 4;
    assert!(around(memory[0].max_bytes, entry.max_bytes + size), "{found:?}");
    assert!(around(memory[1].max_bytes, entry.max_bytes + size), "{found:?}");
    assert!(around(memory[2].max_bytes, entry.max_bytes), "{found:?}");
    let notes = profiler.report().header.notes;
    assert!(notes.iter().all(|note| !note.contains("memory")), "{notes:?}");
    drop(profiler);
    load(site);
    let after = function(&LineProfiler::new());
    assert_eq!((after.lines[0].hits, after.lines[0].memory), (5, Some(memory[0])));
}
