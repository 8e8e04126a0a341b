//! Compares recordings with those of torch's own profiler for the same steps.

mod models;
mod recorded;

use std::collections::BTreeMap;
use std::sync::PoisonError;

use mlprof_core::hook::TensorShape;
use mlprof_core::tensor::TensorProfiler;
use mlprof_core::{Profiler, activate};
use mlprof_tch::floor::Floor;
use mlprof_tch::kineto::{Kineto, KinetoEvent};
use models::{Training, digits_cnn, transformer};
use recorded::{Op, Recorded, collecting, record, turn};
use tch::nn::VarStore;
use tch::{CModule, Device, Tensor, TrainableCModule, kind::FLOAT_CPU};

const STEPS: usize = 5;

/// Runs the same steps under both profilers, with ours inside.
fn under_both(kineto: Kineto, mut step: impl FnMut()) -> (Recorded, Vec<KinetoEvent>) {
    let running = kineto.start().expect("Kineto starts");
    let profiler = TensorProfiler::new().record_shapes(kineto.shapes);
    let ours = record(profiler, || {
        for _ in 0..STEPS {
            step();
        }
    });
    let theirs = running.stop().expect("Kineto stops").events();
    (ours, theirs)
}

/// The engine's scope around each node. Kineto assigns the node's numbers to it afterwards.
const ENGINE: &str = "autograd::engine::evaluate_function";

/// Fields of an op that must be equal in both recordings.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ComparedOp {
    name: String,
    sequence: i64,
    /// For a node the thread id of the forward op, otherwise its own thread id.
    forward_thread: u64,
    shapes: Vec<Vec<i64>>,
}

fn our_op(op: &Op) -> ComparedOp {
    let shape = |input: &TensorShape| match input {
        TensorShape::Tensor(_, shape) => shape.clone(),
        _ => Vec::new(),
    };
    let is_engine = op.name.starts_with(ENGINE);
    assert!(!is_engine || (op.sequence, op.forward_thread) == (0, 0), "torch does not say");
    ComparedOp {
        name: op.name.to_owned(),
        sequence: op.sequence.into(),
        forward_thread: op.forward_thread.into(),
        shapes: op.inputs.iter().flatten().map(shape).collect(),
    }
}

fn kineto_op(event: &KinetoEvent) -> ComparedOp {
    let is_engine = event.name.starts_with(ENGINE);
    let is_tied = event.sequence >= 0 && !is_engine;
    let thread = if event.scope == 1 { event.forward_thread } else { event.thread };
    ComparedOp {
        name: event.name.clone(),
        // 0 means no sequence number here, and the greatest number stands for Kineto's 0.
        sequence: match event.sequence {
            0 if is_tied => u32::MAX.into(),
            sequence if is_tied => sequence,
            _ => 0,
        },
        forward_thread: if is_tied { thread } else { 0 },
        shapes: event.shapes.clone(),
    }
}

fn counts<T: Ord>(names: impl Iterator<Item = T>) -> BTreeMap<T, usize> {
    let mut counts = BTreeMap::new();
    for name in names {
        *counts.entry(name).or_default() += 1;
    }
    counts
}

fn compare(mut training: Training) {
    for _ in 0..3 {
        training.step();
    }
    let kineto = Kineto { shapes: true, ..Kineto::default() };
    let (ours, theirs) = under_both(kineto, || {
        training.step();
    });
    assert_eq!(ours.dropped, 0);
    let our_counts = counts(ours.only_ops().map(|op| op.name.to_owned()));
    assert_eq!(our_counts, counts(theirs.iter().map(|event| event.name.clone())));
    assert!(our_counts.len() > 30, "{}", our_counts.len());
    assert!(our_counts.values().sum::<usize>() > 100 * STEPS);
    let mut our_words: Vec<_> = ours.only_ops().map(our_op).collect();
    let mut their_words: Vec<_> = theirs.iter().map(kineto_op).collect();
    our_words.sort();
    their_words.sort();
    for (ours, theirs) in our_words.iter().zip(&their_words) {
        assert_eq!(ours, theirs);
    }
    assert!(our_words.iter().filter(|told| told.sequence > 0).count() > 20 * STEPS);
    assert!(our_words.iter().filter(|told| told.shapes.iter().any(|it| it.len() > 1)).count() > 99);
}

