//! Tests of the means of device counters per action.

use mlprof_core::hook::{CounterSample, DeviceCounter, Timestamp};
use mlprof_core::report::Report;
use mlprof_core::report::tensor::CounterStatistics;
use mlprof_core::tensor::Schedule;
use mlprof_core::{Observation, Profiler, ProfilerExt, RunContext, Stage, TensorProfiler};

fn busy(profiler: &dyn Profiler, value: f64) {
    let (time, counter) = (Timestamp::now(), DeviceCounter::GpuUtilization);
    profiler.observe(&Observation::DeviceCounter(&CounterSample {
        time,
        device: 0,
        counter,
        value,
    }));
}

#[test]
fn actions_have_the_means_of_what_was_sampled_inside_them() {
    let every_step = Schedule::new().wait(0).warmup(0).active(1).repeat(0);
    let profiler = TensorProfiler::new().export_trace(false).schedule(every_step);
    profiler.setup(Stage::Fit, &RunContext::default());
    for step in 0..3 {
        {
            let _training = profiler.profile("training_step");
            busy(&profiler, f64::from(step) * 10.0);
            std::thread::scope(|threads| {
                threads.spawn(|| {
                    let _loading = profiler.profile("load");
                    busy(&profiler, 100.0);
                });
            });
        }
        drop(profiler.profile("short"));
        profiler.step();
    }
    profiler.teardown(None);
    let report = profiler.report().expect("a report");
    let Report::Tensor(tensor) = &report else { panic!("{report:?}") };
    let [device] = &tensor.device_counters[..] else { panic!("{:?}", tensor.device_counters) };
    assert_eq!((device.device, device.samples), (0, 6));
    let found = |name: &str| {
        let action = device.actions.iter().find(|action| action.name == name);
        action.unwrap_or_else(|| panic!("no {name}: {:?}", device.actions))
    };
    let mean = |samples: u64, mean: f64| {
        [CounterStatistics { counter: DeviceCounter::GpuUtilization, samples, mean, max: 100.0 }]
    };
    assert_eq!(found("training_step").counters, mean(6, 55.0));
    assert_eq!(found("ProfilerStep*").counters, mean(6, 55.0));
    assert_eq!(found("load").counters, mean(3, 100.0));
    assert_eq!((found("short").calls, found("short").counters.len()), (3, 0));
    let text = profiler.summary();
    assert!(text.contains("Device 0: mean / maximum of 6 samples, one every "), "{text}");
    assert!(text.contains("55.0 / 100  training_step\n"), "{text}");
    assert!(text.contains("-  short\n"), "{text}");

    let json = report.to_json().expect("JSON");
    assert_eq!(Report::from_json(&json).expect("it was just written"), report);
    // A report from a version without counters must still be readable.
    let mut value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    value.as_object_mut().expect("an object").remove("device_counters");
    let Report::Tensor(old) = Report::from_json(&value.to_string()).expect("a report") else {
        panic!("{value}")
    };
    assert!(old.device_counters.is_empty());
}

#[test]
fn samples_without_room_are_counted() {
    let profiler = TensorProfiler::new().without_schedule().export_trace(false).max_events(3);
    profiler.setup(Stage::Fit, &RunContext::default());
    (0..5).for_each(|value| busy(&profiler, f64::from(value)));
    profiler.teardown(None);
    let Some(Report::Tensor(report)) = profiler.report() else { panic!("no report") };
    assert_eq!((report.device_counters[0].samples, report.dropped.device), (3, 2));
    let note = "Note: 2 kernels, copies and samples of devices' counters were dropped";
    assert!(profiler.summary().contains(note), "{}", profiler.summary());
}
