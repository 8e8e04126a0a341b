//! The child's side. Each program says `ready` when a signal may come.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use profiler_core::interrupt::{Watch, watch};
use profiler_core::{
    Action, Interrupt, NeverStarted, PassThroughProfiler, Profiler, ProfilerExt, RunContext,
    Session, SimpleProfiler, Stage,
};

use super::{PATIENCE, SIGHUP, SIGINT, SIGNALS, SIGTERM};

pub fn run(name: &str) {
    match name {
        "finishes when asked" => finishes_when_asked(),
        "never finishes" => wait_for_ever(watch()),
        "has no watch" => wait_for_ever(()),
        "had a watch" => {
            drop(watch());
            wait_for_ever(());
        }
        "watches overlap" => watches_overlap(),
        "watches again" => watches_again(),
        "has a handler" => has_a_handler(),
        "trains" => trains(Arc::new(SimpleProfiler::new())),
        "trains without a profiler" => trains(Arc::new(PassThroughProfiler)),
        "reports for ever" => {
            let _session = begin(Arc::new(ReportsForEver));
            wait_for_ever(());
        }
        "is through with its stage" => is_through_with_its_stage(),
        "trains two models" => trains_two_models(),
        "returns" => returns(),
        "is asked twice at the same moment" => is_asked_twice_at_the_same_moment(),
        "has had a handler" => keeps_its_handler(true),
        "gets a handler" => keeps_its_handler(false),
        "gets a handler of libc's" => gets_a_handler_of_libcs(),
        "forks" => forks(),
        other => panic!("no program is called {other:?}"),
    }
}

fn say(word: &str) {
    println!("child: {word}");
}

fn wait_for_ever<T>(_held: T) {
    say("ready");
    std::thread::sleep(PATIENCE * 2);
}

