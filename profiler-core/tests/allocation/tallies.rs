//! Tests of the tallies of one thread.

use std::alloc::{GlobalAlloc, Layout, System, alloc, alloc_zeroed, dealloc, realloc};
use std::hint::black_box;
use std::sync::Arc;

use mlprof_core::allocation::{
    Counting, LEAST_BYTES, Tallies, TrackingAllocator, kept_by, thread_tallies,
};

/// Returns the allocations and frees of `work` on this thread, with its result.
fn counted<T>(work: impl FnOnce() -> T) -> (Tallies, T) {
    let _counting = Counting::start();
    let before = thread_tallies();
    let result = work();
    (thread_tallies().since(&before), result)
}

fn tallies(allocated: (u64, u64), freed: (u64, u64)) -> Tallies {
    Tallies {
        allocated_bytes: allocated.0,
        allocated_blocks: allocated.1,
        freed_bytes: freed.0,
        freed_blocks: freed.1,
    }
}

#[test]
fn a_box_is_one_block_of_its_size() {
    let _turn = crate::turn();
    let (count, kept) = counted(|| Box::new([0_u8; 100]));
    assert_eq!(count, tallies((100, 1), (0, 0)));
    let (count, ()) = counted(|| drop(kept));
    assert_eq!(count, tallies((0, 0), (100, 1)));
}

#[test]
fn nothing_is_counted_for_what_has_no_size() {
    let _turn = crate::turn();
    let (count, _) = counted(|| (Box::new(()), Vec::<u64>::new(), vec![(); 1000]));
    assert_eq!(count, Tallies::ZERO);
}

/// Covers 4, 8, 16, …, 1024 numbers of 8 bytes. Each growth frees the previous block.
#[test]
fn a_vector_grows_by_doubling() {
    let _turn = crate::turn();
    let (count, numbers) = counted(|| {
        let mut numbers = Vec::new();
        (0..1024_u64).for_each(|number| numbers.push(number));
        numbers
    });
    let sizes = (2..=10).map(|power| 8_u64 << power);
    let allocated: u64 = sizes.clone().sum();
    assert_eq!(count, tallies((allocated, 9), (allocated - 8192, 8)));
    assert_eq!((count.net_bytes(), count.net_blocks()), (8192, 1));
    drop(numbers);
}

#[test]
fn a_vector_shrinks() {
    let _turn = crate::turn();
    let mut bytes = Vec::<u8>::with_capacity(1000);
    bytes.extend([1; 10]);
    let (count, _bytes) = counted(|| {
        bytes.shrink_to_fit();
        bytes
    });
    assert_eq!(count, tallies((10, 1), (1000, 1)));
}

/// Covers each of the allocator's four calls separately, with page-aligned blocks.
#[test]
fn aligned_and_zeroed_blocks_count_what_was_asked_for() {
    let _turn = crate::turn();
    let page = Layout::from_size_align(5000, 4096).expect("a layout");
    let (count, ()) = counted(|| {
        // SAFETY: the layout is not empty, and every block is freed with its own layout.
        unsafe {
            let zeroed = alloc_zeroed(page);
            assert_eq!((zeroed.addr() % 4096, *zeroed.add(4999)), (0, 0));
            let larger = realloc(zeroed, page, 9000);
            let larger_page = Layout::from_size_align_unchecked(9000, 4096);
            let other = alloc(page);
            assert_eq!((larger.addr() % 4096, *larger, other.addr() % 4096), (0, 0, 0));
            dealloc(larger, larger_page);
            dealloc(other, page);
        }
    });
    assert_eq!(count, tallies((5000 + 9000 + 5000, 3), (5000 + 9000 + 5000, 3)));
}

/// Allocator without memory for more than 100 bytes.
struct Failing;

// SAFETY: null is a valid result of a failed allocation. All other calls go to the system's
// allocator.
unsafe impl GlobalAlloc for Failing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() > 100 {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller upholds the contract, and the arguments are passed on unchanged.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the contract, and `alloc` got the memory from the same
        // allocator.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, _: *mut u8, _: Layout, _: usize) -> *mut u8 {
        std::ptr::null_mut()
    }
}

#[test]
fn failed_allocations_are_not_counted() {
    let _turn = crate::turn();
    let allocator = TrackingAllocator::around(Failing);
    let (small, large) =
        (Layout::new::<[u8; 10]>(), Layout::from_size_align(101, 1).expect("a layout"));
    // SAFETY: the layouts are not empty, and the one block is freed with its layout.
    let (count, ()) = counted(|| unsafe {
        let block = allocator.alloc(small);
        assert!(!block.is_null());
        assert!(allocator.alloc(large).is_null());
        assert!(allocator.alloc_zeroed(large).is_null());
        assert!(allocator.realloc(block, small, 200).is_null());
        allocator.dealloc(block, small);
    });
    assert_eq!(count, tallies((10, 1), (10, 1)));
}

