//! Tests that sampling does not disturb programs.

use std::collections::HashMap;
use std::hint::black_box;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, Condvar, Mutex, mpsc};
use std::time::{Duration, Instant};

use mlprof_core::sampler::Sampler;
use mlprof_core::{AdvancedProfiler, Profiler, ProfilerExt, SimpleProfiler};

use crate::work::{action, burn_large, burn_small, function, processor_time};

/// Drop guard that ends the worker threads, even if a check fails.
struct StopOnDrop<'flag>(&'flag AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Checks that waiting system calls return correct results although they are interrupted thousands
/// of times.
pub fn system_calls() {
    let sampler = Sampler::start(5000).expect("nothing else samples");
    std::thread::scope(|threads| {
        for _ in 0..2 {
            threads.spawn(sleeps_long_enough);
            threads.spawn(reads_all);
            threads.spawn(waits_for_a_condition);
            threads.spawn(reads_with_a_plain_call);
        }
        threads.spawn(|| {
            let mut shell = std::process::Command::new("sh");
            let output = shell.args(["-c", "sleep 0.2; echo out"]).output().expect("a shell");
            assert_eq!((output.stdout.as_slice(), output.status.success()), (&b"out\n"[..], true));
        });
    });
    let samples = sampler.stop().samples;
    assert!(samples.samples > 100, "{}", samples.samples);
}

fn sleeps_long_enough() {
    let started = Instant::now();
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(15));
    }
    assert!(started.elapsed() >= Duration::from_millis(300));
}

fn reads_all() {
    let (mut reader, mut writer) = std::io::pipe().expect("a pipe");
    std::thread::scope(|threads| {
        threads.spawn(move || {
            for number in 0..30_u64 {
                std::thread::sleep(Duration::from_millis(10));
                writer.write_all(&number.to_le_bytes()).expect("somebody reads");
            }
        });
        let mut all = Vec::new();
        reader.read_to_end(&mut all).expect("no error");
        let numbers: Vec<u8> = (0..30_u64).flat_map(u64::to_le_bytes).collect();
        assert_eq!(all, numbers);
    });
}

/// Reads like a C program that does not handle interrupted calls.
fn reads_with_a_plain_call() {
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for two descriptors.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    let [reader, writer] = ends;
    std::thread::scope(|threads| {
        threads.spawn(move || {
            for _ in 0..10 {
                std::thread::sleep(Duration::from_millis(30));
                // SAFETY: the buffer is a local array of one byte.
                assert_eq!(unsafe { libc::write(writer, [7_u8].as_ptr().cast(), 1) }, 1);
            }
        });
        for _ in 0..10 {
            let mut byte = [0_u8];
            // SAFETY: the buffer is a local array of one byte.
            let read = unsafe { libc::read(reader, byte.as_mut_ptr().cast(), 1) };
            assert_eq!((read, byte), (1, [7]), "{}", std::io::Error::last_os_error());
        }
    });
}

fn waits_for_a_condition() {
    let (count, changed) = (Mutex::new(0), Condvar::new());
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for _ in 0..20 {
                std::thread::sleep(Duration::from_millis(10));
                *count.lock().expect("no panic") += 1;
                changed.notify_one();
            }
        });
        let count = count.lock().expect("no panic");
        let count = changed.wait_while(count, |count| *count < 20).expect("no panic");
        assert_eq!(*count, 20);
    });
    let (sender, receiver) = mpsc::channel::<u32>();
    let started = Instant::now();
    assert!(receiver.recv_timeout(Duration::from_millis(50)).is_err());
    assert!(started.elapsed() >= Duration::from_millis(50));
    drop(sender);
}

