//! Signals to child processes: this test binary, started again as one of the `programs`.

#![cfg(unix)]

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use profiler_core::interrupt::{Watch, watch};

const PROGRAM: &str = "MLPROF_TEST_PROGRAM";
const SIGINT: i32 = 2;
const SIGTERM: i32 = 15;
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
            for signal in [SIGINT, SIGTERM] {
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
    for signal in [SIGINT, SIGTERM] {
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
    std::thread::sleep(Duration::from_millis(100));
    assert!(program.process.try_wait().expect("a child").is_none());
    program.signal(SIGTERM);
    assert_eq!(program.end().0.signal(), Some(SIGTERM), "the second one, of another kind");
}

#[test]
fn outside_of_a_watch_signals_do_what_they_always_did() {
    for name in ["has no watch", "had a watch"] {
        for signal in [SIGINT, SIGTERM] {
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
    program.signal(SIGINT);
    assert_eq!(program.end().0.signal(), Some(SIGINT));
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
