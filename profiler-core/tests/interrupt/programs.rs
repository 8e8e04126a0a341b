//! The child's side. Each program prints `ready` when a signal may arrive.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mlprof_core::interrupt::{Watch, watch};
use mlprof_core::{
    Action, Interrupt, NeverStarted, Output, PassThroughProfiler, Profiler, ProfilerExt,
    RunContext, Session, SimpleProfiler, Stage,
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
        "forks a child that drops" => forks_a_child(drop),
        "forks a child that panics" => forks_a_child(|session| {
            let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
                let _session = session;
                panic!("in the child");
            }));
            assert!(panicked.is_err());
        }),
        "forks a child that exits" => forks_a_child(|session| {
            let _session = session;
            std::process::exit(0);
        }),
        "forks a child that returns an error" => forks_a_child(|session| {
            let fails = move || -> Result<(), &str> {
                let _session = session;
                Err("in the child")
            };
            assert!(fails().is_err());
        }),
        #[cfg(target_os = "linux")]
        "is signalled as number 1" => is_signalled_as_number_one(),
        #[cfg(target_os = "linux")]
        "watches as number 1" => watches_as_number_one(),
        #[cfg(target_os = "linux")]
        "forks another number 1" => forks_another_number_one(),
        #[cfg(target_os = "linux")]
        "has no further thread" => has_no_further_thread(),
        #[cfg(target_os = "linux")]
        "closes all descriptors" => closes_all_descriptors(),
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
    // The interruption is still the same one, so the second signal must end the process.
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
    Session::begin(profiler, Stage::Fit, &RunContext::default()).expect("a profiler")
}

fn handler(signal: i32) -> usize {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: `sigaction` only writes the current action to the local value.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
        action.assume_init().sa_sigaction
    }
}

/// Hangs in a step, so that only a signal ends it.
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

/// Trains two models. One hangs, and the other ends its stage repeatedly.
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

