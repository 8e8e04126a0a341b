//! Tests of device counters in traces.

use std::collections::BTreeMap;
use std::time::Instant;

use mlprof_core::hook::{CounterSample, DeviceCounter, Timestamp};
use mlprof_core::{Observation, Profiler, TensorProfiler};

use crate::parsed::Trace;
use crate::recorded::{action, kernel, spin, trace};

fn sample(profiler: &TensorProfiler, device: u32, counter: DeviceCounter, value: f64) {
    let time = Timestamp::now();
    profiler.observe(&Observation::DeviceCounter(&CounterSample { time, device, counter, value }));
}

#[test]
fn counters_are_curves_of_their_device_also_where_nothing_ran_on_it() {
    let before = Timestamp::now();
    let text = trace(|profiler| {
        action(profiler, "forward", || {
            profiler.observe(&Observation::DeviceEvent(&kernel(
                "gemm",
                0,
                Instant::now(),
                10,
                100,
            )));
            for value in [12.0, 37.5] {
                spin(10);
                sample(profiler, 0, DeviceCounter::GpuUtilization, value);
            }
            sample(profiler, 3, DeviceCounter::MemoryUsed, 85_899_345_920.0);
            sample(profiler, 3, DeviceCounter::Power, f64::NAN);
            let early = CounterSample {
                time: before,
                device: 5,
                counter: DeviceCounter::Temperature,
                value: 40.0,
            };
            profiler.observe(&Observation::DeviceCounter(&early));
        });
    });
    let trace = Trace::of(&text);
    let mut curves: BTreeMap<_, Vec<f64>> = BTreeMap::new();
    let mut last = 0.0;
    for event in trace.of_phase("C") {
        assert_eq!((&event["cat"], &event["tid"]), (&"device_counter".into(), &0.into()));
        let time = event["ts"].as_f64().expect("a time");
        assert!(time >= last, "in the order of time");
        last = time;
        let key =
            (event["pid"].as_u64().expect("a device"), event["name"].as_str().expect("a name"));
        curves.entry(key).or_default().push(event["args"]["value"].as_f64().expect("a number"));
    }
    let expected = [
        ((0, "GPU 0 utilization (%)"), vec![12.0, 37.5]),
        ((3, "GPU 3 memory used (bytes)"), vec![85_899_345_920.0]),
    ];
    assert_eq!(curves, BTreeMap::from(expected));
    let labels = trace.of_phase("M").filter(|event| event["name"] == "process_labels");
    let labels: BTreeMap<_, _> = labels
        .map(|event| (event["pid"].as_u64(), event["args"]["labels"].as_str().unwrap_or_default()))
        .collect();
    assert_eq!((labels[&Some(0)], labels[&Some(3)]), ("GPU 0", "GPU 3"));
    assert!(!labels.contains_key(&Some(5)), "sampled before the recording began");
    let forward = trace.slice("forward");
    let first = trace.of_phase("C").next().and_then(|event| event["ts"].as_f64()).expect("a time");
    let first = (first * 1000.0).round() as i64;
    assert!((forward.start..=forward.end).contains(&first), "on the time line of the host");
}