/// Checks that samples may interrupt a handler of the program on its own alternate stack.
pub fn alternate_stacks() {
    static HANDLED: AtomicU64 = AtomicU64::new(0);
    extern "C" fn works(_signal: libc::c_int) {
        let start = processor_time();
        while processor_time() - start < Duration::from_millis(100) {
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
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                let mut memory = vec![0_u8; 32 << 10];
                let stack = libc::stack_t {
                    ss_sp: memory.as_mut_ptr().cast(),
                    ss_flags: 0,
                    ss_size: memory.len(),
                };
                // SAFETY: an all-zero `stack_t` is valid.
                let mut before: libc::stack_t = unsafe { std::mem::zeroed() };
                // SAFETY: the stack's memory stays valid until the previous stack is restored
                // below.
                assert_eq!(unsafe { libc::sigaltstack(&raw const stack, &raw mut before) }, 0);
                for _ in 0..5 {
                    // SAFETY: a handler for this signal is installed.
                    unsafe { libc::raise(libc::SIGUSR1) };
                }
                // SAFETY: `before` is the previous stack, which the standard library made and still
                // owns.
                unsafe { libc::sigaltstack(&raw const before, std::ptr::null_mut()) };
            });
        }
    });
    assert_eq!(HANDLED.load(Ordering::Relaxed), 20);
    let samples = sampler.stop().samples;
    println!("{} samples; {:?}", samples.samples, samples.notes);
    assert!(samples.samples > 100);
    assert!(
        samples.notes.iter().any(|note| note.contains("a foreign or nearly full stack")),
        "leaves only"
    );
}

/// Returns the number of threads with a timer from the sampler, including this one.
fn known_threads(profiler: &AdvancedProfiler) -> u64 {
    let samples = profiler.snapshot().samples.expect("it is sampled");
    samples.threads.iter().map(|thread| thread.threads).sum()
}

pub fn many_threads() {
    let profiler = AdvancedProfiler::new().sampled(1000);
    let all_are_known = Barrier::new(65);
    // Processor time in nanoseconds that the threads used after the sampler found them.
    let worked = AtomicU64::new(0);
    std::thread::scope(|threads| {
        for _ in 0..64 {
            threads.spawn(|| {
                // Work before the sampler finds a new thread is in no sample. On a busy machine,
                // where the sampler itself waits for a processor, that may be all of a thread's
                // work.
                all_are_known.wait();
                let _action = profiler.profile("of_64");
                let start = processor_time();
                while processor_time() - start < Duration::from_millis(60) {
                    burn_large(10_000);
                }
                let spent = processor_time() - start;
                worked.fetch_add(spent.as_nanos() as u64, Ordering::Relaxed);
            });
        }
        while known_threads(&profiler) < 65 {
            std::thread::sleep(Duration::from_millis(5));
        }
        all_are_known.wait();
    });
    let samples = profiler.snapshot().samples.expect("it is sampled");
    let all = action(&samples, "of_64");
    // On a busy machine the reader of the samples may be delayed. The report gives the number of
    // samples lost for this reason.
    let dropped = samples.dropped_ticks as f64 * samples.seconds_per_tick;
    println!("{:?}, {} s of work, {dropped} s dropped", all.all, samples.working_seconds());
    let [_, own] = function(&samples, all, "burn_large");
    assert!(own.working_ticks * 10 > all.all.working_ticks * 8, "{own:?}");
    let seconds = all.all.working_ticks as f64 * samples.seconds_per_tick;
    let worked = Duration::from_nanos(worked.into_inner()).as_secs_f64();
    assert!(
        seconds + dropped > 0.7 * worked && seconds < 1.3 * worked,
        "{seconds} s and {dropped} s dropped, of {worked} s"
    );
}

/// Samples at the highest rate, with short-lived threads that allocate and open actions.
pub fn threads_that_come_and_go() {
    let profiler = AdvancedProfiler::new().sampled(20_000);
    let until = Instant::now() + Duration::from_secs(4);
    let started = AtomicU64::new(0);
    std::thread::scope(|threads| {
        for number in 0..6 {
            let (profiler, started) = (&profiler, &started);
            threads.spawn(move || {
                while Instant::now() < until {
                    std::thread::scope(|inner| {
                        inner.spawn(move || {
                            started.fetch_add(1, Ordering::Relaxed);
                            let _action = (number % 2 == 0).then(|| profiler.profile("brief"));
                            let mut map = HashMap::new();
                            for key in 0..number * 300 {
                                map.insert(key, vec![key; 10]);
                            }
                            black_box(&map);
                        });
                    });
                }
            });
        }
        // Reports are made at the same time.
        while Instant::now() < until {
            black_box(profiler.summary());
            std::thread::sleep(Duration::from_millis(300));
        }
    });
    let samples = profiler.snapshot().samples.expect("it is sampled");
    println!(
        "{} threads, {} samples, {} dropped, {:?}",
        started.into_inner(),
        samples.samples,
        samples.dropped_ticks,
        samples.notes
    );
    assert!(samples.samples > 1000);
    assert!(action(&samples, "brief").all.samples > 0);
}