/// Raises the signal in a stage that ends before the signal can be handled.
fn is_through_with_its_stage() {
    let session = begin(Arc::new(SimpleProfiler::new()));
    // SAFETY: a handler for this signal is installed.
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
    // SAFETY: the sets are local and initialised. After the unblocking the handlers of both signals
    // run one after the other.
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

/// Installs the handler of another library, which also calls the previous handler.
fn keeps_its_handler(is_before: bool) {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let install = || {
        for signal in SIGNALS {
            // SAFETY: the handler only adds to an atomic, which is async-signal-safe.
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
    // A watch also receives the signals, and the handler is called once for each.
    let watch = watch();
    is_called(9, &CALLS);
    assert!(!is_before || watch.requested());
    drop(watch);
    assert_eq!(SIGNALS.map(handler), handlers, "and is in its place again");
    say("went on");
}

/// Waits until a handler was called this often, plus a moment in which an extra call would be
/// noticed.
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
        // SAFETY: the handler only adds to an atomic, which is async-signal-safe.
        unsafe { libc::signal(signal, own as *const () as usize) };
    }
    is_called(3, &CALLS);
    drop(session);
    is_called(6, &CALLS);
    assert_eq!(SIGNALS.map(handler), [own as *const () as usize; 3]);
    say("went on");
}

/// Forks a child while a session is open. The signal must end the child without a report.
fn forks() {
    let profiler = Arc::new(SimpleProfiler::new());
    let session = begin(profiler.clone());
    for signal in SIGNALS {
        // SAFETY: the child only waits, and the parent kills and reaps it.
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

fn folder() -> std::path::PathBuf {
    std::env::var_os(super::FOLDER).expect("a folder").into()
}

/// Forks a child that runs `leave` with its copy of the session. The child exits normally after its
/// parent's report.
fn forks_a_child(leave: fn(Session)) {
    let output = Output::new().dirpath(folder()).filename("run").json(true);
    let profiler = Arc::new(SimpleProfiler::new().output_to(output));
    let session = begin(profiler.clone());
    let steps = |count| (0..count).for_each(|_| drop(profiler.profile("training_step")));
    steps(50);
    // The child waits until the parent's end of this pipe is closed.
    let (mut over, parents_is_done) = std::io::pipe().expect("a pipe");
    // SAFETY: the child continues with a copy of this thread only and uses no state of other
    // threads.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        drop(parents_is_done);
        let mut nothing = Vec::new();
        std::io::Read::read_to_end(&mut over, &mut nothing).expect("the parent has reported");
        steps(7);
        leave(session);
        std::process::exit(0);
    }
    steps(50);
    drop(session);
    drop(parents_is_done);
    let mut status = 1;
    // SAFETY: `status` is a local variable, and `child` is a child of this process.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
}

#[cfg(target_os = "linux")]
fn send_to_itself(signal: i32) {
    // SAFETY: `kill` only sends a signal.
    assert_eq!(unsafe { libc::kill(libc::getpid(), signal) }, 0);
    // Two signals within a tenth of a second count as one.
    std::thread::sleep(Duration::from_millis(150));
}

#[cfg(target_os = "linux")]
fn is_signalled_as_number_one() {
    assert_eq!(std::process::id(), 1);
    let profiler = Arc::new(SimpleProfiler::new());
    let session = begin(profiler.clone());
    for signal in SIGNALS.into_iter().chain([SIGTERM, SIGTERM]) {
        let _step = profiler.profile("training_step");
        send_to_itself(signal);
    }
    drop(session);
    // This session begins after the watch has ended.
    let session = begin(Arc::new(PassThroughProfiler)).on_interrupt(Interrupt::Return);
    drop(session);
    send_to_itself(SIGTERM);
    say("went on");
}

#[cfg(target_os = "linux")]
fn watches_as_number_one() {
    assert_eq!(std::process::id(), 1);
    let watch = watch();
    send_to_itself(SIGINT);
    wait_for_request(&watch);
    say("heard");
    send_to_itself(SIGINT);
    say("went on");
}

#[cfg(target_os = "linux")]
fn forks_another_number_one() {
    assert_eq!(std::process::id(), 1);
    let session = begin(Arc::new(SimpleProfiler::new()));
    // SAFETY: the forked child becomes process 1 of a new PID namespace. It exits after it has
    // dropped its copy.
    unsafe {
        assert_eq!(libc::unshare(libc::CLONE_NEWPID), 0);
        let child = libc::fork();
        assert!(child >= 0);
        if child == 0 {
            assert_eq!(std::process::id(), 1);
            drop(session);
            say("was number 1");
            libc::_exit(0);
        }
        let mut status = 1;
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        assert_eq!(status, 0);
    }
    drop(session);
}

/// Returns the size of this process's address space in bytes.
#[cfg(target_os = "linux")]
fn address_space() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").expect("of this process");
    let pages: u64 = pages.split_whitespace().next().and_then(|it| it.parse().ok()).expect("pages");
    // SAFETY: `sysconf` has no preconditions.
    pages * unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.cast_unsigned()
}

/// Uses up the address space, so that no thread stack fits. A limit on the number of threads would
/// not apply to root.
#[cfg(target_os = "linux")]
fn has_no_further_thread() {
    let profiler = Arc::new(SimpleProfiler::new());
    let _session = begin(profiler.clone());
    drop(profiler.profile("training_step"));
    let most = address_space() + (3 << 19);
    let limit = libc::rlimit { rlim_cur: most, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: `limit` is a local variable and valid during the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
    if std::thread::Builder::new().spawn(|| ()).is_err() {
        say("no thread");
    }
    // SAFETY: a handler for this signal is installed.
    unsafe { libc::raise(SIGTERM) };
    wait_for_ever(());
}

/// Closes all descriptors, like a daemon, and then opens files that get the same numbers.
#[cfg(target_os = "linux")]
fn closes_all_descriptors() {
    let session = begin(Arc::new(SimpleProfiler::new()));
    for number in 3..256 {
        // SAFETY: the program itself uses none of these descriptors, and closing one does not
        // affect memory.
        unsafe { libc::close(number) };
    }
    let own = std::fs::File::create(folder().join("own")).expect("a file");
    let again: Vec<_> = (0..64).map(|_| own.try_clone().expect("another number")).collect();
    // SAFETY: a handler for this signal is installed.
    unsafe { libc::raise(SIGTERM) };
    wait_for_ever((session, own, again));
}

fn has_a_handler() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    // SAFETY: the handler only adds to an atomic, which is async-signal-safe.
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
    // Two more signals follow the drop. A second signal during the watch would end the process.
    wait_for_calls(2);
    wait_for_calls(3);
    say("report");
}
