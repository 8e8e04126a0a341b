//! Tests of folded stacks.

use std::collections::HashMap;
use std::time::Instant;

use mlprof_core::hook::{DeviceActivity, DeviceEvent, MemoryChange, MemoryDevice, OpStart};
use mlprof_core::tensor::Cycle;
use mlprof_core::trace::flame::{self, FlameGraph, FlameMetric};
use mlprof_core::{Action, ActionKind, Observation, Profiler};

use crate::recorded::{action, kernel, op, read, run, spin};

type Stacks = HashMap<String, u64>;

fn stacks(cycle: &Cycle, metric: FlameMetric) -> Stacks {
    let mut text = Vec::new();
    FlameGraph::of(cycle).write_stacks(metric, &mut text).expect("memory takes all");
    let text = String::from_utf8(text).expect("text");
    text.lines()
        .map(|line| {
            let (stack, value) = line.rsplit_once(' ').expect("a value");
            (stack.to_owned(), value.parse().expect("a whole number"))
        })
        .collect()
}

fn all(cycle: &Cycle) -> [Stacks; 4] {
    FlameMetric::ALL.map(|metric| stacks(cycle, metric))
}

fn allocate(profiler: &dyn Profiler, bytes: i64) {
    let device = MemoryDevice::Cpu;
    let (address, total_allocated, total_reserved) = (16, 0, 0);
    profiler.observe(&Observation::Memory(&MemoryChange {
        address,
        bytes,
        total_allocated,
        total_reserved,
        device,
    }));
}

#[test]
fn every_stack_has_what_is_its_own() {
    let program = |profiler: &mlprof_core::TensorProfiler| {
        for _ in 0..3 {
            action(profiler, "step; one\n", || {
                spin(2000);
                op(profiler, "mm", || {
                    allocate(profiler, 100);
                    allocate(profiler, -100);
                    spin(4000);
                });
                allocate(profiler, 7);
            });
        }
        allocate(profiler, 1);
        op(profiler, "mm", || spin(1000));
    };
    let ([cpu, device, bytes, calls], wall) =
        read(program, |cycle| (all(cycle), cycle.wall_nanoseconds() / 1000));
    assert!(device.is_empty());
    let expected = |values: &[(&str, u64)]| -> Stacks {
        values.iter().map(|(stack, value)| ((*stack).to_owned(), *value)).collect()
    };
    assert_eq!(calls, expected(&[("step, one", 3), ("step, one;mm", 3), ("mm", 1)]));
    assert_eq!(bytes, expected(&[("step, one", 21), ("step, one;mm", 300), ("[memory]", 1)]));
    assert!(cpu["step, one"] >= 6000 && cpu["step, one;mm"] >= 12_000 && cpu["mm"] >= 1000);
    // The sum is at most the elapsed time, so each interval counts only once.
    let sum: u64 = cpu.values().sum();
    assert!((19_000..=wall + 2).contains(&sum), "{sum} of {wall}");
}

#[test]
fn kernels_stand_below_the_op_that_launched_them() {
    let calls_and_time = read(
        |profiler| {
            op(profiler, "mm", || {
                let launch = Action::of_kind(ActionKind::Launch, "launch", None);
                run(profiler, &OpStart::launch(launch, 3), || {});
            });
            let now = Instant::now();
            let event = |name: &str, correlation| kernel(name, correlation, now, 0, 5_000);
            profiler.observe(&Observation::DeviceEvent(&event("gemm", 3)));
            profiler.observe(&Observation::DeviceEvent(&event("orphan", 0)));
            let tuning = DeviceEvent { activity: DeviceActivity::Tuning, ..event("tuning", 0) };
            profiler.observe(&Observation::DeviceEvent(&tuning));
        },
        |cycle| stacks(cycle, FlameMetric::SelfDeviceTime),
    );
    let mut names: Vec<_> = calls_and_time.keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["mm;launch;gemm", "orphan"]);
    assert!(calls_and_time.values().all(|time| (4900..=5100).contains(time)), "{calls_and_time:?}");
}

