//! Stress tests of the active profiler: it is activated and deactivated while other threads open
//! scopes.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{ThreadId, current};

use mlprof_core::{
    Action, ActiveScope, Interest, NeverStarted, Profiler, activate, active, profile,
    profile_dynamic,
};

/// Profiler that counts a mistake when a thread stops an action that is not its innermost open one.
#[derive(Default)]
struct Checker {
    open: Mutex<HashMap<ThreadId, Vec<Action>>>,
    starts: AtomicUsize,
    mistakes: AtomicUsize,
}

impl Checker {
    fn open(&self) -> MutexGuard<'_, HashMap<ThreadId, Vec<Action>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn starts(&self) -> usize {
        self.starts.load(Ordering::SeqCst)
    }

    fn mistakes(&self) -> usize {
        self.mistakes.load(Ordering::SeqCst)
    }

    fn open_here(&self) -> usize {
        self.open().get(&current().id()).map_or(0, Vec::len)
    }
}

impl Profiler for Checker {
    fn start(&self, action: Action) {
        self.starts.fetch_add(1, Ordering::SeqCst);
        self.open().entry(current().id()).or_default().push(action);
    }

    fn stop(&self, action: Action) -> Result<(), NeverStarted> {
        let innermost = self.open().entry(current().id()).or_default().pop();
        if innermost != Some(action) {
            self.mistakes.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    }

    fn interest(&self) -> Interest {
        Interest::ACTIONS
    }
}

/// Serialises the tests, because the active profiler belongs to the whole process.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn nested(depth: usize) {
    let _scope = profile_dynamic!(format!("depth {depth}"));
    let _also = profile!("also");
    if depth > 0 {
        nested(depth - 1);
    }
}

#[test]
fn activations_come_and_go_while_threads_open_scopes() {
    const WORKERS: usize = 6;
    const ACTIVATORS: usize = 2;
    const ACTIVATIONS: usize = 1_500;
    let _turn = turn();
    let is_over = AtomicBool::new(false);
    let barrier = Barrier::new(WORKERS + ACTIVATORS);
    let mut seen: Vec<Arc<Checker>> = Vec::new();
    std::thread::scope(|threads| {
        let worker = || {
            barrier.wait();
            while !is_over.load(Ordering::Relaxed) {
                nested(3);
            }
        };
        let workers: Vec<_> = (0..WORKERS).map(|_| threads.spawn(worker)).collect();
        let activator = || {
            barrier.wait();
            let mut profilers = Vec::new();
            for round in 0..ACTIVATIONS {
                let profiler = Arc::new(Checker::default());
                let activated = activate(profiler.clone());
                if round % 2 == 0 {
                    // A second profiler is activated on top. It ends before or after the first.
                    let inner = Arc::new(Checker::default());
                    let activated_inner = activate(inner.clone());
                    nested(1);
                    if round % 4 == 0 {
                        drop(activated);
                        nested(1);
                        drop(activated_inner);
                    } else {
                        drop(activated_inner);
                        nested(1);
                        drop(activated);
                    }
                    profilers.push(inner);
                } else {
                    nested(1);
                    drop(activated);
                }
                profilers.push(profiler);
            }
            profilers
        };
        let activators: Vec<_> = (0..ACTIVATORS).map(|_| threads.spawn(activator)).collect();
        for activator in activators {
            seen.extend(activator.join().expect("no panic"));
        }
        is_over.store(true, Ordering::Relaxed);
        // The threads are joined explicitly, because the end of the scope does not wait for
        // thread-local destructors.
        workers.into_iter().for_each(|worker| worker.join().expect("no panic"));
    });
    assert!(active().is_none());
    assert!(seen.iter().map(|profiler| profiler.starts()).sum::<usize>() > ACTIVATIONS);
    let mistakes: usize = seen.iter().map(|profiler| profiler.mistakes()).sum();
    assert_eq!(mistakes, 0, "a thread stopped what it had not started there");
    let kept: Vec<_> = seen.iter().filter(|profiler| Arc::strong_count(profiler) > 1).collect();
    assert!(kept.is_empty(), "{} profilers outlived their activation and all threads", kept.len());
}