/// Checks that forked children are not sampled and work correctly, while the parent continues.
pub fn fork() {
    let profiler = AdvancedProfiler::new().sampled(2000);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let _action = profiler.profile("goes_on");
            while !is_over.load(Ordering::Relaxed) {
                burn_small(10_000);
            }
        });
        let _ends = StopOnDrop(&is_over);
        for _ in 0..30 {
            // SAFETY: the child only does work that is permitted after a fork of a multi-threaded
            // program. The C library keeps its allocator usable, and the child starts no threads.
            let child = unsafe { libc::fork() };
            assert!(child >= 0);
            if child == 0 {
                child_of(&profiler);
            }
            let mut status = 0;
            // SAFETY: `status` is a local variable, and `child` is a child of this process.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{status:x}");
        }
    });
    let samples = profiler.snapshot().samples.expect("it is sampled");
    assert!(action(&samples, "goes_on").all.samples > 20);

    fn child_of(profiler: &AdvancedProfiler) -> ! {
        burn_small(100_000);
        drop(SimpleProfiler::new().profile("in_the_child"));
        let samples = profiler.snapshot().samples;
        let note = samples.and_then(|samples| samples.notes.first().cloned());
        let is_right = note.is_some_and(|note| note.contains("forked"));
        // SAFETY: the child's copy is neither used nor dropped elsewhere, because the child exits
        // without unwinding.
        drop(unsafe { std::ptr::read(profiler) });
        let again = Sampler::start(1000).map(|sampler| {
            burn_large(20_000_000);
            sampler.stop().samples.samples
        });
        let is_right = is_right && again.is_ok_and(|samples| samples > 0);
        // SAFETY: `_exit` ends the child without the parent's exit handlers.
        unsafe { libc::_exit(i32::from(!is_right)) }
    }
}

/// Interrupts the program inside its allocator as often as possible.
pub fn allocation() {
    let sampler = Sampler::start(20_000).expect("nothing else samples");
    let work = || {
        let start = processor_time();
        let mut kept: Vec<Vec<u8>> = Vec::new();
        let mut size = 1_usize;
        while processor_time() - start < Duration::from_millis(800) {
            size = size.wrapping_mul(48_271) % 100_003;
            kept.push(vec![1; size]);
            if kept.len() > 100 {
                kept.swap_remove(size % 100);
            }
        }
        let total: usize =
            kept.iter().map(|block| block.iter().map(|b| *b as usize).sum::<usize>()).sum();
        assert_eq!(total, kept.iter().map(Vec::len).sum::<usize>(), "nobody wrote into blocks");
    };
    std::thread::scope(|threads| {
        for _ in 0..3 {
            threads.spawn(work);
        }
    });
    let samples = sampler.stop().samples;
    println!("{} samples at {} Hz", samples.samples, samples.reached_hz);
    assert!(samples.samples > 1000);
    let [own, _] = function(&samples, action(&samples, "(outside of any action)"), "malloc");
    println!("{own:?} in malloc itself");
}

/// Starts and stops the sampler repeatedly while threads work. The signal must be released each
/// time.
pub fn start_and_stop() {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        for _ in 0..3 {
            threads.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    burn_small(1000);
                }
            });
        }
        let _ends = StopOnDrop(&is_over);
        for round in 0..100 {
            let sampler = Sampler::start(20_000).expect("the last one has stopped");
            std::thread::sleep(Duration::from_millis(round % 5));
            drop(sampler);
            let taken = (libc::SIGRTMIN()..=libc::SIGRTMAX()).filter(|signal| {
                // SAFETY: an all-zero `sigaction` is valid.
                let mut current: libc::sigaction = unsafe { std::mem::zeroed() };
                // SAFETY: without a new action the call only writes the current action to
                // `current`.
                unsafe { libc::sigaction(*signal, std::ptr::null(), &raw mut current) };
                current.sa_sigaction != libc::SIG_DFL
            });
            assert_eq!(taken.count(), 0);
        }
    });
}