#[test]
fn overlapping_slices_have_calls_but_no_time() {
    let [cpu, _, _, calls] = read(
        |profiler| {
            let (outer, leaked) = (Action::new("outer"), Action::new("leaked"));
            profiler.start(outer);
            profiler.start(leaked);
            spin(1000);
            profiler.stop(outer).expect("it was started");
            spin(1000);
            profiler.stop(leaked).expect("it was started");
        },
        all,
    );
    assert_eq!(calls.len(), 2, "{calls:?}");
    assert!(cpu.keys().all(|stack| stack == "outer"), "{cpu:?}");
}

#[test]
fn deep_recursion_is_one_long_stack() {
    let depth = 3000;
    let calls = read(
        move |profiler| {
            let action = Action::new("again");
            (0..depth).for_each(|_| profiler.start(action));
            (0..depth).for_each(|_| profiler.stop(action).expect("it was started"));
        },
        |cycle| stacks(cycle, FlameMetric::Calls),
    );
    assert_eq!(calls.len(), depth);
    assert!(calls.values().all(|calls| *calls == 1));
}

/// Checks that very deep stacks are cut, with a note, and that all time still counts. The size of
/// the text grows with the square of the depth.
#[test]
fn the_deepest_recursion_is_cut_and_all_of_it_counted() {
    let depth = 10_000;
    let recurse = move |profiler: &dyn Profiler| {
        let action = Action::new("recursion_into_the_deep");
        (0..depth).for_each(|_| profiler.start(action));
        (0..depth).for_each(|_| profiler.stop(action).expect("it was started"));
    };
    let (calls, bytes, cut) = read(
        move |profiler| recurse(profiler),
        |cycle| {
            let (graph, mut text) = (FlameGraph::of(cycle), Vec::new());
            graph.write_stacks(FlameMetric::Calls, &mut text).expect("memory takes all");
            (stacks(cycle, FlameMetric::Calls), text.len() as u64, graph.cut())
        },
    );
    assert!(bytes <= flame::MOST_BYTES + (1 << 20), "{bytes}");
    assert_eq!(calls.values().sum::<u64>(), depth, "every call is in it");
    let is_cut = |stack: &&String| stack.ends_with(flame::CUT);
    let at_the_cut: Vec<_> = calls.keys().filter(is_cut).map(|stack| calls[stack]).collect();
    assert_eq!(at_the_cut, [cut], "and those without a stack of their own in one");
    assert!((1..depth).contains(&cut));

    let directory = tempfile::tempdir().expect("a temporary directory");
    let profiler = mlprof_core::TensorProfiler::new()
        .without_schedule()
        .flame(true)
        .dirpath(directory.path())
        .filename("run");
    recurse(&profiler);
    profiler.teardown(None);
    let report = profiler.summary();
    assert!(report.contains("calls are nested deeper than flame graphs"), "{report}");
}

#[cfg(feature = "flame")]
#[test]
fn the_picture_is_xml_whatever_the_names() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("graph.svg");
    let has_nothing = read(
        |profiler| {
            for name in ["<a & \"b\">\u{1}\u{ffff}", "", " ", "\n", "x;y 7"] {
                op(profiler, name, || spin(100));
            }
        },
        {
            let path = path.clone();
            move |cycle| {
                let graph = FlameGraph::of(cycle);
                graph.export_svg(&path, FlameMetric::Calls).expect("a file");
                graph.export_svg(&path, FlameMetric::AllocatedBytes).map_err(|error| error.kind())
            }
        },
    );
    assert_eq!(has_nothing, Err(std::io::ErrorKind::InvalidInput));
    let script = "import sys, xml.dom.minidom
page = xml.dom.minidom.parse(sys.argv[1])
print(len(page.getElementsByTagName('rect')), page.documentElement.tagName)";
    let printed = crate::python::run(script, &[path.to_str().expect("text")]);
    let (frames, tag) = printed.trim().split_once(' ').expect("two words");
    assert_eq!(tag, "svg");
    assert!(frames.parse::<u32>().expect("a number") >= 5, "{frames}");
}
