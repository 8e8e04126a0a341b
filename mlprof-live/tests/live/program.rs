//! Training program of the tests. Commands on standard input control its steps.

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

/// Environment variable with the scene to run.
pub const SCENE: &str = "MLPROF_TEST_SCENE";

/// Stores the interests that profilers request, as a framework's hook receives them.
struct Hook;

static WANTED: Mutex<Vec<Interest>> = Mutex::new(Vec::new());

impl Instrumentation for Hook {
    fn interest_changed(&self, interest: Interest) {
        WANTED.lock().unwrap_or_else(PoisonError::into_inner).push(interest);
    }
}

/// Number of ops executed by the steps of the training.
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
            // If sampling is not possible here, the test checks the resulting message.
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
    // Prints the final interest, and `true` if ops were ever requested.
    let wanted = WANTED.lock().unwrap_or_else(PoisonError::into_inner).clone();
    println!("ops were wanted: {}", wanted.iter().any(|it| it.contains(Interest::OPS)));
    println!("wanted last: {:?}", wanted.last().copied().unwrap_or_default());
    println!("ops: {}", OPS.load(Ordering::Relaxed));
    drop(hook);
}

fn train(profiler: impl mlprof_core::IntoProfiler) {
    train_in(Session::begin(profiler, Stage::Fit, &RunContext::default()).expect("a profiler"));
}

/// Runs the command in each line of standard input, and prints `done` after it.
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

/// Closes all descriptors as a program that becomes a daemon does. Then opens its own listener on
/// all free numbers.
fn close_all_files(path: &str) {
    for number in 3..256 {
        // SAFETY: `close` takes an integer. No value of this program owns one of these descriptors.
        // The descriptors of mlprof are closed on purpose, because mlprof must support this.
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

/// Forks a child that also trains, and that ends as processes usually do.
fn fork() {
    println!("ready");
    // SAFETY: the program has no other threads of its own, and those of mlprof support forks.
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
    // SAFETY: `status` is a local variable that outlives the call, and the child was created above.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(status, 0, "the child ended well");
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).expect("text");
}

/// Loads libtorch, and starts its own client on request.
fn libtorch() {
    println!("ready");
    let path = std::env::var_os("MLPROF_TEST_LIBTORCH").expect("a path");
    // SAFETY: loading the library runs the same initialisation code as in every program that uses
    // tch.
    let library = unsafe { libloading::Library::new(path) }.expect("libtorch");
    println!("done");
    let mut lines = std::io::stdin().lock().lines();
    if lines.next().is_some() {
        let name = b"_ZN5torch18global_kineto_initEv";
        // SAFETY: the function has no arguments and no result, and the library stays loaded.
        unsafe {
            let begins: libloading::Symbol<'_, unsafe extern "C" fn()> =
                library.get(name).expect("a function");
            begins();
        }
        println!("done");
        lines.next();
    }
    // libtorch's threads cannot be stopped, so its destructors must not run. SAFETY: `_exit` takes
    // an integer and does not return.
    unsafe { libc::_exit(0) };
}
