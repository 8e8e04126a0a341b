//! The program that trains, and is looked into: its steps end when it is told to.

use std::fs;
use std::io::{BufRead, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mlprof_core::hook::{self, Instrumentation, OpScope};
use mlprof_core::tensor::Schedule;
use mlprof_core::{
    Action, ActionKind, Interest, Profiler, ProfilerExt, Report, RunContext, Session,
    SimpleProfiler, Stage, TensorProfiler, profile,
};

/// What it plays, by its environment.
pub const SCENE: &str = "MLPROF_TEST_SCENE";

/// Hears what is wanted, as a framework's hook does.
struct Hook;

static WANTED: Mutex<Vec<Interest>> = Mutex::new(Vec::new());

impl Instrumentation for Hook {
    fn interest_changed(&self, interest: Interest) {
        WANTED.lock().unwrap_or_else(PoisonError::into_inner).push(interest);
    }
}

/// What a step of the training does, counted.
static OPS: AtomicU64 = AtomicU64::new(0);

pub fn play() {
    let scene = std::env::var(SCENE).expect("text");
    if scene == "impostor" {
        return crate::dynolog::play_impostor();
    }
    if scene == "stranger" {
        return crate::doors::play_stranger();
    }
    let hook = hook::register(Arc::new(Hook));
    match scene.as_str() {
        "fork" => fork(),
        "libtorch" => libtorch(),
        "sampled" => {
            // Where it cannot be, that is what is looked at.
            let sampler = mlprof_sampler::Sampler::start(10);
            train("none");
            drop(sampler);
        }
        "session" => {
            let profiler = Arc::new(SimpleProfiler::new());
            let session = Session::begin(profiler.clone(), Stage::Fit, &RunContext::default())
                .expect("a profiler");
            train_in(session.live(true));
            let stage = profiler.snapshot().header.stage;
            println!("reported: {}", stage == Some(Stage::Fit));
        }
        "simple" => {
            let profiler = Arc::new(SimpleProfiler::new());
            train(profiler.clone());
            let calls = profiler.snapshot();
            let row = calls.actions.iter().find(|row| row.action == "training_step");
            println!("calls: {}", row.map_or(0, |row| row.calls));
        }
        "tensor" => {
            let schedule = Schedule::new().wait(1).warmup(1).active(2).repeat(1);
            let profiler = TensorProfiler::new().schedule(schedule);
            let profiler = Arc::new(profiler);
            train(profiler.clone());
            let Some(Report::Tensor(report)) = Profiler::report(&*profiler) else {
                panic!("tensor")
            };
            let row =
                report.key_averages.rows.iter().find(|row| row.name == "aten::mm").expect("a row");
            println!("calls: {}", row.calls);
        }
        _ => train("none"),
    }
    // What is wanted at the end, and whether ops ever were.
    let wanted = WANTED.lock().unwrap_or_else(PoisonError::into_inner).clone();
    println!("ops were wanted: {}", wanted.iter().any(|it| it.contains(Interest::OPS)));
    println!("wanted last: {:?}", wanted.last().copied().unwrap_or_default());
    println!("ops: {}", OPS.load(Ordering::Relaxed));
    drop(hook);
}

fn train(profiler: impl mlprof_core::IntoProfiler) {
    train_in(Session::begin(profiler, Stage::Fit, &RunContext::default()).expect("a profiler"));
}

/// Does what each line of standard input says, and answers `done`.
#[inline(never)]
fn train_in(session: Session) {
    println!("ready");
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("text");
        match line.split_once(' ') {
            Some(("steps", count)) => {
                let count: u64 = count.parse().expect("a number");
                (0..count).for_each(|_| step(&session));
            }
            Some(("in", path)) => {
                let _scope = profile!("training_step");
                while !Path::new(path).exists() {
                    let _scope = profile!("waiting");
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            Some(("close", path)) => close_all_files(path),
            _ if line == "wanted" => {
                let wanted = WANTED.lock().unwrap_or_else(PoisonError::into_inner);
                println!("wanted now: {:?}", wanted.last().copied().unwrap_or_default());
            }
            _ if line == "validate" => {
                session.profiler().pause();
                let _scope = profile!("validation");
                op();
                session.profiler().step();
                session.profiler().resume();
            }
            _ => break,
        }
        println!("done");
        std::io::stdout().flush().expect("written");
    }
    drop(session);
}

/// What a program does that becomes a daemon; then it listens itself, by all numbers that are free
/// now.
fn close_all_files(path: &str) {
    for number in 3..256 {
        // SAFETY: `close` takes an integer. Nothing of this program owns one of these, and mlprof
        // has to expect it.
        unsafe { libc::close(number) };
    }
    let listener = std::os::unix::net::UnixListener::bind(path).expect("bound");
    for _ in 0..64 {
        std::mem::forget(listener.try_clone().expect("a copy"));
    }
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            stream.expect("a connection").write_all(b"own\n").expect("written");
        }
    });
}

fn step(session: &Session) {
    {
        let _scope = profile!("training_step");
        op();
        op();
    }
    session.profiler().step();
}

fn op() {
    static MM: std::sync::LazyLock<Action> =
        std::sync::LazyLock::new(|| Action::of_kind(ActionKind::Op, "aten::mm", None));
    OPS.fetch_add(1, Ordering::Relaxed);
    if let Some(op) = OpScope::open(&hook::OpStart::new(*MM)) {
        op.close();
    }
}

/// A child that trains, too, and ends as processes do.
fn fork() {
    println!("ready");
    // SAFETY: the program has no other threads of its own; mlprof's know of forks.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let session =
            Session::begin("none", Stage::Predict, &RunContext::default()).expect("a profiler");
        session.profiler().step();
        let file = std::env::var("MLPROF_TEST_CHILD").expect("a path");
        fs::write(&file, std::process::id().to_string()).expect("written");
        while Path::new(&file).exists() {
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(session);
        std::process::exit(0);
    }
    let mut status = 0;
    // SAFETY: waits for the child that was made above.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(status, 0, "the child ended well");
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).expect("text");
}

/// Loads libtorch, and has its own client begin when it is told to.
fn libtorch() {
    println!("ready");
    let path = std::env::var_os("MLPROF_TEST_LIBTORCH").expect("a path");
    // SAFETY: what it does when it is loaded is what every program of tch has it do.
    let library = unsafe { libloading::Library::new(path) }.expect("libtorch");
    println!("done");
    let mut lines = std::io::stdin().lock().lines();
    if lines.next().is_some() {
        let name = b"_ZN5torch18global_kineto_initEv";
        // SAFETY: the function has no arguments and no result, and the library stays.
        unsafe {
            let begins: libloading::Symbol<'_, unsafe extern "C" fn()> =
                library.get(name).expect("a function");
            begins();
        }
        println!("done");
        lines.next();
    }
    // Its threads are not told to end: neither are its destructors waited for.
    // SAFETY: a plain call, which does not come back.
    unsafe { libc::_exit(0) };
}
