//! Tests of trainings that run as tasks. Each has its own scopes, on any thread that polls it.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use mlprof_core::future::BoundFuture;
use mlprof_core::{
    BindFutureExt, Binding, RunContext, Session, SimpleProfiler, Stage, activate, profile,
};

/// Serialises the tests, because active profilers belong to the whole process.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Future that is ready at its second poll.
struct Later(bool);

impl Future for Later {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) { Poll::Ready(()) } else { Poll::Pending }
    }
}

fn is_ready(future: Pin<&mut impl Future>) -> bool {
    future.poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

async fn batches(number: usize) {
    for _ in 0..number {
        drop(profile!("batch"));
        Later(false).await;
    }
}

async fn train(profiler: Arc<SimpleProfiler>, number: usize) {
    let session =
        Session::begin(profiler, Stage::Predict, &RunContext::default()).expect("a profiler");
    batches(number).await;
    drop(session);
}

/// Returns a profiler that writes its report to a file.
fn quiet(folder: &tempfile::TempDir) -> Arc<SimpleProfiler> {
    Arc::new(SimpleProfiler::new().dirpath(folder.path()).filename("report"))
}

fn calls(profiler: &SimpleProfiler, action: &str) -> u64 {
    let report = profiler.snapshot();
    report.actions.iter().find(|row| row.action == action).map_or(0, |row| row.calls)
}

fn notes(profiler: &SimpleProfiler) -> Vec<String> {
    profiler.snapshot().header.notes
}

/// Polls both futures in turn, like a single-threaded executor.
fn run_both(first: impl Future, second: impl Future) {
    let (mut first, mut second) = (pin!(first), pin!(second));
    let (mut one, mut two) = (false, false);
    while !(one && two) {
        one = one || is_ready(first.as_mut());
        two = two || is_ready(second.as_mut());
    }
}

#[test]
fn tasks_on_one_thread_have_their_own_scopes_when_they_are_bound() {
    let _turn = turn();
    let folder = tempfile::tempdir().expect("a folder");
    // The first training ends before the second, or after it.
    for (one, two) in [(10, 20), (20, 10)] {
        let (first, second) = (quiet(&folder), quiet(&folder));
        run_both(
            train(first.clone(), one).bound_to(&Binding::new()),
            train(second.clone(), two).bound_to(&Binding::new()),
        );
        assert_eq!((calls(&first, "batch"), calls(&second, "batch")), (one as u64, two as u64));
        assert_eq!((notes(&first), notes(&second)), (Vec::new(), Vec::new()));
    }
    assert!(mlprof_core::active().is_none(), "nothing stays active or bound");
}

#[test]
fn tasks_that_cannot_be_told_apart_say_so() {
    let _turn = turn();
    let folder = tempfile::tempdir().expect("a folder");
    let (first, second) = (quiet(&folder), quiet(&folder));
    run_both(train(first.clone(), 10), train(second.clone(), 20));
    assert_eq!(calls(&first, "batch") + calls(&second, "batch"), 30);
    for profiler in [&first, &second] {
        let said = notes(profiler);
        let [note] = said.as_slice() else { panic!("{said:?}") };
        assert!(note.contains("overlapped") && note.contains("bound_to"), "{note}");
    }
    // The first training ends before any scope is opened, so the two have no scopes in common.
    let folder = tempfile::tempdir().expect("a folder");
    let (first, second) = (quiet(&folder), quiet(&folder));
    let begin = |profiler: &Arc<SimpleProfiler>| {
        Session::begin(profiler.clone(), Stage::Predict, &RunContext::default())
            .expect("a profiler")
    };
    let session = begin(&first);
    let next = begin(&second);
    drop(session);
    drop(profile!("batch"));
    drop(next);
    assert_eq!((notes(&first), notes(&second)), (Vec::new(), Vec::new()));
    assert_eq!(calls(&second, "batch"), 1);
}

#[test]
fn spawned_tasks_belong_to_their_task_on_any_thread() {
    let _turn = turn();
    let (first, second) = (Arc::new(SimpleProfiler::new()), Arc::new(SimpleProfiler::new()));
    let load = |profiler: &Arc<SimpleProfiler>, number| {
        let profiler = profiler.clone();
        async move {
            let active = activate(profiler);
            let loader: Pin<Box<BoundFuture<_>>> =
                Box::pin(batches(number).bound_to(&Binding::current()));
            (active, loader)
        }
        .bound_to(&Binding::new())
    };
    let begun = |future: Pin<&mut BoundFuture<_>>| match future
        .poll(&mut Context::from_waker(Waker::noop()))
    {
        Poll::Ready(begun) => begun,
        Poll::Pending => panic!("it waits for nothing"),
    };
    let (one, two) = (load(&first, 3), load(&second, 5));
    let (_active, mut loader) = begun(pin!(one));
    let (_other, mut other) = begun(pin!(two));
    std::thread::spawn(move || {
        // A third thread polls both in turn, like a thread pool.
        let (mut one, mut two) = (false, false);
        while !(one && two) {
            one = one || is_ready(loader.as_mut());
            two = two || is_ready(other.as_mut());
        }
    })
    .join()
    .expect("no panic");
    assert_eq!((calls(&first, "batch"), calls(&second, "batch")), (3, 5));
    assert_eq!((notes(&first), notes(&second)), (Vec::new(), Vec::new()));
}

struct Measured;

impl Drop for Measured {
    fn drop(&mut self) {
        drop(profile!("dropped"));
    }
}

/// Checks a cancelled task, which may be dropped on any thread.
#[test]
fn a_future_that_is_dropped_early_belongs_to_its_training() {
    let _turn = turn();
    let profiler = Arc::new(SimpleProfiler::new());
    let own = profiler.clone();
    let mut task = Box::pin(
        async move {
            let _active = activate(own);
            let _measured = Measured;
            batches(9).await;
        }
        .bound_to(&Binding::new()),
    );
    assert!(!is_ready(task.as_mut()));
    let other = Arc::new(SimpleProfiler::new());
    let _active = activate(other.clone());
    drop(profile!("of the other"));
    drop(task);
    assert_eq!((calls(&profiler, "batch"), calls(&profiler, "dropped")), (1, 1));
    assert_eq!((calls(&other, "dropped"), calls(&other, "of the other")), (0, 1));
}