#[test]
fn every_op_of_the_digits_network_is_seen_as_kineto_sees_it() {
    let _turn = turn();
    compare(digits_cnn(16));
}

#[test]
fn every_op_of_a_transformer_is_seen_as_kineto_sees_it() {
    let _turn = turn();
    compare(transformer(4, 12));
}

#[test]
fn without_shapes_the_same_ops_are_seen() {
    let _turn = turn();
    let mut training = transformer(2, 4);
    training.step();
    let (ours, theirs) = under_both(Kineto::default(), || {
        training.step();
    });
    let our_counts = counts(ours.only_ops().map(|op| op.name.to_owned()));
    assert_eq!(our_counts, counts(theirs.iter().map(|event| event.name.clone())));
    assert!(ours.only_ops().all(|op| op.inputs.is_none()));
}

#[test]
fn functions_of_torch_script_are_seen_as_kineto_sees_them() {
    let _turn = turn();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("traced.pt");
    let input = Tensor::ones([4, 4], FLOAT_CPU);
    let mut doubled = |inputs: &[Tensor]| vec![(&inputs[0] + &inputs[0]).relu()];
    let traced = CModule::create_by_tracing("Doubled", "forward", &[input.copy()], &mut doubled);
    let traced = traced.expect("it can be traced");
    traced.save(&path).expect("it can be saved");
    let store = VarStore::new(Device::Cpu);
    let loaded = TrainableCModule::load(&path, store.root()).expect("it can be loaded");
    let kineto = Kineto { shapes: true, ..Kineto::default() };
    let (ours, theirs) = under_both(kineto, || {
        drop(traced.forward_ts(&[&input]).expect("it runs"));
        drop(loaded.forward_ts(&[&input]).expect("it runs"));
    });
    let mut our_words: Vec<_> = ours.only_ops().map(our_op).collect();
    let mut their_words: Vec<_> = theirs.iter().map(kineto_op).collect();
    our_words.sort();
    their_words.sort();
    assert_eq!(our_words, their_words);
    // The method call and the execution of its graph are both scopes with this name.
    assert_eq!(ours.of_name("forward").count(), 4 * STEPS, "{our_words:#?}");
    let inside = |op: &&Op| op.name == "aten::relu" && op.depth > 0;
    assert_eq!(ours.only_ops().filter(inside).count(), 2 * STEPS, "{our_words:#?}");
}

#[test]
fn ops_of_other_threads_are_seen_as_kineto_sees_them() {
    let _turn = turn();
    let kineto = Kineto { shapes: true, all_threads: true, ..Kineto::default() };
    let running = kineto.start().expect("Kineto starts");
    let ours = record(TensorProfiler::new(), || {
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    let mut training = digits_cnn(2);
                    training.step();
                });
            }
        });
    });
    let theirs = running.stop().expect("Kineto stops").events();
    let mut our_words: Vec<_> = ours.only_ops().map(our_op).collect();
    let mut their_words: Vec<_> = theirs.iter().map(kineto_op).collect();
    our_words.sort();
    their_words.sort();
    assert!(our_words.len() > 800, "{}", our_words.len());
    for (ours, theirs) in our_words.iter().zip(&their_words) {
        assert_eq!(ours, theirs);
    }
    assert_eq!(our_words.len(), their_words.len());
    let threads = counts(ours.only_ops().map(|op| op.thread));
    assert_eq!(threads.len(), 4);
}

/// Returns the net bytes allocated in each op: by the op itself, and including the ops inside.
fn bytes_by_op(
    ops: &[(u64, i64, i64, &str)],
    memory: &[(u64, i64, i64)],
) -> BTreeMap<String, [i64; 2]> {
    let mut bytes = BTreeMap::<String, [i64; 2]>::new();
    for (thread, time, change) in memory {
        let around =
            ops.iter().filter(|(on, start, end, _)| on == thread && start <= time && time <= end);
        let mut around: Vec<_> = around.collect();
        around.sort_by_key(|(_, start, end, _)| (*start, -*end));
        if let Some((_, _, _, name)) = around.last() {
            bytes.entry((*name).to_owned()).or_default()[0] += change;
        }
        for (_, _, _, name) in around {
            bytes.entry((*name).to_owned()).or_default()[1] += change;
        }
    }
    bytes
}

