//! Compares the device time of actions with the kernels' own times.

use std::sync::Arc;

use burn::tensor::{Device, Distribution, Tensor};
use mlprof_burn::DeviceProfilerExt;
use mlprof_core::hook::{max_pending_regions, set_max_pending_regions};
use mlprof_core::report::simple::ActionStatistics;
use mlprof_core::tensor::DeviceTiming;
use mlprof_core::{
    AdvancedProfiler, MultiProfiler, Profiler, ProfilerExt, RunContext, SimpleProfiler, Stage,
    TensorProfiler, activate, profile,
};

use crate::recorded::{Cycles, Recorded, alone, device};

fn random(device: &Device) -> Tensor<2> {
    Tensor::random([192, 192], Distribution::Uniform(-1.0, 1.0), device)
}

fn row<'report>(rows: &'report [ActionStatistics], action: &str) -> &'report ActionStatistics {
    rows.iter().find(|row| row.action == action).expect("a row")
}

/// Runs three actions: one with two matmuls, one nested action with another matmul, and one that
/// only waits.
fn work(a: &Tensor<2>, b: &Tensor<2>) {
    for _ in 0..3 {
        let outer = profile!("outer");
        let product = {
            let _scope = profile!("matmuls");
            a.clone().matmul(b.clone()).matmul(b.clone())
        };
        let sum = product.matmul(a.clone()) + 1.0;
        drop(outer);
        let _scope = profile!("nothing on the device");
        std::thread::sleep(std::time::Duration::from_millis(2));
        drop(sum);
    }
}

/// Returns two times in seconds, summed over the calls of `action`. The first is the span from the
/// first kernel's start to the last kernel's end. The second is the sum of the kernels' durations.
fn kernels_in(recorded: &Recorded, action: &str) -> (f64, f64) {
    let (mut spans, mut sums) = (0.0, 0.0);
    let is_call = |scope: &&crate::recorded::Scope| scope.name == action;
    let calls: Vec<_> = recorded.scopes.iter().filter(is_call).collect();
    assert_eq!(calls.len(), 3);
    let mut kernels: Vec<_> = recorded
        .kernels
        .iter()
        .filter(|kernel| kernel.place.as_ref().is_some_and(|place| place.is_in(action)))
        .collect();
    kernels.sort_by_key(|kernel| kernel.start);
    assert_eq!(kernels.len() % calls.len(), 0, "each call launches as many kernels");
    for call in kernels.chunks(kernels.len() / calls.len()) {
        let first = call.iter().map(|kernel| kernel.start).min().expect("kernels");
        let last = call.iter().map(|kernel| kernel.end).max().expect("kernels");
        spans += (last - first) as f64 / 1e9;
        sums += call.iter().map(|kernel| (kernel.end - kernel.start) as f64 / 1e9).sum::<f64>();
    }
    (spans, sums)
}

