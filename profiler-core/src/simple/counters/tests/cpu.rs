//! Tests of CPU time and context switches. The tests read the same clocks outside and inside every
//! action; the measured value must lie between the two.

use std::time::Duration;

use super::*;
use crate::report::simple::{CpuStatistics, CpuStatisticsParts};

fn clock(id: libc::clockid_t) -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a local `timespec`, so the pointer is valid for writes.
    assert_eq!(unsafe { libc::clock_gettime(id, &raw mut time) }, 0);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn thread_seconds() -> f64 {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Returns the current counters of this thread.
fn now() -> CpuStatistics {
    // SAFETY: an all-zero `rusage` is valid, and the pointer to the local value is valid for
    // writes.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage), 0);
        usage
    };
    CpuStatisticsParts {
        thread_seconds: thread_seconds(),
        process_seconds: clock(libc::CLOCK_PROCESS_CPUTIME_ID),
        voluntary_switches: usage.ru_nvcsw.unsigned_abs(),
        involuntary_switches: usage.ru_nivcsw.unsigned_abs(),
    }
    .build()
}

fn numbers(cpu: CpuStatistics) -> [f64; 4] {
    let [voluntary, involuntary] =
        [cpu.voluntary_switches, cpu.involuntary_switches].map(|count| count as f64);
    [cpu.thread_seconds, cpu.process_seconds, voluntary, involuntary]
}

/// Minimum and maximum difference between two readings.
struct Bounds {
    least: [f64; 4],
    most: [f64; 4],
}

impl Bounds {
    /// Checks that the counters are within the bounds. The tolerance covers floating-point
    /// rounding, because the system's values are whole nanoseconds.
    fn check(&self, cpu: CpuStatistics) {
        for (position, number) in numbers(cpu).into_iter().enumerate() {
            let (least, most) = (self.least[position], self.most[position]);
            assert!(least - 1e-8 <= number && number <= most + 1e-8, "{least} {most} in {cpu:?}");
        }
    }
}

/// Runs `work` in an action, with readings before and after it.
fn measured(profiler: &impl Profiler, action: &'static str, work: impl FnOnce()) -> Bounds {
    let before = now();
    let scope = profiler.profile(action);
    let start = now();
    work();
    let end = now();
    drop(scope);
    let after = now();
    let difference = |end: CpuStatistics, start: CpuStatistics| {
        let (end, start) = (numbers(end), numbers(start));
        std::array::from_fn(|position| end[position] - start[position])
    };
    Bounds { least: difference(end, start), most: difference(after, before) }
}

/// Works until the thread's own clock has advanced by `seconds`. Returns the actual advance in
/// seconds.
fn spin(seconds: f64) -> f64 {
    let start = thread_seconds();
    loop {
        let elapsed = thread_seconds() - start;
        if elapsed >= seconds {
            return elapsed;
        }
    }
}

fn cpu(row: &ActionStatistics) -> CpuStatistics {
    row.cpu.unwrap_or_else(|| panic!("no CPU time in {row:?}"))
}