#[test]
fn frees_belong_to_the_freeing_thread() {
    let _turn = crate::turn();
    let (count, shared) = counted(|| Arc::new([0_u8; 984]));
    assert_eq!(count, tallies((1000, 1), (0, 0)), "and two counts of references");
    let (there, here) = {
        let _counting = Counting::start();
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let other = shared.clone();
        let thread = std::thread::spawn(move || {
            wait.recv().expect("a word");
            counted(|| drop(other)).0
        });
        let (here, ()) = counted(|| drop(shared));
        go.send(()).expect("a listener");
        (thread.join().expect("no panic"), here)
    };
    assert_eq!(here, Tallies::ZERO);
    assert_eq!(there, tallies((0, 0), (1000, 1)));
}

#[test]
fn a_panic_frees_what_it_unwinds() {
    let _turn = crate::turn();
    let run = || {
        let _block = Box::new([0_u8; 64]);
        let _vector = black_box(vec![0_u8; 128]);
        std::panic::resume_unwind(Box::new(7_u64));
    };
    let (count, caught) = counted(|| std::panic::catch_unwind(run));
    assert!(caught.is_err());
    assert!(count.allocated_bytes >= 64 + 128 + 8);
    let (freed, ()) = counted(|| drop(caught));
    assert_eq!(count.net_bytes() + freed.net_bytes(), 0, "{count:?}, {freed:?}");
}

#[test]
fn nothing_is_counted_while_nobody_counts() {
    // Other tests may be counting at this moment, so the check runs in a process of its own.
    let turn = crate::turn();
    let output = std::process::Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "tallies::off", "--ignored", "--nocapture"])
        .output();
    drop(turn);
    let output = output.expect("starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
#[ignore = "run by another test, in a process of its own"]
fn off() {
    let before = thread_tallies();
    black_box(vec![0_u8; 1000]);
    assert_eq!(thread_tallies(), before);
    let counting = Counting::start();
    let second = Counting::start();
    drop(counting);
    black_box(vec![0_u8; 1000]);
    assert_eq!(thread_tallies().since(&before), tallies((1000, 1), (1000, 1)));
    drop(second);
    black_box(vec![0_u8; 1000]);
    assert_eq!(thread_tallies().since(&before), tallies((1000, 1), (1000, 1)));
}

/// Thread-local value that allocates and frees while its thread is torn down.
struct Late(Vec<u8>);

impl Drop for Late {
    fn drop(&mut self) {
        self.0 = vec![0; 5000];
    }
}

thread_local! {
    static LATE: Late = Late(vec![0; 3000]);
}

#[test]
fn threads_may_allocate_until_their_very_end() {
    let _turn = crate::turn();
    let _counting = Counting::start();
    for _ in 0..100 {
        let thread = std::thread::spawn(|| LATE.with(|late| late.0.len()));
        assert_eq!(thread.join().expect("no panic"), 3000);
    }
}

#[test]
fn remaining_memory_is_known_block_by_block() {
    let _turn = crate::turn();
    let before = vec![0_u8; 5_000];
    let place = |block: &Vec<u8>| (block.as_ptr().addr() as u64, block.capacity() as u64);
    let (kept, blocks) = kept_by(|| {
        drop(before); // allocated before this work
        drop(vec![0_u8; 3_000]);
        let (inner, inside) = kept_by(|| vec![0_u8; 2_000]);
        assert_eq!(
            inside.iter().map(|block| (block.address, block.bytes)).collect::<Vec<_>>(),
            [place(&inner)]
        );
        let mut grown = vec![0_u8; 1_500];
        grown.reserve_exact(100_000);
        let elsewhere = std::thread::spawn(|| vec![0_u8; 4_000]).join().expect("no panic");
        // `resume_unwind` skips the panic hook. The hook's backtraces would keep allocated data.
        let unwound = || std::panic::resume_unwind(Box::new(vec![0_u8; 1_200]));
        let gone = std::panic::catch_unwind(|| kept_by(unwound));
        assert!(gone.is_err());
        drop(gone);
        [inner, grown, elsewhere, vec![0_u8; LEAST_BYTES - 1]]
    });
    let mut found: Vec<_> = blocks.iter().map(|block| (block.address, block.bytes)).collect();
    let mut expected: Vec<_> = kept[..2].iter().map(place).collect();
    found.retain(|(_, bytes)| [2_000, 4_000].contains(bytes) || *bytes >= 90_000);
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
    assert_eq!(kept_by(|| ()).1, []);
}
