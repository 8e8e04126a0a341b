//! Scenes with failures. The action must still be measured on the host, and the report must explain
//! the missing device time.

use std::panic::{AssertUnwindSafe, catch_unwind};

use mlprof_core::{Profiler, SimpleProfiler};
use mlprof_cuda::{DeviceProfilerExt, Stream, max_pending_regions, set_max_pending_regions};

use super::{host_calls, region, says};
use crate::fake::Fake;

pub fn too_many() {
    let fake = Fake::with_context();
    let profiler = SimpleProfiler::new();
    let stream = fake.stream();
    assert_eq!(max_pending_regions(), 4096);
    set_max_pending_regions(8);
    let many = || {
        for _ in 0..20 {
            let _region = profiler.profile_device("region", stream.stream());
            fake.launch(stream, 100);
        }
    };
    many();
    assert_eq!(fake.calls("cuEventCreate"), 1 + 2 * 8);
    let report = profiler.snapshot();
    assert_eq!(region(&report, "region"), Some((8, 800, 100, 100)));
    assert_eq!(host_calls(&report, "region"), 20);
    assert!(says(&report, "12 calls of device regions have no device time: more than 8 regions"));
    // There is room again, and completed regions of other streams make room, too.
    many();
    fake.run();
    let other = fake.stream();
    drop(profiler.profile_device("other", other.stream()));
    let report = profiler.snapshot();
    assert_eq!(region(&report, "region"), Some((16, 1_600, 100, 100)));
    assert_eq!(region(&report, "other"), Some((1, 0, 0, 0)));
    assert!(profiler.summary().contains("Note: 24 calls of device regions have no device time"));
}

/// Lets each function that regions call fail, both at the first region of a context and at a later
/// one.
pub fn each_function_fails() {
    const FUNCTIONS: &[&str] = &[
        "cuCtxGetCurrent",
        "cuCtxPushCurrent_v2",
        "cuCtxGetDevice",
        "cuDevicePrimaryCtxRetain",
        "cuEventCreate",
        "cuEventRecord",
        "cuEventQuery",
        "cuEventSynchronize",
        "cuEventElapsedTime_v2",
        "cuStreamCreate",
        "cuStreamGetCtx",
        "cuStreamIsCapturing",
        "cuThreadExchangeStreamCaptureMode",
    ];
    let fake = Fake::new();
    let profiler = SimpleProfiler::new();
    let once = |stream: crate::fake::FakeStream| {
        let _region = profiler.profile_device("region", stream.stream());
        fake.launch(stream, 100);
    };
    let (mut all, mut timed) = (0, 0);
    let mut later = |profiler: &SimpleProfiler, runs: u64| {
        all += runs;
        let report = profiler.snapshot();
        assert_eq!(host_calls(&report, "region"), all);
        let now = region(&report, "region").map_or(0, |row| row.0);
        let lost = all - now;
        let said: u64 = report
            .header
            .notes
            .iter()
            .filter_map(|note| note.split(' ').next().and_then(|count| count.parse::<u64>().ok()))
            .sum();
        assert_eq!(lost, said, "{:?}", report.header.notes);
        let more = now - timed;
        timed = now;
        more
    };
    for function in FUNCTIONS {
        // The stream's context is not the current one.
        fake.set_current(fake.context(1));
        let stream = fake.stream_of(fake.context(0));
        fake.fail(function, 719);
        once(stream);
        later(&profiler, 1);
        fake.fail("", 0);
        once(stream);
        once(stream);
        assert!(later(&profiler, 2) >= 1, "{function}");
        fake.fail(function, 719);
        once(stream);
        fake.run();
        once(stream);
        later(&profiler, 2);
        let open = profiler.profile_device("region", stream.stream());
        fake.fail(function, 719);
        drop(open);
        later(&profiler, 1);
        fake.fail("", 0);
        profiler.snapshot(); // takes the anchor again
        once(stream);
        assert_eq!(later(&profiler, 1), 1, "{function}");
        assert_eq!(fake.depth(), 1, "{function}");
    }
    let report = profiler.snapshot();
    let harmless = ["cuDevicePrimaryCtxRetain", "cuThreadExchangeStreamCaptureMode"];
    for function in FUNCTIONS.iter().filter(|function| !harmless.contains(function)) {
        let note = format!("{}: FAKE_ERROR_719", function.trim_end_matches("Time_v2"));
        let note = note.replace("cuEventElapsed:", "cuEventElapsedTime:");
        assert!(says(&report, &note), "{note}: {:?}", report.header.notes);
    }
}

