//! Tests of the entry points for instrumented code. They are called in the same way, through C
//! functions and with sites unknown to this crate. There is only one test, because the active
//! profiler belongs to the whole process.
#![cfg(not(loom))]

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use mlprof_core::allocation::AllocationProfiler;
use mlprof_core::hook::{DType, InputsBuilder};
use mlprof_core::report::tensor::KeyAverage;
use mlprof_core::spliced::wanted::OUTPUTS;
use mlprof_core::spliced::{SINK_VERSION, Sink, sink};
use mlprof_core::tensor::Phase;
use mlprof_core::{
    AdvancedProfiler, Interest, NumericsProfiler, Profiler, ProfilerExt, Report, RunContext,
    Session, SimpleProfiler, Stage, TensorProfiler, activate, bound, profile,
};

/// Definition as in instrumented crates.
#[repr(C)]
struct Site {
    action: AtomicU32,
    kind: u32,
    line: u32,
    name: *const u8,
    name_length: usize,
    file: *const u8,
    file_length: usize,
}

// SAFETY: the pointers refer to static text, which is never written.
unsafe impl Sync for Site {}

fn site(kind: u32, name: &'static str) -> &'static Site {
    let file = "src/net.rs";
    Box::leak(Box::new(Site {
        action: AtomicU32::new(0),
        kind,
        line: 7,
        name: name.as_ptr(),
        name_length: name.len(),
        file: file.as_ptr(),
        file_length: file.len(),
    }))
}

/// Runs `inside` within an instrumented function. Returns `true` if an action was opened.
fn call(site: &'static Site, words: Option<&[i64]>, inside: impl FnOnce()) -> bool {
    let Sink { open, close, .. } = sink();
    let site = std::ptr::from_ref(site).cast();
    let count = words.map_or(0, <[i64]>::len);
    let words = words.map_or(std::ptr::null(), <[i64]>::as_ptr);
    // SAFETY: the site lives forever, and the words are valid during the call.
    let opened = unsafe { open(site, words, count) };
    inside();
    if opened != 0 {
        // SAFETY: the site lives forever, and `opened` comes from the matching `open`.
        unsafe { close(site, opened) };
    }
    opened != 0
}

/// Definition as in instrumented crates.
#[repr(C)]
struct Numbers {
    storage: *const u8,
    address: *const u8,
    dtype: i64,
    sizes: *const i64,
    strides: *const i64,
    dimensions: usize,
}

type Take = unsafe extern "C-unwind" fn(*mut u8, *const Numbers);

#[repr(C)]
struct TensorReader {
    object: *const u8,
    read: unsafe extern "C-unwind" fn(*const u8, Take, *mut u8),
}

/// Numbers of a vector, and the index at which the tensor begins.
type Part = (Vec<f32>, usize);

unsafe extern "C-unwind" fn read(object: *const u8, take: Take, data: *mut u8) {
    // SAFETY: `returned` passes a `Part` that lives during the call.
    let (all, start) = unsafe { &*object.cast::<Part>() };
    let (size, stride) = ((all.len() - start) as i64, 1);
    let numbers = Numbers {
        storage: all.as_ptr().cast(),
        address: all[*start..].as_ptr().cast(),
        dtype: DType::Float32 as i64,
        sizes: &raw const size,
        strides: &raw const stride,
        dimensions: 1,
    };
    // SAFETY: `take` and `data` come from the caller and belong together, and `numbers` is valid
    // during the call.
    unsafe { take(data, &raw const numbers) }
}

/// Passes the returned tensors and the inputs of an open op.
fn returned(site: &'static Site, outputs: &[&Part], inputs: &[&Part]) {
    let told = |parts: &[&Part]| -> Vec<TensorReader> {
        let object = |part: &&Part| std::ptr::from_ref(*part).cast();
        parts.iter().map(|part| TensorReader { object: object(part), read }).collect()
    };
    let (outputs, inputs) = (told(outputs), told(inputs));
    let site = std::ptr::from_ref(site).cast();
    let (output_count, input_count) = (outputs.len(), inputs.len());
    // SAFETY: the site lives forever, and all tensors live during the call.
    unsafe {
        let (outputs, inputs) = (outputs.as_ptr().cast(), inputs.as_ptr().cast());
        (sink().returned)(site, outputs, output_count, inputs, input_count);
    }
}

fn outputs_of_ops_are_observed(wanted: &dyn Fn() -> u32) {
    const OP: u32 = 1;
    const BACKWARD: u32 = 2;
    let (op, backward) = (site(OP, "test::log"), site(BACKWARD, "test::backward"));
    let numerics = Arc::new(NumericsProfiler::new().every(1).ops(true));
    let active = activate(numerics.clone());
    assert_eq!(wanted() & OUTPUTS, OUTPUTS);
    let (given, log) = ((vec![0.0, 1.0], 0), (vec![f32::NEG_INFINITY, 0.0], 0));
    call(op, None, || returned(op, &[&log], &[&given]));
    call(backward, None, || {
        call(op, None, || returned(op, &[&given], &[&log]));
    });
    // These are a view of an input, and an output without any input tensor.
    let whole = (vec![f32::NAN; 3], 0);
    call(op, None, || returned(op, &[&whole], &[&whole]));
    call(op, None, || returned(op, &[&whole], &[]));
    numerics.step();
    drop(active);
    let report = numerics.snapshot();
    let first = report.first_not_finite.as_ref().expect("a logarithm of 0");
    assert_eq!((first.role.name(), &*first.name), ("op_output", "test::log"));
    assert_eq!((first.statistics.infinities, report.not_finite), (1, 1));
    assert_eq!(first.input.expect("is known").minimum, Some(0.0));
    let rows: Vec<_> = report.tensors.iter().map(|row| (row.role.name(), row.tensors)).collect();
    assert_eq!(rows, [("op_output", 1), ("backward_op_output", 1)]);
}

/// Combines `.profile_optimizer()` with an optimizer that has an instrumented `step`.
fn an_action_that_the_program_has_open_is_not_opened_again() {
    const STEP: u32 = 4;
    let step = site(STEP, "optimizer_step");
    let tensor = TensorProfiler::new().without_schedule();
    let profilers: [Arc<dyn Profiler>; 4] = [
        Arc::new(SimpleProfiler::new()),
        Arc::new(AdvancedProfiler::new()),
        Arc::new(AllocationProfiler::new()),
        Arc::new(tensor),
    ];
    for profiler in profilers {
        let active = activate(profiler.clone());
        for _ in 0..8 {
            let _own = profile!("optimizer_step");
            assert!(call(step, None, || ()), "its end is the end of a step");
        }
        // Without an action of the program, the hook opens its own.
        call(step, None, || ());
        drop(active);
        Profiler::teardown(&*profiler, None);
        let is_step = |name: &str| name == "optimizer_step";
        let calls: u64 = match profiler.report().expect("a report") {
            Report::Simple(report) => {
                let steps = report.actions.iter().filter(|row| is_step(&row.action));
                steps.map(|row| row.calls).sum()
            }
            Report::Advanced(report) => {
                let steps = report.actions.iter().filter(|row| is_step(&row.action));
                steps.map(|row| row.calls).sum()
            }
            Report::Memory(report) => {
                let steps = report.actions.iter().filter(|row| is_step(&row.action));
                steps.map(|row| row.calls).sum()
            }
            Report::Tensor(report) => {
                let rows = &report.key_averages.rows;
                let steps = rows.iter().filter(|row| is_step(&row.name));
                steps.map(|row| row.calls).sum()
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(calls, 9, "{}", profiler.summary());
    }
}

fn polls_of_one_call_are_no_calls() {
    const RESUMPTION: u32 = 5;
    let (first, later) = (site(0, "net::fetch"), site(RESUMPTION, "net::fetch"));
    let (advanced, memory) =
        (Arc::new(AdvancedProfiler::new()), Arc::new(AllocationProfiler::new()));
    for profiler in [advanced.clone() as Arc<dyn Profiler>, memory.clone()] {
        let active = activate(profiler);
        for _ in 0..15 {
            call(first, None, || ());
            // The resumption continues inside a call of the first function, so it is recursive.
            call(later, None, || {
                call(first, None, || ());
            });
        }
        drop(active);
    }
    let report = advanced.snapshot();
    let [function] = &report.actions[0].functions[..] else { panic!("{report:#?}") };
    let calls = function.calls;
    assert_eq!((calls.total_calls, calls.primitive_calls, calls.polls), (30, 15, 45), "{calls:?}");
    assert!(calls.cumulative_seconds <= report.actions[0].total_seconds * 1.000_001);
    let [root] = &report.threads[0].roots[..] else { panic!("{report:#?}") };
    assert_eq!((root.calls.total_calls, root.calls.polls), (30, 45));
    assert!(
        advanced.summary().contains("(net::fetch) (polled 45 times)"),
        "{}",
        advanced.summary()
    );
    let json = Report::Advanced(report.clone()).to_json().expect("JSON");
    assert!(json.contains("\"polls\": 45"), "{json}");
    assert_eq!(Report::from_json(&json).expect("read back"), Report::Advanced(report));
    let row = memory.snapshot().actions.into_iter().find(|row| row.action == "net::fetch");
    assert_eq!(row.map(|row| row.calls), Some(30));
}

/// Checks the table of ops, in which functions appear next to ops, and flame graphs.
fn polls_of_one_call_are_no_calls_of_the_op_table() {
    let fetch = (site(0, "net::fetch"), site(5, "net::fetch"));
    let read = (site(1, "test::read"), site(7, "test::read"));
    let backward = (site(2, "test::backward_later"), site(8, "test::backward_later"));
    let inner = site(1, "test::inner");
    let folder = tempfile::tempdir().expect("a folder");
    let tensor = TensorProfiler::new()
        .without_schedule()
        .group_by_stack_n(2)
        .group_by_phase(true)
        .flame(true)
        .dirpath(folder.path())
        .filename("polls");
    let tensor = Arc::new(tensor);
    let active = activate(tensor.clone());
    for _ in 0..15 {
        for (first, later) in [fetch, read, backward] {
            call(first, None, || ());
            call(later, None, || ());
            // Calls made by the resumption appear below the same path.
            call(later, None, || {
                call(inner, None, || ());
            });
        }
    }
    drop(active);
    Profiler::teardown(&*tensor, None);
    let averages = tensor.snapshot().key_averages;
    let rows =
        |name: &str| -> Vec<_> { averages.rows.iter().filter(|row| row.name == name).collect() };
    for name in ["net::fetch", "test::read", "test::backward_later"] {
        let [row] = rows(name)[..] else { panic!("{averages:#?}") };
        assert_eq!((row.calls, row.polls), (15, 45), "{row:#?}");
        assert!(row.rest.is_some_and(|rest| rest.max_seconds <= row.cpu_seconds), "{row:#?}");
        let label = format!("{name} (polled 45 times)");
        assert!(tensor.summary().contains(&label), "{}", tensor.summary());
    }
    // The inner op appears below the function, the op, and the op that computes gradients.
    let mut inners: Vec<_> = rows("test::inner")
        .into_iter()
        .map(|row| (row.stack.join(";"), row.phase, row.calls, row.polls))
        .collect();
    inners.sort_by(|one, other| one.0.cmp(&other.0).reverse());
    let fetched = "src/net.rs(7): net::fetch".to_owned();
    assert_eq!(inners.len(), 3, "{inners:?}");
    assert_eq!((&inners[0].0, inners[0].2, inners[0].3), (&fetched, 15, 0));
    let of_backward = inners.iter().filter(|row| row.1 == Some(Phase::Backward));
    assert_eq!(of_backward.map(|row| row.2).sum::<u64>(), 15, "{inners:?}");
    let calls = std::fs::read_dir(folder.path()).expect("files").find_map(|file| {
        let path = file.expect("a file").path();
        // With the feature `flame` there is also a picture.
        let is_picture = path.extension().is_some_and(|extension| extension == "svg");
        let is_of_calls = path.to_string_lossy().contains("calls") && !is_picture;
        is_of_calls.then(|| std::fs::read_to_string(path).expect("text"))
    });
    let calls = calls.expect("stacks by calls");
    let fetched = calls.lines().filter(|line| line.contains("net::fetch")).collect::<Vec<_>>();
    assert_eq!(fetched, ["net::fetch 15", "net::fetch;test::inner 15"], "{calls}");
}

/// Checks that one of mlprof's training loops suppresses only the actions of its own thread, not
/// those of another thread's loop.
fn actions_of_a_loop_beside_a_trainer_are_opened() {
    const ACTION: u32 = 3;
    let step = site(ACTION, "scheduler_step");
    let calls = |profiler: &SimpleProfiler| {
        let rows = profiler.snapshot().actions;
        let rows = rows.iter().filter(|row| row.action == "scheduler_step");
        rows.map(|row| row.calls).sum::<u64>()
    };
    let run = RunContext::default();
    let (trained, looped) = (Arc::new(SimpleProfiler::new()), Arc::new(SimpleProfiler::new()));
    let session = Session::begin(trained.clone(), Stage::Predict, &run).expect("a profiler");
    assert!(!call(step, None, || ()), "the trainer's own thread");
    let of_trainer = bound(move || call(step, None, || ()));
    assert!(!std::thread::spawn(of_trainer).join().expect("it ends"), "a thread of the trainer's");
    // Only the trainer's profiler is active, so an unbound thread reports to it.
    assert!(std::thread::spawn(move || call(step, None, || ())).join().expect("it ends"));
    assert_eq!(calls(&trained), 1);
    let own = looped.clone();
    let looping = move || {
        let _active = activate(own);
        call(step, None, || ())
    };
    let other = std::thread::spawn(looping.clone());
    assert!(other.join().expect("it ends"), "a loop of its own");
    let other = std::thread::spawn(bound(looping));
    assert!(other.join().expect("it ends"), "with a profiler of its own on a bound thread");
    assert_eq!((calls(&trained), calls(&looped)), (1, 2));
    drop(session);
    let active = activate(trained);
    assert!(call(step, None, || ()), "the session is over");
    drop(active);
}

#[test]
fn functions_and_ops_reach_the_profiler_that_wants_them() {
    const FUNCTION: u32 = 0;
    const OP: u32 = 1;
    const BACKWARD: u32 = 2;
    const ACTION: u32 = 3;
    assert_eq!(sink().version, SINK_VERSION);
    static WANTED: AtomicU32 = AtomicU32::new(u32::MAX);
    (sink().begin)(&WANTED);
    let wanted = || WANTED.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!(wanted(), 0, "nobody is active, and no run was asked for");
    let (function, op) = (site(FUNCTION, "net::Net::forward"), site(OP, "test::matmul"));
    let (backward, action) = (site(BACKWARD, "test::backward"), site(ACTION, "optimizer_step"));
    assert!(!call(function, None, || ()));
    an_action_that_the_program_has_open_is_not_opened_again();
    polls_of_one_call_are_no_calls();
    polls_of_one_call_are_no_calls_of_the_op_table();
    actions_of_a_loop_beside_a_trainer_are_opened();

    let advanced = Arc::new(AdvancedProfiler::new());
    let active = activate(advanced.clone());
    // The bits of `Interest` are those that instrumented code checks.
    assert_eq!(wanted(), 0b11, "{:?}", Interest::ACTIONS | Interest::FUNCTIONS);
    assert!(call(action, None, || {
        assert!(call(function, None, || assert!(!call(op, None, || ()), "not wanted")));
    }));
    drop(active);
    let summary = advanced.summary();
    assert!(summary.contains("net.rs:7(net::Net::forward)"), "{summary}");
    assert!(summary.contains("Profile stats for: optimizer_step"), "{summary}");
    assert!(!summary.contains("test::matmul"), "{summary}");

    let mut inputs = InputsBuilder::new();
    inputs.tensor(DType::Float32, &[2, 3]);
    let tensor = TensorProfiler::new().without_schedule().group_by_input_shapes(true);
    let tensor = Arc::new(tensor.group_by_phase(true));
    let active = activate(tensor.clone());
    assert_eq!(wanted() & 0b1100, 0b1100, "ops and shapes");
    call(op, Some(inputs.words()), || ());
    call(backward, None, || {
        call(op, Some(inputs.words()), || ());
    });
    call(op, Some(inputs.words()), || ());
    drop(active);
    assert_eq!(wanted(), 0);
    Profiler::teardown(&*tensor, None);
    let rows = tensor.snapshot().key_averages.rows;
    let calls = |wanted: &dyn Fn(&KeyAverage) -> bool| -> u64 {
        rows.iter().filter(|row| wanted(row)).map(|row| row.calls).sum()
    };
    let matmul = |row: &KeyAverage| row.name == "test::matmul" && row.input_shapes.is_some();
    assert_eq!(calls(&|row| matmul(row) && row.phase == Some(Phase::Backward)), 1, "{rows:#?}");
    assert_eq!(calls(&|row| matmul(row) && row.phase != Some(Phase::Backward)), 2, "{rows:#?}");
    assert_eq!(calls(&|row| row.name == "test::backward"), 1);

    outputs_of_ops_are_observed(&wanted);
    assert_eq!(wanted(), 0);

    (sink().end)();
    let _active = activate(advanced);
    assert_eq!(wanted(), 0, "another copy of the crate has taken over");
}