#[test]
fn a_guard_that_outlives_the_activation_stops_nothing_elsewhere() {
    let _turn = turn();
    let (first, second) = (Arc::new(Checker::default()), Arc::new(Checker::default()));
    let activated = activate(first.clone());
    let early = profile!("early");
    drop(activated);
    let activated = activate(second.clone());
    let late = profile!("late");
    drop(early);
    assert_eq!((second.starts(), second.open_here()), (1, 1), "late is still open");
    drop(late);
    drop(activated);
    assert_eq!((second.mistakes(), second.open_here()), (0, 0));
    assert_eq!((first.starts(), first.mistakes()), (1, 0));
}

#[test]
fn a_nested_activation_gives_back_what_was_open() {
    let _turn = turn();
    let (outer, inner) = (Arc::new(Checker::default()), Arc::new(Checker::default()));
    let _activated = activate(outer.clone());
    let scope = profile!("outer");
    {
        let _activated = activate(inner.clone());
        nested(2);
        drop(scope);
        assert_eq!(outer.open_here(), 0, "stopped where it was started");
    }
    nested(2);
    assert_eq!((outer.starts(), inner.starts()), (1 + 6, 6));
    assert_eq!((outer.mistakes(), inner.mistakes()), (0, 0));
}

/// Profiler that measures itself.
#[derive(Default)]
struct Narcissus {
    starts: AtomicUsize,
    stops: AtomicUsize,
}

impl Profiler for Narcissus {
    fn interest(&self) -> Interest {
        let _scope = profile!("narcissus interest");
        Interest::ACTIONS
    }

    fn start(&self, _action: Action) {
        let _scope = profile!("narcissus start");
        self.starts.fetch_add(1, Ordering::SeqCst);
    }

    fn stop(&self, _action: Action) -> Result<(), NeverStarted> {
        let _scope = profile!("narcissus stop");
        self.stops.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

#[test]
fn a_profiler_that_measures_itself_does_not_recurse() {
    let _turn = turn();
    let narcissus = Arc::new(Narcissus::default());
    // A second active profiler makes sure that the scope in `interest` is really opened.
    let checker = Arc::new(Checker::default());
    let _outer = activate(checker.clone());
    let _activated = activate(narcissus.clone());
    assert_eq!(checker.starts(), 1);
    for _ in 0..3 {
        nested(1);
    }
    let counts = (narcissus.starts.load(Ordering::SeqCst), narcissus.stops.load(Ordering::SeqCst));
    assert_eq!(counts, (12, 12), "its own scopes are not opened");
}

/// Profiler that activates another profiler during its drop, interest query and calls.
struct Meddler {
    inner: Arc<Checker>,
    calls: AtomicUsize,
}

impl Meddler {
    fn meddle(&self) {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let activated = activate(self.inner.clone());
        nested(1);
        drop(activated);
    }
}

impl Profiler for Meddler {
    fn start(&self, _action: Action) {
        self.meddle();
    }

    fn stop(&self, _action: Action) -> Result<(), NeverStarted> {
        self.meddle();
        Ok(())
    }
}

impl Drop for Meddler {
    fn drop(&mut self) {
        self.meddle();
    }
}

#[test]
fn a_profiler_that_activates_another_from_inside_does_not_hang() {
    let _turn = turn();
    let inner = Arc::new(Checker::default());
    let meddler = Arc::new(Meddler { inner: inner.clone(), calls: AtomicUsize::new(0) });
    let gone = Arc::downgrade(&meddler);
    let activated = activate(meddler);
    nested(1);
    let calls = gone.upgrade().expect("active").calls.load(Ordering::SeqCst);
    assert_eq!(calls, 8, "four scopes");
    drop(activated);
    nested(1);
    assert_eq!(Weak::strong_count(&gone), 0);
    assert_eq!(inner.mistakes(), 0);
    assert_eq!(inner.open_here(), 0);
}

thread_local! {
    static LAST_WORDS: RefCell<Vec<ActiveScope>> = const { RefCell::new(Vec::new()) };
}

#[test]
fn scopes_that_end_with_their_thread_do_no_harm() {
    let _turn = turn();
    let checker = Arc::new(Checker::default());
    let activated = activate(checker.clone());
    for _ in 0..50 {
        let thread = std::thread::spawn(|| {
            // The thread-local may be initialised before or after the profiler's own ones. Both
            // orders of destruction must work.
            LAST_WORDS.with(|words| words.borrow_mut().push(profile!("last words")));
        });
        thread.join().expect("no panic");
    }
    drop(activated);
    assert_eq!((checker.starts(), checker.mistakes()), (50, 0));
    assert_eq!(Arc::strong_count(&checker), 1, "ended threads keep nothing");
}