pub fn captures() {
    let fake = Fake::with_context();
    let profiler = SimpleProfiler::new();
    let stream = fake.stream();
    for how in [1, 2] {
        fake.capture(stream, how);
        drop(profiler.profile_device("inside", stream.stream()));
        fake.capture(stream, 0);
    }
    {
        let _begins = profiler.profile_device("begins", stream.stream());
        fake.capture(stream, 1);
    }
    fake.capture(stream, 0);
    {
        let _after = profiler.profile_device("after", stream.stream());
        fake.launch(stream, 70);
    }
    let report = profiler.snapshot();
    assert_eq!((host_calls(&report, "inside"), host_calls(&report, "begins")), (2, 1));
    assert_eq!(region(&report, "after"), Some((1, 70, 70, 70)));
    assert_eq!(report.device_regions.len(), 1);
    let note = "3 calls of device regions have no device time: the stream was being captured";
    assert!(says(&report, note), "{:?}", report.header.notes);
    // The event pair of the abandoned region was reused.
    assert_eq!(fake.calls("cuEventCreate"), 3);
}

pub fn no_context() {
    let fake = Fake::new();
    let profiler = SimpleProfiler::new();
    drop(profiler.profile_device("region", Stream::default_stream()));
    let report = profiler.snapshot();
    assert_eq!((host_calls(&report, "region"), report.device_regions.len()), (1, 0));
    assert!(says(&report, "the thread had no CUDA context yet"), "{:?}", report.header.notes);
    assert_eq!(fake.calls("cuEventRecord"), 0);
}

/// Checks threads that end with an open region, by a panic or by leaking the guard.
pub fn threads_that_die() {
    let fake = Fake::with_context();
    let context = fake.current().addr();
    let stream = fake.stream().0.addr();
    let profiler = SimpleProfiler::new();
    std::thread::scope(|threads| {
        for panics in [true, false] {
            let (fake, profiler) = (&fake, &profiler);
            let thread = threads.spawn(move || {
                fake.set_current(context as *mut _);
                let stream = crate::fake::FakeStream(stream as *mut _);
                let region = profiler.profile_device("region", stream.stream());
                fake.launch(stream, 40);
                assert!(!panics, "a panic that the scene wants");
                std::mem::forget(region);
            });
            assert_eq!(thread.join().is_err(), panics);
        }
    });
    let stream = crate::fake::FakeStream(stream as *mut _);
    drop(profiler.profile_device("region", stream.stream()));
    let report = profiler.snapshot();
    assert_eq!(region(&report, "region"), Some((2, 40, 0, 40)));
    assert_eq!(host_calls(&report, "region"), 2);
}

pub fn a_panic() {
    let fake = Fake::with_context();
    let profiler = SimpleProfiler::new();
    let stream = fake.stream();
    let result = catch_unwind(AssertUnwindSafe(|| {
        let _outer = profiler.profile_device("outer", stream.stream());
        let _inner = profiler.profile_device("inner", stream.stream());
        fake.launch(stream, 60);
        // The driver also rejects calls during unwinding.
        fake.fail("cuEventRecord", 700);
        panic!("a panic that the scene wants");
    }));
    assert!(result.is_err());
    fake.fail("", 0);
    drop(profiler.profile_device("outer", stream.stream()));
    let report = profiler.snapshot();
    assert_eq!((host_calls(&report, "outer"), host_calls(&report, "inner")), (2, 1));
    assert_eq!(region(&report, "outer"), Some((1, 0, 0, 0)));
    assert!(says(&report, "2 calls of device regions have no device time: cuEventRecord"));
}

/// Checks that a forked child neither uses its parent's events nor waits for them.
pub fn a_fork() {
    let fake = Fake::with_context();
    let profiler = SimpleProfiler::new();
    let stream = fake.stream();
    drop(profiler.profile_device("region", stream.stream()));
    // SAFETY: the child creates a report and then terminates.
    let child = unsafe { libc::fork() };
    if child == 0 {
        fake.take_record();
        let report = profiler.snapshot();
        let is_quiet = fake.take_record().is_empty() && report.device_regions.is_empty();
        // SAFETY: `_exit` has no preconditions. It terminates the child without the parent's exit
        // handlers.
        unsafe { libc::_exit(i32::from(!is_quiet)) }
    }
    let mut status = 1;
    // SAFETY: the function writes one integer to `status`, an initialised local.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
    assert_eq!(region(&profiler.snapshot(), "region"), Some((1, 0, 0, 0)));
}

/// Checks regions without a usable driver.
pub fn unusable(why: &str) {
    let profiler = SimpleProfiler::new();
    for _ in 0..3 {
        drop(profiler.profile_device("region", Stream::default_stream()));
    }
    let report = profiler.snapshot();
    assert_eq!((host_calls(&report, "region"), report.device_regions.len()), (3, 0));
    assert!(says(&report, why), "{:?}", report.header.notes);
    assert_eq!(report.header.notes.len(), 1);
    assert!(profiler.summary().contains("Note: 3 calls of device regions have no device time"));
}