#[test]
fn working_is_told_from_waiting() {
    let profiler = SimpleProfiler::new().measure_cpu();
    let spun = measured(&profiler, "spin", || _ = spin(0.02));
    let slept = measured(&profiler, "sleep", || {
        for _ in 0..4 {
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    let report = profiler.snapshot();
    let (spin, sleep) = (row(&report.actions, "spin"), row(&report.actions, "sleep"));
    spun.check(cpu(spin));
    slept.check(cpu(sleep));
    assert!(cpu(spin).thread_seconds >= 0.02);
    assert!(cpu(sleep).voluntary_switches >= 4, "one for each sleep: {sleep:?}");
    for row in [spin, sleep] {
        let waiting = row.total_seconds - cpu(row).thread_seconds;
        assert_eq!(row.waiting_seconds(), Some(waiting.max(0.0)));
        assert_eq!(row.busy_cores(), Some(cpu(row).process_seconds / row.total_seconds));
    }
    let least = sleep.total_seconds - slept.most[0];
    assert!(sleep.waiting_seconds() >= Some(least) && least > 0.0, "{sleep:?}");
    assert_eq!(report.header.notes, [""; 0]);
}

#[test]
fn other_threads_are_in_the_time_of_the_process() {
    let profiler = SimpleProfiler::new().measure_cpu();
    let mut theirs = 0.0;
    let bounds = measured(&profiler, "parallel", || {
        let start = now().process_seconds;
        theirs = std::thread::scope(|scope| {
            let workers = [0.015, 0.02].map(|seconds| scope.spawn(move || spin(seconds)));
            workers.map(|worker| worker.join().expect("no panic")).iter().sum()
        });
        // The system adds the CPU time of other threads at its next tick or after they have exited.
        while now().process_seconds - start < theirs {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    let report = profiler.snapshot();
    let counted = cpu(row(&report.actions, "parallel"));
    bounds.check(counted);
    assert!(counted.process_seconds >= theirs && theirs >= 0.035, "{counted:?}");
    assert!(counted.thread_seconds + 0.035 <= counted.process_seconds + 1e-8, "{counted:?}");
}

#[test]
fn recursion_counts_time_once() {
    fn recurse(profiler: &impl Profiler, depth: u32) {
        let _scope = profiler.profile("recursive");
        spin(0.002);
        if depth > 1 {
            recurse(profiler, depth - 1);
        }
    }
    let profiler = SimpleProfiler::new().measure_cpu();
    let bounds = measured(&profiler, "around", || recurse(&profiler, 5));
    let report = profiler.snapshot();
    let (around, inside) = (row(&report.actions, "around"), row(&report.actions, "recursive"));
    bounds.check(cpu(around));
    let inside = cpu(inside).thread_seconds;
    assert!(inside >= 5.0 * 0.002 && inside <= cpu(around).thread_seconds, "{inside} {around:?}");
}

#[test]
fn threads_have_their_own_time_and_rows_add_up() {
    let profiler = SimpleProfiler::new().measure_cpu();
    let work = |name: &str| {
        let profiler = &profiler;
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name(name.to_owned());
            let thread =
                thread.spawn_scoped(scope, move || measured(profiler, "work", || _ = spin(0.003)));
            thread.expect("a thread").join().expect("no panic")
        })
    };
    let bounds = [work("one"), work("two")];
    let report = profiler.snapshot();
    let mut sum = 0.0;
    for (name, bounds) in ["one", "two"].iter().zip(bounds) {
        let thread = report.threads.iter().find(|thread| thread.thread == *name);
        let counted = cpu(row(&thread.expect("its rows").actions, "work"));
        bounds.check(counted);
        sum += counted.thread_seconds;
    }
    let all = cpu(row(&report.actions, "work")).thread_seconds;
    assert!((all - sum).abs() < 1e-8, "{all} {sum}");
}

#[test]
fn both_kinds_can_be_measured_at_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("data");
    let write = || std::fs::write(&path, [7; 1_000]).expect("written");
    let one = SimpleProfiler::new().measure_cpu().measure_io();
    let other = SimpleProfiler::new().measure_io().measure_cpu();
    let bounds = [measured(&one, "write", write), measured(&other, "write", write)];
    for (profiler, bounds) in [one, other].iter().zip(bounds) {
        let report = profiler.snapshot();
        let row = row(&report.actions, "write");
        assert_eq!(row.io.map(|io| io.written_bytes), Some(1_000));
        bounds.check(cpu(row));
        let text = profiler.summary();
        assert!(text.contains("\nBytes read and written") && text.contains("\nCPU time"), "{text}");
    }
    let only_io = SimpleProfiler::new().measure_io();
    measured(&only_io, "write", write);
    assert_eq!(row(&only_io.snapshot().actions, "write").cpu, None);
}
