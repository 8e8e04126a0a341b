//! Signals to child processes: this test binary, started again as one of the `programs`.

#![cfg(unix)]

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use profiler_core::interrupt::{Watch, watch};
use profiler_core::{
    Action, Interrupt, NeverStarted, PassThroughProfiler, Profiler, ProfilerExt, RunContext,
    Session, SimpleProfiler, Stage,
};

const PROGRAM: &str = "MLPROF_TEST_PROGRAM";
const SIGINT: i32 = 2;
const SIGTERM: i32 = 15;
const SIGHUP: i32 = 1;
/// All that ask a process to end.
const SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];
const PATIENCE: Duration = Duration::from_secs(20);

/// The child's side. Each program says `ready` when a signal may come.
mod programs {
    use super::*;

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
}

#[test]
#[ignore = "the child process of the other tests"]
fn child() {
    if let Ok(program) = std::env::var(PROGRAM) {
        programs::run(&program);
    }
}

struct Program {
    process: Child,
    output: BufReader<ChildStdout>,
    errors: ChildStderr,
}

impl Program {
    fn start(name: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("a path"));
        Self::spawn(command.args(["--ignored", "--exact", "child", "--nocapture"]), name)
    }

    /// With `signal` ignored, as a shell does for programs in the background.
    fn start_ignoring(signal: &str, name: &str) -> Self {
        let script = format!(r#"trap '' {signal}; exec "$0" --ignored --exact child --nocapture"#);
        let mut command = Command::new("sh");
        Self::spawn(
            command.arg("-c").arg(script).arg(std::env::current_exe().expect("a path")),
            name,
        )
    }

    fn spawn(command: &mut Command, name: &str) -> Self {
        // Tests that run in the background of a shell inherit an ignored SIGINT.
        let receives_signals = || {
            for signal in SIGNALS {
                // SAFETY: `signal` may be called between fork and exec.
                unsafe { libc::signal(signal, libc::SIG_DFL) };
            }
            Ok(())
        };
        // SAFETY: the closure calls nothing but `signal`.
        unsafe { command.pre_exec(receives_signals) };
        let mut process = command
            .env(PROGRAM, name)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a child process");
        let output = BufReader::new(process.stdout.take().expect("piped"));
        let errors = process.stderr.take().expect("piped");
        Self { process, output, errors }
    }

    /// Reads on until the child says `word`; false if it ends without.
    fn says(&mut self, word: &str) -> bool {
        let wanted = format!("child: {word}");
        self.output.by_ref().lines().map_while(Result::ok).any(|line| line.ends_with(&wanted))
    }

    fn signal(&self, signal: i32) {
        let status = Command::new("kill")
            .args([format!("-{signal}"), self.process.id().to_string()])
            .status()
            .expect("the program `kill`");
        assert!(status.success());
    }

    /// Until the end: what it said, its status, and what it wrote to standard error.
    fn end_with_output(mut self) -> (String, ExitStatus, String) {
        let mut output = String::new();
        self.output.read_to_string(&mut output).expect("text");
        let (status, errors) = self.end();
        (output, status, errors)
    }

    fn end(mut self) -> (ExitStatus, String) {
        let mut errors = String::new();
        self.errors.read_to_string(&mut errors).expect("text");
        (self.process.wait().expect("ends"), errors)
    }

    /// Sends `signal` again and again until the process has ended: for a second signal, which must
    /// not come before the first was delivered.
    fn signal_until_it_ends(mut self, signal: i32) -> ExitStatus {
        let started = Instant::now();
        loop {
            if let Some(status) = self.process.try_wait().expect("a child") {
                return status;
            }
            assert!(started.elapsed() < PATIENCE, "it does not end");
            self.signal(signal);
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn the_first_signal_finishes_with_a_report() {
    for signal in SIGNALS {
        let mut program = Program::start("finishes when asked");
        assert!(program.says("ready"));
        program.signal(signal);
        assert!(program.says("report"));
        let (status, errors) = program.end();
        assert!(status.success(), "{status}: {errors}");
        assert_eq!(errors.matches("a second Ctrl-C leaves at once").count(), 1, "{errors}");
    }
}

#[test]
fn the_second_signal_leaves_at_once() {
    let mut program = Program::start("never finishes");
    assert!(program.says("ready"));
    assert_eq!(program.signal_until_it_ends(SIGINT).signal(), Some(SIGINT));
}

#[test]
fn one_signal_alone_does_not_end_a_watched_process() {
    let mut program = Program::start("never finishes");
    assert!(program.says("ready"));
    program.signal(SIGINT);
    std::thread::sleep(Duration::from_millis(200));
    assert!(program.process.try_wait().expect("a child").is_none());
    program.signal(SIGTERM);
    assert_eq!(program.end().0.signal(), Some(SIGTERM), "the second one, of another kind");
}

#[test]
fn outside_of_a_watch_signals_do_what_they_always_did() {
    for name in ["has no watch", "had a watch"] {
        for signal in SIGNALS {
            let mut program = Program::start(name);
            assert!(program.says("ready"));
            program.signal(signal);
            assert_eq!(program.end().0.signal(), Some(signal), "{name}");
        }
    }
}

#[test]
fn overlapping_watches_share_one_interruption() {
    let mut program = Program::start("watches overlap");
    assert!(program.says("ready"));
    program.signal(SIGINT);
    assert!(program.says("ready"));
    assert_eq!(program.signal_until_it_ends(SIGINT).signal(), Some(SIGINT));
}

#[test]
fn every_watch_starts_anew() {
    let mut program = Program::start("watches again");
    for _ in 0..3 {
        assert!(program.says("ready"));
        program.signal(SIGINT);
    }
    assert!(program.says("report"));
    let (status, errors) = program.end();
    assert!(status.success(), "{status}: {errors}");
    assert_eq!(errors.matches("a second Ctrl-C leaves at once").count(), 3, "{errors}");
}

#[test]
fn the_programs_own_handler_keeps_its_signal() {
    let mut program = Program::start("has a handler");
    for _ in 0..3 {
        assert!(program.says("ready"));
        program.signal(SIGINT);
    }
    assert!(program.says("report"));
    assert!(program.end().0.success());
}

#[test]
fn an_ignored_signal_stays_ignored() {
    let mut program = Program::start_ignoring("INT", "finishes when asked");
    assert!(program.says("ready"));
    program.signal(SIGINT);
    program.signal(SIGINT);
    std::thread::sleep(Duration::from_millis(100));
    assert!(program.process.try_wait().expect("a child").is_none(), "neither asked nor ended");
    program.signal(SIGTERM);
    assert!(program.says("report"), "the other one is watched");
    assert!(program.end().0.success());
}

#[test]
fn a_signal_ends_a_training_and_the_report_comes_first() {
    for signal in SIGNALS {
        let mut program = Program::start("trains");
        assert!(program.says("ready"));
        program.signal(signal);
        let (output, status, errors) = program.end_with_output();
        assert_eq!(status.signal(), Some(signal), "{status}: {errors}");
        assert_eq!(output.matches("FIT Profiler Report").count(), 1, "{output}");
        assert!(output.contains("training_step"), "what is not over is in it, too: {output}");
        assert!(!output.contains("went on"), "{output}");
        assert_eq!(errors.matches("the report comes first").count(), 1, "{errors}");
    }
}

#[test]
fn a_program_does_not_go_on_after_a_stage_that_a_signal_has_ended() {
    for _ in 0..10 {
        let (output, status, _) = Program::start("is through with its stage").end_with_output();
        assert_eq!(status.signal(), Some(SIGINT));
        assert_eq!(output.matches("FIT Profiler Report").count(), 1, "{output}");
        assert!(!output.contains("went on"), "{output}");
    }
}

#[test]
fn without_a_profiler_nothing_is_changed() {
    for signal in SIGNALS {
        let mut program = Program::start("trains without a profiler");
        assert!(program.says("ready"));
        program.signal(signal);
        let (output, status, errors) = program.end_with_output();
        assert_eq!(status.signal(), Some(signal), "{status}: {errors}");
        assert!(!output.contains("Report") && !errors.contains("mlprof"), "{output}{errors}");
    }
}

#[test]
fn a_second_signal_does_not_wait_for_the_report() {
    let mut program = Program::start("reports for ever");
    assert!(program.says("ready"));
    program.signal(SIGTERM);
    assert!(program.says("reports"));
    std::thread::sleep(Duration::from_millis(200));
    assert!(program.process.try_wait().expect("a child").is_none(), "it reports");
    assert_eq!(program.signal_until_it_ends(SIGINT).signal(), Some(SIGINT));
}

#[test]
fn all_trainings_report_once_before_the_process_ends() {
    let mut program = Program::start("trains two models");
    assert!(program.says("ready"));
    program.signal(SIGINT);
    let (output, status, errors) = program.end_with_output();
    assert_eq!(status.signal(), Some(SIGINT), "{errors}");
    assert_eq!(output.matches("first model").count(), 1, "{output}");
    let reports = output.matches("FIT Profiler Report").count();
    assert_eq!(output.matches("second model").count(), reports - 1, "one each");
}

#[test]
fn who_asks_for_it_goes_on() {
    for signal in SIGNALS {
        let mut program = Program::start("returns");
        assert!(program.says("ready"));
        program.signal(signal);
        let (output, status, errors) = program.end_with_output();
        assert!(status.success(), "{status}: {errors}");
        assert!(output.contains("FIT Profiler Report"), "{output}");
        assert!(output.contains("went on"), "{output}");
    }
}

#[test]
fn a_signal_that_is_sent_twice_is_one() {
    let (output, status, errors) =
        Program::start("is asked twice at the same moment").end_with_output();
    assert!([SIGTERM, SIGHUP].map(Some).contains(&status.signal()), "{status}: {errors}");
    assert_eq!(output.matches("FIT Profiler Report").count(), 1, "{output}");
}

#[test]
fn a_handler_of_the_programs_own_wins() {
    for name in ["has had a handler", "gets a handler", "gets a handler of libc's"] {
        let mut program = Program::start(name);
        let rounds = if name.ends_with("libc's") { 2 } else { 3 };
        for _ in 0..rounds {
            assert!(program.says("ready"), "{name}");
            SIGNALS.iter().for_each(|signal| program.signal(*signal));
        }
        let (output, status, errors) = program.end_with_output();
        assert!(status.success(), "{name}: {status}: {output}{errors}");
        assert!(output.contains("went on"), "{name}: {output}");
        assert!(!errors.contains("the report comes first"), "{name}: {errors}");
    }
}

#[test]
fn a_training_under_nohup_goes_on() {
    let mut program = Program::start_ignoring("HUP", "trains");
    assert!(program.says("ready"));
    program.signal(SIGHUP);
    std::thread::sleep(Duration::from_millis(200));
    assert!(program.process.try_wait().expect("a child").is_none(), "it is ignored");
    program.signal(SIGTERM);
    let (output, status, errors) = program.end_with_output();
    assert_eq!(status.signal(), Some(SIGTERM), "{errors}");
    assert!(output.contains("FIT Profiler Report"), "{output}");
}

#[test]
fn a_forked_child_ends_by_the_signal_alone() {
    let (output, status, errors) = Program::start("forks").end_with_output();
    assert!(status.success(), "{status}: {errors}");
    assert_eq!(output.matches("FIT Profiler Report").count(), 1, "{output}");
    assert!(!errors.contains("the report comes first"), "{errors}");
}
