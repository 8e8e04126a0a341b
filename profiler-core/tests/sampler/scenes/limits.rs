//! Tests with a shortage of timers, memory or stack.

use std::hint::black_box;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mlprof_core::sampler::Sampler;

use crate::work::{burn_small, processor_time};

/// Maximum wait of a scene.
const PATIENCE: Duration = Duration::from_secs(60);

/// Drop guard that ends a scope's threads, even in a panic.
struct StopOnDrop<'flag>(&'flag AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `work` while other threads run `theirs` repeatedly.
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
        let _ends = StopOnDrop(&is_over);
        let began = Instant::now();
        while started.load(Ordering::Relaxed) < count && began.elapsed() < PATIENCE {
            std::thread::yield_now();
        }
        work()
    })
}

fn set_limit(resource: libc::__rlimit_resource_t, bytes: u64) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a local variable and outlives both calls.
    let answer = unsafe {
        libc::getrlimit(resource, &raw mut limit);
        limit.rlim_cur = bytes.min(limit.rlim_max);
        libc::setrlimit(resource, &raw const limit)
    };
    assert_eq!(answer, 0, "{}", std::io::Error::last_os_error());
}

/// Checks that threads without a timer are counted once, and are sampled as soon as timers are
/// available.
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
        let refused = "5 threads were not sampled";
        assert!(notes.iter().any(|note| note.starts_with(refused)), "{notes:?}");
        set_limit(libc::RLIMIT_SIGPENDING, u64::MAX);
        let began = Instant::now();
        let mut samples = 0;
        while samples < 100 && began.elapsed() < PATIENCE {
            // A report would take longer than the pause between two attempts.
            std::thread::sleep(Duration::from_secs(1));
            samples = sampler.report().samples.samples;
        }
        let after = sampler.stop().samples;
        assert!(after.samples >= 100, "{} samples", after.samples);
        println!("{} samples after {:?}; {:?}", after.samples, began.elapsed(), after.notes);
        let note = after.notes.iter().find(|note| note.contains("were not sampled"));
        assert_eq!(note, None, "all are sampled by now");
    });
}

/// Returns the number of bytes that the program has allocated.
fn allocated() -> i64 {
    // SAFETY: `mallinfo2` has no preconditions.
    let info = unsafe { libc::mallinfo2() };
    (info.uordblks + info.hblkhd) as i64
}

/// Checks that a sampler frees its rings, whatever their size.
pub fn memory_of_a_high_rate() {
    let sample = |hz| {
        let sampler = Sampler::start(hz).expect("nothing else samples");
        std::thread::sleep(Duration::from_millis(30));
        drop(sampler);
    };
    // Computing threads would leave no processor time for other work at that rate.
    let waits = || std::thread::sleep(Duration::from_millis(5));
    beside_threads(24, waits, || {
        sample(1000);
        let before = allocated();
        for hz in [20_000, 1000, 4000, 20_000] {
            sample(hz);
        }
        let kept = allocated() - before;
        println!("{kept} bytes are kept");
        // Rings of one rate would take 12 MB.
        assert!(kept < 3 << 20, "{kept} bytes");
    });
}

/// Interrupts the program near the end of the first stack, which is made small as with `ulimit -s`.
pub fn first_stack() {
    const LIMIT: u64 = 1 << 20;
    const CHILD: &str = "MLPROF_TEST_FIRST_STACK";
    if std::env::var_os(CHILD).is_none() {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        // SAFETY: `setrlimit` is async-signal-safe, so it may be called between `fork` and `exec`.
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
    // This leaves enough room for the frame of a signal and a handler that does not unwind.
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

/// Recurses until the stack reaches this address, and works there.
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

/// Runs a handler of the program on an alternate stack with just enough room for a second signal.
pub fn small_alternate_stacks() {
    static HANDLED: AtomicU64 = AtomicU64::new(0);
    /// Size in bytes of the guard area below the stack.
    const GUARD: usize = 64 << 10;
    extern "C" fn works(_signal: libc::c_int) {
        let start = processor_time();
        while processor_time() - start < Duration::from_millis(300) {
            burn_small(10_000);
        }
        HANDLED.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: an all-zero `sigaction` is valid.
    let mut own: libc::sigaction = unsafe { std::mem::zeroed() };
    own.sa_sigaction = works as *const () as usize;
    own.sa_flags = libc::SA_ONSTACK | libc::SA_RESTART;
    // SAFETY: the action is fully initialised, and the handler has the right signature.
    unsafe { libc::sigaction(libc::SIGUSR1, &raw const own, std::ptr::null_mut()) };
    let sampler = Sampler::start(5000).expect("nothing else samples");
    std::thread::spawn(|| {
        // SAFETY: `getauxval` has no preconditions.
        let frame = unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) } as usize;
        // The size covers two frames, the program's handler, and the reserve that the documentation
        // requires.
        let size = 2 * frame.max(libc::MINSIGSTKSZ) + 2048;
        let mut memory = vec![0xa5_u8; GUARD + size];
        let stack = libc::stack_t {
            ss_sp: memory[GUARD..].as_mut_ptr().cast(),
            ss_flags: 0,
            ss_size: size,
        };
        // SAFETY: an all-zero `stack_t` is valid.
        let mut before: libc::stack_t = unsafe { std::mem::zeroed() };
        // SAFETY: the stack's memory stays valid until the previous stack is restored below.
        assert_eq!(unsafe { libc::sigaltstack(&raw const stack, &raw mut before) }, 0);
        // SAFETY: a handler for this signal is installed.
        unsafe { libc::raise(libc::SIGUSR1) };
        // SAFETY: `before` is the previous stack, which the standard library made and still owns.
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
