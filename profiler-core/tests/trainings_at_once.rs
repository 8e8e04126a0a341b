//! Tests of several active profilers in one process. Each covers its own thread and the threads
//! bound to it.

use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex, MutexGuard, PoisonError};
use std::thread;

use mlprof_core::hook::{OpScope, OpStart};
use mlprof_core::{
    Action, Activated, Binding, Profiler, ProfilerExt, RunContext, Session, SimpleProfiler, Stage,
    TensorProfiler, activate, active, bound, profile,
};

/// Serialises the tests, because active profilers belong to the whole process.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn calls(profiler: &SimpleProfiler, action: &str) -> u64 {
    let report = profiler.snapshot();
    report.actions.iter().find(|row| row.action == action).map_or(0, |row| row.calls)
}

fn notes(profiler: &SimpleProfiler) -> Vec<String> {
    profiler.snapshot().header.notes
}

fn begin() -> (Arc<SimpleProfiler>, Activated) {
    let profiler = Arc::new(SimpleProfiler::new());
    let active = activate(profiler.clone());
    (profiler, active)
}

fn backward(times: u64) {
    (0..times).for_each(|_| drop(profile!("backward")));
}

#[test]
fn each_has_what_its_own_thread_does() {
    let _turn = turn();
    let barrier = Barrier::new(2);
    let train = |batches: u64| {
        let (profiler, active) = begin();
        barrier.wait();
        backward(batches);
        barrier.wait();
        drop(active);
        (calls(&profiler, "backward"), notes(&profiler))
    };
    thread::scope(|threads| {
        let other = threads.spawn(|| train(32));
        assert_eq!(train(10), (10, Vec::new()));
        assert_eq!(other.join().expect("no panic"), (32, Vec::new()));
    });
}

#[test]
fn two_tensor_profilers_have_their_own_ops() {
    let _turn = turn();
    let barrier = Barrier::new(2);
    let train = |name: &'static str, each: usize| {
        let action = Action::op(name);
        let profiler = Arc::new(TensorProfiler::new());
        let session = Session::begin(profiler.clone(), Stage::Predict, &RunContext::default())
            .expect("a profiler");
        for _step in 0..6 {
            barrier.wait();
            for _ in 0..each {
                OpScope::open(&OpStart::new(action)).into_iter().for_each(OpScope::close);
            }
            drop(profile!("conv2"));
            profiler.step();
        }
        barrier.wait();
        let report = profiler.snapshot();
        barrier.wait();
        drop(session);
        let rows = report.key_averages.rows.iter();
        let mut rows: Vec<_> = rows.map(|row| (row.name.clone(), row.calls)).collect();
        rows.retain(|(name, _)| name != "ProfilerStep*");
        rows.sort();
        rows
    };
    let expected = |name: &str, each: u64| {
        let mut rows = vec![("conv2".to_owned(), 3), (name.to_owned(), 3 * each)];
        rows.sort();
        rows
    };
    thread::scope(|threads| {
        let other = threads.spawn(|| train("one::op", 4));
        assert_eq!(train("other::op", 7), expected("other::op", 7));
        assert_eq!(other.join().expect("no panic"), expected("one::op", 4));
    });
}

#[test]
fn threads_that_a_training_makes_are_its_own() {
    let _turn = turn();
    let barrier = Barrier::new(2);
    // Both trainings share a thread pool, as with rayon.
    let (jobs, waiting) = channel::<Box<dyn FnOnce() + Send>>();
    let pool = thread::spawn(move || waiting.into_iter().for_each(|job| job()));
    let train = |batches: u64| {
        // The binding is created before the profiler, as for data loaders.
        let early = Binding::current();
        let (profiler, active) = begin();
        barrier.wait();
        thread::scope(|threads| {
            threads.spawn(bound(|| {
                backward(batches);
                // A bound thread can bind further threads.
                thread::spawn(bound(move || backward(batches))).join().expect("no panic");
            }));
            threads.spawn(|| {
                let _bound = early.bind();
                backward(1);
            });
        });
        let (done, is_done) = channel();
        let work = bound(move || backward(batches));
        let job = move || {
            work();
            done.send(()).expect("waited for");
        };
        jobs.send(Box::new(job)).expect("the pool is there");
        is_done.recv().expect("done");
        barrier.wait();
        drop(active);
        (calls(&profiler, "backward"), notes(&profiler))
    };
    thread::scope(|threads| {
        let other = threads.spawn(|| train(100));
        assert_eq!(train(20), (61, Vec::new()));
        assert_eq!(other.join().expect("no panic"), (301, Vec::new()));
    });
    drop(jobs);
    pool.join().expect("no panic");
}

