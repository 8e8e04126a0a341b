//! Tests of the memory timeline: categories, levels and the peak.

use mlprof_core::hook::{
    Direction, MemoryCategory, MemoryChange, MemoryDevice, MemoryLabel, OpStart,
};
use mlprof_core::report::tensor::memory_over_time::MOST_MOMENTS;
use mlprof_core::tensor::Schedule;
use mlprof_core::trace::memory::{DeviceTimeline, MOST_SAMPLES, MemoryTimeline};
use mlprof_core::{Action, Observation, Profiler, ProfilerExt, RunContext, Stage, TensorProfiler};
use proptest::prelude::*;

use crate::recorded::{action, op, read, run, spin};

/// Hook that keeps its own count.
struct Memory<'profiler> {
    profiler: &'profiler TensorProfiler,
    device: MemoryDevice,
    total: u64,
}

impl Memory<'_> {
    fn change(&mut self, address: u64, bytes: i64) {
        self.total = self.total.saturating_add_signed(bytes);
        let (total_allocated, device) = (self.total, self.device);
        let change = MemoryChange { address, bytes, total_allocated, total_reserved: 0, device };
        self.profiler.observe(&Observation::Memory(&change));
    }

    fn label(&self, address: u64, bytes: u64, category: MemoryCategory) {
        let device = self.device;
        self.profiler.observe(&Observation::MemoryLabel(&MemoryLabel {
            address,
            bytes,
            device,
            category,
        }));
    }
}