#[test]
fn an_action_takes_the_device_as_long_as_its_kernels_and_their_pauses() {
    let _alone = alone();
    let device = device();
    let (a, b) = (random(&device), random(&device));
    work(&a, &b);
    device.sync().expect("a device");
    let cycles = Cycles::default();
    let tensor = TensorProfiler::new().without_schedule().device_timing(DeviceTiming::On);
    let tensor: Arc<dyn Profiler> = Arc::new(cycles.of(tensor));
    let simple = Arc::new(SimpleProfiler::new().measure_devices(true));
    let both: Arc<dyn Profiler> =
        Arc::new(MultiProfiler::new([tensor, simple.clone() as Arc<dyn Profiler>]));
    both.setup(Stage::Predict, &RunContext::default());
    let active = activate(both.clone());
    work(&a, &b);
    drop(active);
    let report = simple.snapshot();
    both.teardown(None);
    let recorded = cycles.take().remove(0);
    for action in ["outer", "matmuls"] {
        let measured = row(&report.actions, action).device.expect("device time");
        let (spans, sums) = kernels_in(&recorded, action);
        println!("{action}: {measured:?}; kernels {sums:.6} s in spans of {spans:.6} s");
        assert_eq!(measured.calls, 3);
        // Both times come from the same clock, and the window encloses its kernels. The comparison
        // is therefore independent of the machine's load. The tolerance covers the timestamp
        // resolution and the overhead around each kernel's own timestamps.
        assert!(measured.total_seconds >= 0.99 * sums, "{measured:?} {sums}");
        assert!(measured.total_seconds <= 1.05 * spans + 0.001, "{measured:?} {spans}");
    }
    let (outer, inner) = (row(&report.actions, "outer"), row(&report.actions, "matmuls"));
    let times = (outer.device.expect("outer"), inner.device.expect("inner"));
    assert!(
        times.0.total_seconds > times.1.total_seconds,
        "an inner action's time is in the outer"
    );
    assert_eq!(row(&report.actions, "nothing on the device").device, None);
    assert!(report.device_regions.is_empty(), "the columns are no regions");
    let text = simple.summary();
    for part in ["Device mean (s)", "Device time (s)", "Device: time of the device's clock"] {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
    assert!(text.contains("measuring device time took"), "{text}");
}

#[test]
fn without_the_option_nothing_is_measured_or_shown() {
    let _alone = alone();
    let device = device();
    let (a, b) = (random(&device), random(&device));
    let simple = Arc::new(SimpleProfiler::new());
    let active = activate(simple.clone());
    work(&a, &b);
    drop(active);
    let report = simple.snapshot();
    assert!(report.actions.iter().all(|row| row.device.is_none()));
    assert!(!simple.summary().contains("Device"), "{}", simple.summary());
}

#[test]
fn the_advanced_profiler_has_a_table_of_device_time() {
    let _alone = alone();
    let device = device();
    let (a, b) = (random(&device), random(&device));
    let advanced = Arc::new(AdvancedProfiler::new().measure_devices(true));
    let active = activate(advanced.clone());
    work(&a, &b);
    drop(active);
    let report = advanced.snapshot();
    let profile = report.actions.iter().find(|it| it.action == "matmuls").expect("a profile");
    assert_eq!(profile.device.expect("device time").calls, 3);
    assert!(advanced.summary().contains("Device time of actions"), "{}", advanced.summary());
}

#[test]
fn a_region_of_a_device_has_a_row_of_its_own() {
    let _alone = alone();
    let device = device();
    let (a, b) = (random(&device), random(&device));
    let simple = SimpleProfiler::new();
    {
        let _scope = simple.profile_device("region", &device);
        a.matmul(b).into_data();
    }
    let flex = Device::flex();
    drop(simple.profile_device("on the processor", &flex));
    let report = simple.snapshot();
    let [region] = &report.device_regions[..] else { panic!("{:?}", report.device_regions) };
    assert_eq!((region.action.as_str(), region.calls), ("region", 1));
    assert!(region.total_seconds > 0.0);
    assert_eq!(row(&report.actions, "region").device, None, "measure_devices is off");
    let notes = report.header.notes.join("\n");
    assert!(notes.contains("1 call of a device region has no device time: Flex"), "{notes}");
}

#[test]
fn more_calls_than_may_be_under_way_are_counted() {
    let _alone = alone();
    let device = device();
    let (a, b) = (random(&device), random(&device));
    let before = max_pending_regions();
    set_max_pending_regions(2);
    let simple = SimpleProfiler::new().measure_devices(true);
    {
        let _scopes = ["one", "two", "three", "four"].map(|action| simple.profile(action));
        a.matmul(b).into_data();
    }
    let report = simple.snapshot();
    set_max_pending_regions(before);
    let measured: Vec<_> = report.actions.iter().filter(|row| row.device.is_some()).collect();
    assert_eq!(measured.len(), 2, "{:?}", report.actions);
    let notes = report.header.notes.join("\n");
    let note = "2 calls of actions have no device time: more than 2 regions were pending";
    assert!(notes.contains(note), "{notes}");
}

#[test]
fn threads_that_share_a_device_have_their_own_times() {
    let _alone = alone();
    let device = device();
    let (a, b) = (random(&device), random(&device));
    let simple = SimpleProfiler::new().measure_devices(true);
    std::thread::scope(|threads| {
        for action in ["first", "second"] {
            let (simple, a, b) = (&simple, a.clone(), b.clone());
            threads.spawn(move || {
                for _ in 0..5 {
                    let _scope = simple.profile(action);
                    a.clone().matmul(b.clone()).into_data();
                }
            });
        }
    });
    let report = simple.snapshot();
    for action in ["first", "second"] {
        assert_eq!(row(&report.actions, action).device.expect("device time").calls, 5, "{action}");
    }
}