fn wait_for_request(watch: &Watch) {
    let started = Instant::now();
    while !watch.requested() {
        assert!(started.elapsed() < PATIENCE, "no signal arrived");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn finishes_when_asked() {
    let watch = watch();
    say("ready");
    wait_for_request(&watch);
    assert!(watch.requested(), "and stays so");
    say("report");
}

fn watches_overlap() {
    let outer = watch();
    drop(watch());
    let inner = watch();
    say("ready");
    wait_for_request(&inner);
    assert!(outer.requested());
    drop(outer);
    let late = watch();
    assert!(!late.requested(), "it began after the signal");
    say("ready");
    // Still the same interruption: the second signal must end the process.
    wait_for_ever((inner, late));
}

fn watches_again() {
    for _ in 0..3 {
        let watch = watch();
        assert!(!watch.requested(), "a clean start");
        say("ready");
        wait_for_request(&watch);
    }
    say("report");
}

fn begin(profiler: Arc<dyn Profiler>) -> Session {
    Session::begin(profiler, Stage::Fit, &RunContext::default())
}

fn handler(signal: i32) -> usize {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: fills the action.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
        action.assume_init().sa_sigaction
    }
}

/// Hangs in a step, as far as any signal is concerned.
fn trains(profiler: Arc<dyn Profiler>) {
    let before = SIGNALS.map(handler);
    let is_measured = profiler.is_enabled();
    drop(begin(Arc::clone(&profiler)));
    assert_eq!(SIGNALS.map(handler), before, "as if there had been no session");
    let session = begin(Arc::clone(&profiler));
    assert_eq!(SIGNALS.map(handler) == before, !is_measured);
    let _step = profiler.profile("training_step");
    wait_for_ever(());
    drop(session);
    say("went on");
}

struct ReportsForEver;

impl Profiler for ReportsForEver {
    fn start(&self, _action: Action) {}

    fn stop(&self, _action: Action) -> Result<(), NeverStarted> {
        Ok(())
    }

    fn describe(&self) {
        say("reports");
        std::thread::sleep(PATIENCE * 2);
    }
}

/// One hangs, the other one is about to end its stage again and again.
fn trains_two_models() {
    std::thread::spawn(|| {
        let profiler = Arc::new(SimpleProfiler::new());
        let _session = begin(profiler.clone());
        let _step = profiler.profile("first model");
        wait_for_ever(());
    });
    loop {
        let profiler = Arc::new(SimpleProfiler::new());
        let _session = begin(profiler.clone());
        let _step = profiler.profile("second model");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The signal comes in a stage that is over before anybody could have done something about it.
fn is_through_with_its_stage() {
    let session = begin(Arc::new(SimpleProfiler::new()));
    // SAFETY: a signal that there is a handler for.
    unsafe { libc::raise(SIGINT) };
    drop(session);
    say("went on");
}

fn returns() {
    let profiler = Arc::new(SimpleProfiler::new());
    let session = begin(profiler.clone()).on_interrupt(Interrupt::Return);
    assert!(!session.is_interrupted());
    say("ready");
    let started = Instant::now();
    while !session.is_interrupted() {
        assert!(started.elapsed() < PATIENCE, "no signal arrived");
        let _step = profiler.profile("training_step");
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(session);
    say("went on");
}

fn is_asked_twice_at_the_same_moment() {
    let _session = begin(Arc::new(SimpleProfiler::new()));
    // SAFETY: valid sets; the handlers of both signals run one after the other when they are let
    // through.
    unsafe {
        let mut both = std::mem::zeroed();
        libc::sigemptyset(&raw mut both);
        libc::sigaddset(&raw mut both, SIGTERM);
        libc::sigaddset(&raw mut both, SIGHUP);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const both, std::ptr::null_mut());
        libc::raise(SIGTERM);
        libc::raise(SIGHUP);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const both, std::ptr::null_mut());
    }
    wait_for_ever(());
}

/// The handler of another library, which hands on to what was there before it.
fn keeps_its_handler(is_before: bool) {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let install = || {
        for signal in SIGNALS {
            // SAFETY: the handler does no more than add to an atomic.
            let own = unsafe {
                signal_hook::low_level::register(signal, || {
                    CALLS.fetch_add(1, Ordering::SeqCst);
                })
            };
            own.expect("a handler");
        }
    };
    if is_before {
        install();
    }
    let session = begin(Arc::new(SimpleProfiler::new()));
    if !is_before {
        install();
    }
    let handlers = SIGNALS.map(handler);
    is_called(3, &CALLS);
    drop(session);
    assert_eq!(SIGNALS.map(handler), handlers, "it stays");
    is_called(6, &CALLS);
    drop(begin(Arc::new(SimpleProfiler::new())));
    // A watch hears of the signals as well, and the handler is called once for each.
    let watch = watch();
    is_called(9, &CALLS);
    assert!(!is_before || watch.requested());
    drop(watch);
    assert_eq!(SIGNALS.map(handler), handlers, "and is in its place again");
    say("went on");
}

/// Waits until a handler was called so often, and a little longer: once more would be too often.
fn is_called(times: usize, calls: &AtomicUsize) {
    say("ready");
    let started = Instant::now();
    while calls.load(Ordering::SeqCst) < times {
        assert!(started.elapsed() < PATIENCE, "no signal arrived");
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(calls.load(Ordering::SeqCst), times);
}

fn gets_a_handler_of_libcs() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn own(_signal: i32) {
        CALLS.fetch_add(1, Ordering::SeqCst);
    }
    let session = begin(Arc::new(SimpleProfiler::new()));
    for signal in SIGNALS {
        // SAFETY: the handler does no more than add to an atomic.
        unsafe { libc::signal(signal, own as *const () as usize) };
    }
    is_called(3, &CALLS);
    drop(session);
    is_called(6, &CALLS);
    assert_eq!(SIGNALS.map(handler), [own as *const () as usize; 3]);
    say("went on");
}

/// A child that is forked while a session is open ends by the signal, and reports nothing.
fn forks() {
    let profiler = Arc::new(SimpleProfiler::new());
    let session = begin(profiler.clone());
    for signal in SIGNALS {
        // SAFETY: the child waits; the parent ends it, and waits for that.
        unsafe {
            let child = libc::fork();
            assert!(child >= 0);
            if child == 0 {
                loop {
                    libc::pause();
                }
            }
            let mut status = 0;
            assert_eq!(libc::kill(child, signal), 0);
            assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
            assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == signal);
        }
    }
    say("went on");
    drop(session);
}

fn has_a_handler() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    // SAFETY: the handler does no more than add to an atomic.
    let own = unsafe {
        signal_hook::low_level::register(SIGINT, || {
            CALLS.fetch_add(1, Ordering::SeqCst);
        })
    };
    own.expect("a handler");
    let wait_for_calls = |calls| {
        say("ready");
        let started = Instant::now();
        while CALLS.load(Ordering::SeqCst) < calls {
            assert!(started.elapsed() < PATIENCE, "no signal arrived");
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    let watch = watch();
    wait_for_calls(1);
    wait_for_request(&watch);
    drop(watch);
    // Two, since the second of a watch would end the process.
    wait_for_calls(2);
    wait_for_calls(3);
    say("report");
}
