//! What the system or the program has too little of: timers, memory, stacks.

use std::hint::black_box;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mlprof_core::sampler::Sampler;

use crate::work::{burn_small, processor_time};

/// Nothing that a scene waits for takes longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Ends a scope's threads, also when it panics.
struct Ends<'flag>(&'flag AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Does `work` while other threads do `theirs` again and again.
fn beside_threads<T>(count: u64, theirs: fn(), work: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    let started = AtomicU64::new(0);
    std::thread::scope(|threads| {
        for _ in 0..count {
            threads.spawn(|| {
                started.fetch_add(1, Ordering::Relaxed);
                while !is_over.load(Ordering::Relaxed) {
                    theirs();
                }
            });
        }
        let _ends = Ends(&is_over);
        let began = Instant::now();
        while started.load(Ordering::Relaxed) < count && began.elapsed() < PATIENCE {
            std::thread::yield_now();
        }
        work()
    })
}

fn set_limit(resource: libc::__rlimit_resource_t, bytes: u64) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` outlives both calls.
    let answer = unsafe {
        libc::getrlimit(resource, &raw mut limit);
        limit.rlim_cur = bytes.min(limit.rlim_max);
        libc::setrlimit(resource, &raw const limit)
    };
    assert_eq!(answer, 0, "{}", std::io::Error::last_os_error());
}

/// Threads without a timer count once, and are sampled as soon as there are timers.
pub fn no_timers() {
    set_limit(libc::RLIMIT_SIGPENDING, 0);
    let computes = || {
        burn_small(1000);
    };
    beside_threads(4, computes, || {
        let sampler = Sampler::start(1000).expect("nothing else samples");
        std::thread::sleep(Duration::from_millis(500));
        let notes = sampler.report().samples.notes;
        println!("{notes:?}");
        let refused = "5 threads could not be sampled";
        assert!(notes.iter().any(|note| note.starts_with(refused)), "{notes:?}");
        set_limit(libc::RLIMIT_SIGPENDING, u64::MAX);
        let began = Instant::now();
        let mut samples = 0;
        while samples < 100 && began.elapsed() < PATIENCE {
            // A report takes longer than the pauses between two tries.
            std::thread::sleep(Duration::from_secs(1));
            samples = sampler.report().samples.samples;
        }
        let after = sampler.stop().samples;
        assert!(after.samples >= 100, "{} samples", after.samples);
        println!("{} samples after {:?}; {:?}", after.samples, began.elapsed(), after.notes);
        let note = after.notes.iter().find(|note| note.contains("could not be sampled"));
        assert_eq!(note, None, "all are sampled by now");
    });
}

/// Bytes that the program has from its allocator.
fn allocated() -> i64 {
    // SAFETY: it only reads.
    let info = unsafe { libc::mallinfo2() };
    (info.uordblks + info.hblkhd) as i64
}

/// A sampler leaves nothing of its rings, whatever their size.
pub fn memory_of_a_high_rate() {
    let sample = |hz| {
        let sampler = Sampler::start(hz).expect("nothing else samples");
        std::thread::sleep(Duration::from_millis(30));
        drop(sampler);
    };
    // Threads that compute would leave no processor for anything else at that rate.
    let waits = || std::thread::sleep(Duration::from_millis(5));
    beside_threads(24, waits, || {
        sample(1000);
        let before = allocated();
        for hz in [20_000, 1000, 4000, 20_000] {
            sample(hz);
        }
        let kept = allocated() - before;
        println!("{kept} bytes are kept");
        // Rings of one rate would be 12 MB.
        assert!(kept < 3 << 20, "{kept} bytes");
    });
}

/// Interrupted near the end of the first stack, which `ulimit -s` makes small.
pub fn first_stack() {
    const LIMIT: u64 = 1 << 20;
    const CHILD: &str = "MLPROF_TEST_FIRST_STACK";
    if std::env::var_os(CHILD).is_none() {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        // SAFETY: `setrlimit` may be called between `fork` and `exec`.
        unsafe {
            command.env(CHILD, "1").pre_exec(|| {
                set_limit(libc::RLIMIT_STACK, LIMIT);
                Ok(())
            });
        }
        let status = command.status().expect("it starts");
        assert!(status.success(), "{status:?}");
        return;
    }
    let sampler = Sampler::start(5000).expect("nothing else samples");
    let end = end_of_first_stack();
    // Enough for the frame of a signal and a handler that does not unwind.
    descend(end - LIMIT as usize + (24 << 10));
    let samples = sampler.stop().samples;
    println!("{} samples; {:?}", samples.samples, samples.notes);
    assert!(samples.samples > 100);
    assert!(samples.notes.iter().any(|note| note.contains("nearly full")), "{:?}", samples.notes);
}

fn end_of_first_stack() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux has it");
    let line = maps.lines().find(|line| line.ends_with("[stack]")).expect("there is one");
    let end = line.split(['-', ' ']).nth(1).expect("a range");
    usize::from_str_radix(end, 16).expect("an address")
}

/// Calls itself until the stack is down to here, and works there.
#[inline(never)]
fn descend(down_to: usize) {
    let room = black_box([0_u8; 512]);
    if (room.as_ptr() as usize) > down_to {
        descend(down_to);
    } else {
        let start = processor_time();
        while processor_time() - start < Duration::from_millis(300) {
            burn_small(10_000);
        }
    }
    black_box(&room);
}

/// A handler of the program's on an alternate stack with no more room than a second signal needs.
pub fn small_alternate_stacks() {
    static HANDLED: AtomicU64 = AtomicU64::new(0);
    /// What is below the stack.
    const GUARD: usize = 64 << 10;
    extern "C" fn works(_signal: libc::c_int) {
        let start = processor_time();
        while processor_time() - start < Duration::from_millis(300) {
            burn_small(10_000);
        }
        HANDLED.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: all-zero is a valid action.
    let mut own: libc::sigaction = unsafe { std::mem::zeroed() };
    own.sa_sigaction = works as *const () as usize;
    own.sa_flags = libc::SA_ONSTACK | libc::SA_RESTART;
    // SAFETY: the action is whole.
    unsafe { libc::sigaction(libc::SIGUSR1, &raw const own, std::ptr::null_mut()) };
    let sampler = Sampler::start(5000).expect("nothing else samples");
    std::thread::spawn(|| {
        // SAFETY: it only reads.
        let frame = unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) } as usize;
        // Two frames, the program's handler, and what the documentation asks for.
        let size = 2 * frame.max(libc::MINSIGSTKSZ) + 2048;
        let mut memory = vec![0xa5_u8; GUARD + size];
        let stack = libc::stack_t {
            ss_sp: memory[GUARD..].as_mut_ptr().cast(),
            ss_flags: 0,
            ss_size: size,
        };
        // SAFETY: the memory is good until the stack is taken off again below.
        let mut before: libc::stack_t = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        assert_eq!(unsafe { libc::sigaltstack(&raw const stack, &raw mut before) }, 0);
        // SAFETY: there is a handler.
        unsafe { libc::raise(libc::SIGUSR1) };
        // SAFETY: the one that the standard library made.
        unsafe { libc::sigaltstack(&raw const before, std::ptr::null_mut()) };
        let untouched = memory[..GUARD].iter().rev().take_while(|byte| **byte == 0xa5).count();
        let used = memory[GUARD..].iter().position(|byte| *byte != 0xa5);
        println!("of {size} bytes {used:?} were never used");
        assert_eq!(untouched, GUARD, "what is below the stack was written to");
    })
    .join()
    .expect("nothing below the stack is touched");
    assert_eq!(HANDLED.load(Ordering::Relaxed), 1);
    drop(sampler.stop());
}