#[test]
fn unattributed_work_is_noted_in_both_reports() {
    let _turn = turn();
    let (tell, told) = channel();
    let stray = thread::Builder::new().name("stray".to_owned());
    let stray = stray.spawn(move || {
        told.recv().expect("told");
        backward(7);
    });
    let stray = stray.expect("a thread");
    let barrier = Barrier::new(2);
    let (first, active) = begin();
    thread::scope(|threads| {
        let second = threads.spawn(|| {
            let (second, active) = begin();
            barrier.wait();
            barrier.wait();
            drop(active);
            barrier.wait();
            second
        });
        barrier.wait();
        tell.send(()).expect("it waits");
        stray.join().expect("no panic");
        // The note appears at once, and also after the profiler has ended.
        let said = notes(&first);
        let [note] = said.as_slice() else { panic!("{said:?}") };
        assert!(note.starts_with("7 scopes of 1 thread (stray) are in no report"), "{note}");
        barrier.wait();
        barrier.wait();
        let second = second.join().expect("no panic");
        assert_eq!(notes(&second), notes(&first));
        assert!(second.summary().contains("(stray)"), "{}", second.summary());
        assert_eq!((calls(&first, "backward"), calls(&second, "backward")), (0, 0));
    });
    drop(active);
    // The next stage is not affected.
    first.setup(Stage::Test, &RunContext::default());
    assert_eq!(notes(&first), Vec::<String>::new());
}

#[test]
fn a_single_training_has_what_all_threads_do() {
    let _turn = turn();
    let (profiler, active) = begin();
    thread::spawn(|| backward(3)).join().expect("no panic");
    // A second training begins inside the first, like a test inside a fit.
    let (inner, active_inner) = begin();
    backward(1);
    thread::spawn(|| backward(4)).join().expect("no panic");
    drop(active_inner);
    backward(2);
    drop(active);
    assert_eq!((calls(&profiler, "backward"), calls(&inner, "backward")), (5, 5));
    assert_eq!(notes(&profiler), Vec::<String>::new());
}

#[test]
fn a_finished_training_does_not_report_to_a_running_one() {
    let _turn = turn();
    let barrier = Barrier::new(2);
    thread::scope(|threads| {
        let other = threads.spawn(|| {
            let (profiler, active) = begin();
            barrier.wait();
            barrier.wait(); // the other training has ended
            barrier.wait(); // and has run other work
            backward(2);
            drop(active);
            barrier.wait();
            profiler
        });
        barrier.wait();
        let (profiler, active) = begin();
        let metrics = Binding::current();
        backward(3);
        drop(active);
        barrier.wait();
        assert!(active_is_none());
        backward(30);
        threads.spawn(move || {
            let _bound = metrics.bind();
            backward(300);
        });
        thread::spawn(bound(|| backward(3000))).join().expect("no panic");
        barrier.wait();
        barrier.wait();
        assert_eq!(calls(&profiler, "backward"), 3);
        let other = other.join().expect("no panic");
        assert_eq!(calls(&other, "backward"), 2);
        // When only one training is left, its profiler receives everything.
        let (later, _active) = begin();
        backward(4);
        assert_eq!(calls(&later, "backward"), 4);
    });
}

/// Combines a profiler of the whole program with a training that has its own profiler on a thread.
/// The thread continues after that training.
#[test]
fn work_after_a_threads_own_training_is_counted() {
    let _turn = turn();
    let (outer, active) = begin();
    let inner = thread::Builder::new().name("pool".to_owned()).spawn(|| {
        backward(1);
        let (own, active) = begin();
        backward(2);
        drop(active);
        backward(1000);
        own
    });
    let inner = inner.expect("a thread").join().expect("no panic");
    assert_eq!((calls(&outer, "backward"), calls(&inner, "backward")), (1, 2));
    let said = notes(&outer);
    let [note] = said.as_slice() else { panic!("{said:?}") };
    assert!(
        note.starts_with(
            "1000 scopes of 1 thread (pool) are in no report: the threads' own training"
        ),
        "{note}"
    );
    assert_eq!(notes(&inner), Vec::<String>::new());
    drop(active);
}

fn active_is_none() -> bool {
    active().is_none()
}

#[test]
fn scopes_end_where_they_began() {
    let _turn = turn();
    let (first, active) = begin();
    let open = thread::scope(|threads| {
        // An unbound thread opens the scope while there is one training, and closes it while there
        // are two.
        let (tell, told) = channel();
        let (say, said) = channel();
        let stray = threads.spawn(move || {
            let scope = profile!("open");
            say.send(()).expect("heard");
            told.recv().expect("told");
            drop(scope);
            drop(profile!("missed"));
        });
        said.recv().expect("said");
        let (second, _second) = threads.spawn(begin).join().expect("no panic");
        tell.send(()).expect("it waits");
        stray.join().expect("no panic");
        second
    });
    assert_eq!((calls(&first, "open"), calls(&first, "missed")), (1, 0));
    assert_eq!((calls(&open, "open"), calls(&open, "missed")), (0, 0));
    drop(active);
}