#[test]
fn every_op_takes_as_many_bytes_as_kineto_says() {
    let _turn = turn();
    for make in [|| digits_cnn(8), || transformer(2, 8)] {
        let mut training = make();
        training.step();
        // torch reports a free only if it also reported the allocation. This step therefore records
        // the allocations that the next step frees.
        record(TensorProfiler::new().profile_memory(true), || {
            training.step();
        });
        let kineto = Kineto { memory: true, ..Kineto::default() };
        let running = kineto.start().expect("Kineto starts");
        training.step();
        let theirs = running.stop().expect("Kineto stops").events();
        let profiler = TensorProfiler::new().profile_memory(true);
        let ours = record(profiler, || {
            training.step();
        });

        let our_ops: Vec<_> =
            ours.only_ops().map(|op| (op.thread, op.start, op.end(), op.name)).collect();
        let our_memory: Vec<_> =
            ours.memory.iter().map(|change| (change.thread, change.time, change.bytes)).collect();
        let (changes, events): (Vec<_>, Vec<_>) =
            theirs.iter().partition(|event| event.name == "[memory]");
        let their_ops: Vec<_> = events
            .iter()
            .map(|op| {
                let start = op.start.cast_signed();
                (op.thread, start, start + op.nanoseconds.cast_signed(), op.name.as_str())
            })
            .collect();
        let their_memory: Vec<_> = changes
            .iter()
            .map(|change| (change.thread, change.start.cast_signed(), change.bytes))
            .collect();
        assert!(our_memory.len() > 50, "{}", our_memory.len());
        let sizes =
            |memory: &[(u64, i64, i64)]| memory.iter().map(|change| change.2).collect::<Vec<_>>();
        assert_eq!(sizes(&our_memory), sizes(&their_memory));
        let ours = bytes_by_op(&our_ops, &our_memory);
        let theirs = bytes_by_op(&their_ops, &their_memory);
        assert_eq!(ours, theirs);
        assert!(ours.values().any(|[_, total]| *total > 1000), "{ours:?}");
    }
}

#[test]
fn kineto_keeps_its_place_and_ops_go_on() {
    let _turn = turn();
    let mut training = digits_cnn(2);
    training.step();
    // Kineto starts first. Its memory recording is correct, and our report notes that memory is
    // missing.
    let running = Kineto { memory: true, ..Kineto::default() }.start().expect("Kineto starts");
    let (profiler, cycles) =
        collecting(TensorProfiler::new().profile_memory(true).without_schedule());
    let active = activate(profiler.clone());
    training.step();
    profiler.teardown(None);
    drop(active);
    let theirs = running.stop().expect("Kineto stops").events();
    let ours = cycles.lock().unwrap_or_else(PoisonError::into_inner).remove(0);
    let report = profiler.summary();
    assert!(report.contains("torch's own profiler was active on them"), "{report}");
    assert_eq!(ours.memory, []);
    assert!(ours.only_ops().count() > 100);
    assert!(theirs.iter().filter(|event| event.name == "[memory]").count() > 50);
    // Our recording starts first. Kineto then refuses to start instead of using our thread state,
    // and it may start afterwards.
    let ours = record(TensorProfiler::new().profile_memory(true), || {
        training.step();
        assert!(Kineto::is_refused());
        training.step();
    });
    assert!(ours.memory.len() > 100);
    let running = Kineto::default().start().expect("the place is free again");
    training.step();
    assert!(running.stop().expect("Kineto stops").events().len() > 100);
}

#[test]
fn callbacks_that_do_nothing_leave_nothing_behind() {
    let _turn = turn();
    for (shapes, memory) in [(false, false), (true, false), (true, true)] {
        let called = Floor { shapes, memory }.start().expect("libtorch takes callbacks");
        assert!(!memory || Kineto::is_refused(), "the place is taken while memory is told");
        drop(called);
        let running = Kineto { shapes, memory, all_threads: false }.start().expect("it is free");
        let _ = Tensor::ones([2, 2], FLOAT_CPU);
        let events = running.stop().expect("Kineto stops").events();
        assert!(events.iter().any(|event| event.name == "aten::ones"), "{events:?}");
    }
}
