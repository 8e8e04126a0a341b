//! Tests samples of threads, during a recording and once.

use mlprof_core::Report;
use mlprof_core::report::samples::Samples;
use mlprof_events::live::{Answer, Dump, RecordRequest, Request};
use mlprof_sampler::Sampler;

use crate::asking::{Program, milliseconds, steps};

/// Returns `true` if this program and its children can be sampled.
fn can_be_sampled() -> bool {
    Sampler::can_start(99).is_ok()
}

fn sampled(hz: u32, request: RecordRequest) -> Request {
    Request::Record(RecordRequest { sample: Some(hz), ..request })
}

fn dump(program: &Program) -> Dump {
    let mut connection = program.connect();
    connection.ask(Request::Dump { stacks: true });
    match connection.answer() {
        Some(Answer::Dump(dump)) => dump,
        other => panic!("no dump but {other:?}"),
    }
}

/// Returns `true` if the process currently has a sampler thread.
fn has_sampler(program: &Program) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{}/task", program.child.id())).expect("threads");
    let names = threads.filter_map(|it| std::fs::read_to_string(it.ok()?.path().join("comm")).ok());
    names.into_iter().any(|name| name.trim_end() == "mlprof-sampler")
}

fn has_function(samples: &Samples, name: &str) -> bool {
    samples.functions.iter().any(|function| function.name.contains(name))
}

pub fn stacks_come_beside_the_trace() {
    if !can_be_sampled() {
        return;
    }
    let mut program = Program::start("none");
    let go = program.folder.path().join("go");
    program.tell(&format!("in {}", go.display()));
    // The second iteration checks that the first sampler has ended.
    for _ in 0..2 {
        let mut connection = program.connect();
        connection.ask(sampled(500, milliseconds(100)));
        let (recorded, _) = connection.recorded();
        let Report::Samples(report) = connection.samples(&recorded) else { panic!("samples") };
        let samples = report.samples;
        assert_eq!((samples.asked_hz, samples.notes.len()), (500.0, 0), "{samples:?}");
        let main = samples.threads.iter().find(|it| it.thread == "main").expect("it was sampled");
        assert!(main.working_ticks + main.waiting_ticks > 0, "{main:?}");
        assert!(has_function(&samples, "train_in"), "{samples:?}");
        assert!(samples.threads.iter().all(|it| !it.thread.starts_with("mlprof")));
        assert!(!has_sampler(&program), "it is taken away again");
    }
    std::fs::write(&go, "").expect("written");
    program.await_done();
    // A recording without this option has no samples.
    let mut connection = program.connect();
    connection.ask(Request::Record(steps(1)));
    program.wait_until(|state| state.is_recording);
    program.steps(4);
    assert_eq!(connection.recorded().0.sample_bytes, None);
    assert_eq!(program.end().2, "", "nobody but who asked hears of it");
}

pub fn clients_get_the_reason_for_missing_samples() {
    let mut program = Program::start("sampled");
    let refused = |hz: u32| {
        let mut connection = program.connect();
        connection.ask(sampled(hz, steps(1)));
        connection.error()
    };
    let why = if can_be_sampled() {
        assert_eq!(
            refused(0),
            "cannot start sampling at 0 samples per second: use a rate from 1 to 20000"
        );
        "cannot start sampling: another sampler is already running in this process"
    } else {
        "cannot start sampling: mlprof-core was built without its feature `sampling`; turn on the feature `sampling` of the \
         program's mlprof plugin"
    };
    assert_eq!(refused(99), why);
    assert!(!program.state().is_recording, "and nothing is recorded");
    let dump = dump(&program);
    assert_eq!(dump.stacks, []);
    let last = dump.notes.last().expect("a note");
    assert_eq!(last, &format!("stacks are not available: {why}"));
    program.steps(1);
    assert!(program.end().0.success());
}

pub fn it_is_said_where_every_thread_is() {
    if !can_be_sampled() {
        return;
    }
    let mut program = Program::start("none");
    let go = program.folder.path().join("go");
    program.tell(&format!("in {}", go.display()));
    let dump = dump(&program);
    let [main] = &dump.stacks[..] else { panic!("one thread besides mlprof's: {:?}", dump.stacks) };
    assert_eq!((main.thread.as_str(), main.number), ("main", program.child.id()));
    let place = |name: &str| main.frames.iter().position(|it| it.function.contains(name));
    let (inner, outer) = (place("train_in"), place("main"));
    assert!(inner.is_some() && inner < outer, "the innermost first: {main:?}");
    assert!(!has_sampler(&program));
    std::fs::write(&go, "").expect("written");
    program.await_done();
    assert_eq!(program.end().2, "");
}
