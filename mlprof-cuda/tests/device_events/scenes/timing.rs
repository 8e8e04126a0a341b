//! Scenes that check the duration and the cost of regions.

use std::time::Instant;

use mlprof_core::SimpleProfiler;
use mlprof_cuda::{DeviceProfilerExt, Stream};

use super::{host_calls, region};
use crate::fake::Fake;

/// Checks durations to the nanosecond. The driver's floats have this precision up to 16 ms.
pub fn durations() {
    let fake = Fake::with_context();
    let profiler = SimpleProfiler::new();
    let (one, other) = (fake.stream(), fake.stream());
    {
        let _outer = profiler.profile_device("outer", one.stream());
        fake.launch(one, 1_500);
        {
            let _inner = profiler.profile_device("inner", one.stream());
            fake.launch(one, 123_456);
            // This region runs concurrently on another stream.
            let _beside = profiler.profile_device("beside", other.stream());
            fake.launch(other, 7_654_321);
        }
        fake.launch(one, 17);
    }
    for nanoseconds in [1_000, 2_000, 3_001] {
        let _default = profiler.profile_device("default", Stream::default_stream());
        fake.launch(crate::fake::FakeStream(std::ptr::null_mut()), nanoseconds);
    }
    drop(profiler.profile_device("empty", one.stream()));
    {
        let third = fake.stream();
        fake.advance(1_000_000);
        let _region = profiler.profile_device("with a pause", third.stream());
        fake.launch(third, 100);
        fake.advance(5_000);
        fake.launch(third, 7);
    }
    let report = profiler.snapshot();
    assert_eq!(region(&report, "inner"), Some((1, 123_456, 123_456, 123_456)));
    assert_eq!(region(&report, "beside"), Some((1, 7_654_321, 7_654_321, 7_654_321)));
    assert_eq!(region(&report, "outer"), Some((1, 124_973, 124_973, 124_973)));
    assert_eq!(region(&report, "default"), Some((3, 6_001, 1_000, 3_001)));
    assert_eq!(region(&report, "empty"), Some((1, 0, 0, 0)));
    assert_eq!(region(&report, "with a pause"), Some((1, 5_007, 5_007, 5_007)));
    assert_eq!((host_calls(&report, "outer"), host_calls(&report, "default")), (1, 3));
    assert!(report.header.notes.is_empty(), "{:?}", report.header.notes);
    assert_eq!((fake.depth(), fake.primaries()), (1, 0));
}

/// Checks that the host does not wait for the device within a region or between regions.
pub fn the_host_does_not_wait_for_the_device() {
    let fake = Fake::with_context();
    let profiler = SimpleProfiler::new();
    let stream = fake.stream();
    drop(profiler.profile_device("first", stream.stream()));
    fake.take_record();
    for _ in 0..50 {
        let _region = profiler.profile_device("region", stream.stream());
        fake.launch(stream, 10);
    }
    let calls = fake.take_record();
    assert!(calls.iter().all(|call| !call.contains("Synchronize")), "{calls:?}");
    assert_eq!(calls.iter().filter(|call| *call == "cuEventRecord").count(), 100);
    // Only the report waits.
    assert_eq!(region(&profiler.snapshot(), "region"), Some((50, 500, 10, 10)));
    let calls = fake.take_record();
    assert!(calls.iter().any(|call| call == "cuEventSynchronize"), "{calls:?}");
    assert!(calls.iter().all(|call| call != "cuStreamSynchronize" && call != "cuCtxSynchronize"));
}

pub fn events_are_used_again() {
    let fake = Fake::with_context();
    let profiler = SimpleProfiler::new();
    let stream = fake.stream();
    for number in 0..10_000 {
        {
            let _region = profiler.profile_device("region", stream.stream());
            fake.launch(stream, 100);
        }
        if number % 8 == 7 {
            fake.run();
        }
    }
    let created = fake.calls("cuEventCreate");
    assert!((3..=2 * 24 + 1).contains(&created), "{created} events");
    assert_eq!(fake.calls("cuEventDestroy_v2"), 0);
    assert_eq!(region(&profiler.snapshot(), "region"), Some((10_000, 1_000_000, 100, 100)));
    assert_eq!(fake.calls("cuEventCreate"), created);
}

/// Checks regions of streams in contexts that are not current.
pub fn two_contexts() {
    let fake = Fake::new();
    let (first, second) = (fake.context(0), fake.context(1));
    let (one, other) = (fake.stream_of(first), fake.stream_of(second));
    let profiler = SimpleProfiler::new();
    for current in [std::ptr::null_mut(), first, second] {
        fake.set_current(current);
        let outer = profiler.profile_device("one", one.stream());
        fake.launch(one, 1_000);
        let inner = profiler.profile_device("other", other.stream());
        fake.launch(other, 20_000);
        assert_eq!(fake.current(), current);
        drop((outer, inner));
        assert_eq!(fake.current(), current);
    }
    fake.set_current(second);
    let report = profiler.snapshot();
    assert_eq!(fake.current(), second);
    assert_eq!(region(&report, "one"), Some((3, 3_000, 1_000, 1_000)));
    assert_eq!(region(&report, "other"), Some((3, 60_000, 20_000, 20_000)));
    assert!(report.header.notes.is_empty(), "{:?}", report.header.notes);
}

pub fn many_threads() {
    let fake = Fake::with_context();
    let context = fake.current();
    let profiler = SimpleProfiler::new();
    let shared = fake.stream().0.addr();
    let addresses: Vec<usize> = (0..4).map(|_| fake.stream_of(context).0.addr()).collect();
    let context = context.addr();
    std::thread::scope(|threads| {
        for own in addresses {
            let (fake, profiler) = (&fake, &profiler);
            threads.spawn(move || {
                let at = |address: usize| crate::fake::FakeStream(address as *mut _);
                fake.set_current(at(context).0);
                for number in 0..500 {
                    {
                        let _own = profiler.profile_device("own", at(own).stream());
                        fake.launch(at(own), 50);
                        let _shared = profiler.profile_device("shared", at(shared).stream());
                    }
                    match number % 100 {
                        50 => drop(profiler.snapshot()),
                        10 | 60 => fake.run(),
                        _ => {}
                    }
                }
            });
        }
    });
    let report = profiler.snapshot();
    assert_eq!(region(&report, "own"), Some((2_000, 100_000, 50, 50)));
    assert_eq!(region(&report, "shared"), Some((2_000, 0, 0, 0)));
}

/// Prints the cost of a region with a driver of almost no cost. The value is not checked.
pub fn cost() {
    const REGIONS: u32 = 20_000;
    let fake = Fake::with_context();
    let profiler = SimpleProfiler::new();
    let stream = fake.stream();
    let seconds = |work: &dyn Fn()| {
        let round = |_| {
            let started = Instant::now();
            (0..REGIONS / 100).for_each(|_| work());
            started.elapsed() / (REGIONS / 100)
        };
        (0..100).map(round).min()
    };
    // The device always finishes before the next region begins.
    let handle = stream.stream();
    let run = fake.runner();
    let region = seconds(&|| {
        drop(profiler.profile_device("region", handle));
        run();
    });
    let action = seconds(&|| {
        drop(mlprof_core::ProfilerExt::profile(&profiler, "region"));
        run();
    });
    let (region, action) = (region.unwrap_or_default(), action.unwrap_or_default());
    println!("device_events: a region costs {:?} more than its action", region - action);
}