fn timeline(program: impl FnOnce(&mut Memory<'_>), total: u64) -> MemoryTimeline {
    let device = MemoryDevice::Accelerator(0);
    read(
        move |profiler| program(&mut Memory { profiler, device, total }),
        |cycle| cycle.memory_timeline(),
    )
}

/// Returns the maximum number of bytes of a category.
fn highest(device: &DeviceTimeline, category: MemoryCategory) -> u64 {
    let levels = device.levels.iter().find(|levels| levels.category == category);
    levels.and_then(|levels| levels.bytes.iter().max()).copied().unwrap_or(0)
}

/// Runs one step of a training loop, with memory of every category.
fn step(memory: &mut Memory<'_>) {
    let profiler = memory.profiler;
    action(profiler, "[_TrainingEpochLoop].train_dataloader_next", || memory.change(1, 10));
    action(profiler, "[Strategy]X.training_step", || {
        op(profiler, "aten::linear", || {
            op(profiler, "aten::addmm", || {
                memory.change(2, 200); // freed inside the outer op
                memory.change(3, 3000); // kept for backward
            });
            memory.change(2, -200);
        });
        op(profiler, "aten::relu", || memory.change(4, 40_000)); // gone before backward
        memory.change(4, -40_000);
    });
    action(profiler, "[Strategy]X.backward", || {
        let mut backward = OpStart::new(Action::op("AddmmBackward0"));
        backward.direction = Direction::Backward;
        run(profiler, &backward, || {
            memory.change(5, 500_000);
            memory.change(6, 6_000_000); // between two ops of backward
        });
        run(profiler, &backward, || memory.change(6, -6_000_000));
        memory.change(3, -3000);
    });
    action(profiler, "optimizer_step", || {
        memory.change(7, 70_000_000);
        memory.change(8, 8);
        memory.change(8, -8);
    });
    action(profiler, "optimizer_zero_grad", || memory.change(5, -500_000));
    memory.change(1, -10);
}

#[test]
fn categories_follow_from_phase_and_lifetime() {
    use MemoryCategory::{
        Activation, Gradient, Input, OptimizerState, Parameter, Temporary, Unknown,
    };
    let timeline = timeline(step, 1_000_000_000);
    let [device] = &timeline.devices[..] else { panic!("one device") };
    assert_eq!((device.before, device.allocations), (1_000_000_000, 8));
    assert_eq!(device.allocated_bytes, 76_543_218);
    let expected = [
        (Input, 10),
        (Temporary, 6_000_000),
        (Activation, 3000),
        (Gradient, 500_000),
        (OptimizerState, 70_000_000),
        (Unknown, 1_000_000_000),
        (Parameter, 0),
    ];
    for (category, bytes) in expected {
        assert_eq!(highest(device, category), bytes, "{category:?}");
    }
    let peak = &device.peak;
    // The peak is just after the optimizer has created its state.
    assert_eq!(peak.bytes, 1_000_000_000 + 70_000_000 + 500_000 + 8 + 10);
    let sum: u64 = peak.alive.iter().map(|row| row.bytes).sum();
    assert_eq!(sum, peak.bytes);
    let rows: Vec<_> = peak
        .alive
        .iter()
        .map(|row| (row.bytes, row.category, row.op.as_deref(), row.inside.as_deref()))
        .collect();
    let input = "[_TrainingEpochLoop].train_dataloader_next";
    let expected = [
        (1_000_000_000, Unknown, None, None),
        (70_000_000, OptimizerState, None, Some("optimizer_step")),
        (500_000, Gradient, Some("AddmmBackward0"), Some("[Strategy]X.backward")),
        (10, Input, None, Some(input)),
        (8, Temporary, None, Some("optimizer_step")),
    ];
    assert_eq!(rows, expected);
    assert!(peak.alive[0].is_from_before && !peak.alive[1].is_from_before);
}

#[test]
fn labels_are_believed_while_the_memory_lives() {
    use MemoryCategory::{Gradient, Parameter, Temporary, Unknown};
    let timeline = timeline(
        |memory| {
            // This memory was allocated before the recording and is freed during it.
            memory.label(100, 64, Parameter);
            memory.label(200, 1000, Parameter);
            memory.label(200, 1000, Parameter);
            // The address is used twice, and the label applies to the block that stays.
            let profiler = memory.profiler;
            op(profiler, "op", || {
                memory.change(300, 512);
                memory.change(300, -512);
            });
            memory.change(300, 512);
            spin(50);
            memory.label(300, 500, Gradient);
            memory.label(300, 500, Gradient);
            memory.change(200, -1000);
        },
        5000,
    );
    let [device] = &timeline.devices[..] else { panic!("one device") };
    assert_eq!(device.before, 5000);
    let level = |category, moment: usize| {
        let levels = device.levels.iter().find(|levels| levels.category == category);
        levels.map_or(0, |levels| levels.bytes[moment])
    };
    let last = device.times_us.len() - 1;
    assert_eq!([level(Parameter, 0), level(Parameter, last)], [1064, 64]);
    assert_eq!([level(Unknown, 0), level(Unknown, last)], [3936, 3936]);
    assert_eq!([level(Gradient, 0), level(Gradient, last)], [0, 512]);
    assert_eq!(highest(device, Temporary), 512);
}

#[test]
fn memory_without_addresses_or_totals_is_unknown() {
    let timeline = timeline(
        |memory| {
            for bytes in [100, 50, -30] {
                memory.change(0, bytes);
                memory.total = 0;
            }
        },
        0,
    );
    let [device] = &timeline.devices[..] else { panic!("one device") };
    assert_eq!(device.peak.bytes, 150);
    let levels = &device.levels[..];
    assert_eq!(levels.len(), 1);
    assert_eq!(levels[0].category, MemoryCategory::Unknown);
    assert_eq!(levels[0].bytes.last(), Some(&120));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Checks that levels add up to the hook's total for any allocations and frees.
    #[test]
    fn levels_add_up(changes in prop::collection::vec((1_u64..8, 1_i64..1000), 1..80)) {
        let before = 10_000;
        let mut totals = vec![before];
        let deeds: Vec<(u64, i64)> = {
            let mut alive: std::collections::HashMap<u64, i64> = Default::default();
            changes.iter().map(|(address, bytes)| match alive.remove(address) {
                Some(bytes) => (*address, -bytes),
                None => {
                    alive.insert(*address, *bytes);
                    (*address, *bytes)
                }
            }).collect()
        };
        for (_, bytes) in &deeds {
            let last: u64 = totals[totals.len() - 1];
            totals.push(last.saturating_add_signed(*bytes));
        }
        let timeline = timeline(move |memory| {
            for (address, bytes) in deeds {
                memory.change(address, bytes);
            }
        }, before);
        let device = &timeline.devices[0];
        let sum = |moment: usize| -> u64 { device.levels.iter().map(|levels| levels.bytes[moment]).sum() };
        let levels: Vec<u64> = (0..device.times_us.len()).map(sum).collect();
        prop_assert_eq!(&levels[..totals.len()], &totals[..]);
        prop_assert_eq!(Some(&device.peak.bytes), totals.iter().max());
        prop_assert!(device.times_us.is_sorted());
    }
}

#[test]
fn a_long_record_keeps_its_peak_and_stays_small() {
    let timeline = timeline(
        |memory| {
            for round in 0..20_000 {
                let bytes = if round == 12_345 { 1 << 30 } else { 1 << 10 };
                memory.change(9, bytes);
                memory.change(9, -bytes);
            }
        },
        0,
    );
    let [device] = &timeline.devices[..] else { panic!("one device") };
    assert!((MOST_SAMPLES / 20..=MOST_SAMPLES).contains(&device.times_us.len()));
    assert_eq!(device.peak.bytes, 1 << 30);
    let kept = device.levels.iter().flat_map(|levels| &levels.bytes).max();
    assert_eq!(kept, Some(&(1 << 30)));
}

#[test]
fn it_is_read_as_it_was_written_and_its_page_holds_every_name() {
    let name = "<script>alert(1)</script> & \u{1}";
    let (timeline, directory) = read(
        |profiler| {
            let device = MemoryDevice::Cpu;
            op(profiler, name, || Memory { profiler, device, total: 0 }.change(1, 1 << 20));
        },
        |cycle| {
            let directory = tempfile::tempdir().expect("a temporary directory");
            let timeline = cycle.memory_timeline();
            timeline.export_json(directory.path().join("a/memory.json")).expect("a file");
            timeline.export_html(directory.path().join("a/memory.html")).expect("a file");
            (timeline, directory)
        },
    );
    let text = |name: &str| std::fs::read_to_string(directory.path().join(name)).expect("a file");
    let back: MemoryTimeline = serde_json::from_str(&text("a/memory.json")).expect("JSON");
    assert_eq!(back, timeline);
    let page = text("a/memory.html");
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt; &amp;  "), "{page}");
    assert!(!page.contains("<script") && !page.contains("http://www.example"));
    assert!(page.contains("peak 1.0 MiB"));
}

/// Reads the snapshot in the same way as torch's viewer.
const SNAPSHOT: &str = r#"
import json, pickle, sys
snapshot = pickle.load(open(sys.argv[1], "rb"))
alive = [{} for _ in snapshot["device_traces"]]
for device, trace in enumerate(snapshot["device_traces"]):
    times = [event["time_us"] for event in trace]
    assert times == sorted(times), times
    for event in trace:
        assert set(event) >= {"action", "addr", "size", "stream", "frames"}, event
        if event["action"] == "alloc":
            assert event["addr"] not in alive[device], event
            alive[device][event["addr"]] = event["size"]
        elif event["action"] == "free_completed":
            alive[device].pop(event["addr"], None)
        elif event["action"] == "snapshot":
            # Of a viewer's categories one must be this, or it shows nothing.
            assert event is trace[-1] and event["category"] == "unknown", event
        else:
            assert event["action"] == "free_requested", event
    # In the viewer's history each allocation is in a segment, whenever it was freed.
    for event in trace[:-1]:
        assert any(segment["device"] == device
                   and segment["address"] <= event["addr"]
                   and event["addr"] + event["size"] <= segment["address"] + segment["total_size"]
                   for segment in snapshot["segments"]), event
for segment in snapshot["segments"]:
    blocks = segment["blocks"]
    assert sum(block["size"] for block in blocks) == segment["total_size"], segment
    active = [block for block in blocks if block["state"] == "active_allocated"]
    assert sum(block["size"] for block in active) == segment["allocated_size"], segment
    address = segment["address"]
    for block in blocks:
        assert block["address"] == address, block
        address += block["size"]
    for block in active:
        alive[segment["device"]].pop(block["address"], None)
assert not any(alive), alive
brief = lambda event: [event["action"], event["addr"], event["size"], event["category"],
                       [frame["name"] for frame in event["frames"]]]
print(json.dumps({
    "traces": [[brief(event) for event in trace] for trace in snapshot["device_traces"]],
    "segments": [[segment["device"], segment["address"], [block["size"] for block in segment["blocks"]]]
                 for segment in snapshot["segments"]],
}))
"#;

#[test]
fn a_snapshot_is_one_of_torchs_allocator() {
    // The address does not fit into 32 or 63 bits.
    const FAR: u64 = (1 << 63) + 5;
    let long = "an op of a very long name, ".repeat(20);
    let name = long.clone();
    let file = read(
        move |profiler| {
            let device = MemoryDevice::Accelerator(1);
            let mut memory = Memory { profiler, device, total: 0 };
            memory.label(4096, 100, MemoryCategory::Parameter);
            action(profiler, "training_step", || {
                op(profiler, &name, || memory.change(FAR, 70_000));
                op(profiler, "äöü", || memory.change(5000, 300));
            });
            memory.change(5000, -300);
            memory.change(5000, 200);
            memory.label(5000, 200, MemoryCategory::Gradient);
            // This memory is from before the recording, or has no known address.
            memory.change(77, -64);
            memory.change(0, 12);
            memory.device = MemoryDevice::Cpu;
            (1..=1500).for_each(|number| memory.change(number << 40, 16));
        },
        |cycle| {
            let file = tempfile::NamedTempFile::new().expect("a file");
            cycle.export_memory_snapshot(file.path()).expect("it is written");
            file
        },
    );
    let told = crate::python::run(SNAPSHOT, &[crate::python::path(&file)]);
    let told: serde_json::Value = serde_json::from_str(&told).expect("JSON");
    let traces = told["traces"].as_array().expect("devices");
    assert_eq!(traces.len(), 3, "two accelerators, and the host last");
    assert_eq!(traces[0], serde_json::json!([]));
    let around = serde_json::json!(["äöü", "training_step"]);
    let expected = serde_json::json!([
        ["alloc", FAR, 70_000, "unknown", [long, "training_step"]],
        ["alloc", 5000, 300, "unknown", around],
        ["free_requested", 5000, 300, "unknown", around],
        ["free_completed", 5000, 300, "unknown", around],
        ["alloc", 5000, 200, "gradient", []],
        ["free_requested", 77, 64, "unknown", []],
        ["free_completed", 77, 64, "unknown", []],
        ["snapshot", 0, 0, "unknown", []],
    ]);
    assert_eq!(traces[1], expected);
    assert_eq!(traces[2].as_array().map(Vec::len), Some(1501));
    let segments = told["segments"].as_array().expect("segments");
    assert_eq!(segments.len(), 1500 + 2);
    assert!(
        segments.contains(&serde_json::json!([1, 77, [4019, 100, 804, 200, 100]])),
        "{segments:?}"
    );
    assert!(segments.contains(&serde_json::json!([1, FAR, [70_000]])), "{segments:?}");
}

#[test]
fn a_cycle_without_memory_has_an_empty_timeline() {
    let timeline = read(|profiler| op(profiler, "one", || {}), |cycle| cycle.memory_timeline());
    assert!(timeline.devices.is_empty());
}

/// Checks the report of two cycles with 2,000 allocations by 40 ops each, of which the second has
/// more memory.
#[test]
fn a_report_has_the_memory_of_the_fullest_cycle_in_few_moments() {
    let schedule = Schedule::new().wait(0).warmup(0).active(1).repeat(0);
    let profiler = TensorProfiler::new().profile_memory(true).schedule(schedule);
    profiler.setup(Stage::Fit, &RunContext::default());
    let mut memory = Memory { profiler: &profiler, device: MemoryDevice::Cpu, total: 1000 };
    for cycle in 1..=3 {
        let size = [10, 30, 20][cycle - 1];
        action(&profiler, "[Strategy]X.training_step", || {
            for address in 1..=2_000 {
                op(&profiler, &format!("op {}", address % 40), || memory.change(address, size));
            }
        });
        for address in 1..=2_000 {
            memory.change(address, -size);
        }
        profiler.step();
    }
    profiler.teardown(None);
    let report = profiler.snapshot();
    let [memory] = &report.memory_over_time[..] else { panic!("one memory") };
    assert_eq!((memory.cycle, memory.allocations, memory.before_bytes), (1, 2_000, 1000));
    let moments = memory.times_seconds.len();
    assert!((MOST_MOMENTS / 10..=MOST_MOMENTS).contains(&moments), "{moments}");
    assert!(memory.categories.iter().all(|category| category.bytes.len() == moments));
    let peak = &memory.peak;
    assert_eq!((peak.bytes, peak.step), (61_000, Some(1)));
    let highest = (0..moments).map(|moment| memory.total_bytes(moment)).max();
    assert_eq!(highest, Some(61_000));
    let at_peak = memory.categories.iter().map(|category| category.at_peak_bytes).sum::<u64>();
    assert_eq!(at_peak, 61_000);
    let at_end: u64 = memory.categories.iter().map(|category| category.at_end_bytes).sum();
    assert_eq!(at_end, 1000);
    // There are 40 ops with 50 allocations each. Earlier memory is smaller and is among the others.
    assert_eq!(peak.rows.len(), 32);
    assert!(peak.rows.iter().all(|row| !row.is_from_before && row.allocations == 50));
    assert_eq!((peak.others_allocations, peak.others_bytes), (8 * 50, 8 * 50 * 30 + 1000));
    let rows: u64 = peak.rows.iter().map(|row| row.bytes).sum();
    assert_eq!(rows + peak.others_bytes, 61_000);
    assert_eq!(memory.steps.iter().map(|step| step.number).collect::<Vec<_>>(), [1]);
}
