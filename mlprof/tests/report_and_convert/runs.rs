//! Recorded runs, and helpers to call the command that reads them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mlprof_core::hook::{DType, DeviceEvent, InputsBuilder, OpStart, Timestamp};
use mlprof_core::prelude::profiled;
use mlprof_core::tensor::{Cycle, Schedule};
use mlprof_core::trace::flame::{FlameGraph, FlameMetric};
use mlprof_core::{
    Action, ActionKind, AdvancedProfiler, Observation, Profiler, ProfilerExt, Report, RunContext,
    SimpleProfiler, Stage, TensorProfiler,
};

/// Temporary folder for one test.
pub struct Folder(tempfile::TempDir);

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, content).expect("a file");
        path
    }

    /// Writes a report as profilers do.
    pub fn report(&self, name: &str, report: &Report) -> PathBuf {
        self.file(name, report.to_json().expect("a report is JSON"))
    }

    /// Returns the sorted names of the files in the folder.
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.path()).expect("a folder");
        let name = |entry: std::fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
        let mut names: Vec<String> = entries.map(|entry| name(entry.expect("an entry"))).collect();
        names.sort();
        names
    }
}

/// Returns an `mlprof` command with these arguments.
pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mlprof"));
    command.args(arguments).stdin(Stdio::null());
    for variable in ["CLICOLOR_FORCE", "NO_COLOR", "FORCE_COLOR"] {
        command.env_remove(variable);
    }
    command
}

pub fn mlprof(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the command was built")
}

/// Runs `mlprof`, which must succeed, and returns its standard output.
pub fn printed(arguments: &[&str]) -> String {
    let output = mlprof(arguments);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {error}");
    String::from_utf8(output.stdout).expect("text")
}

/// Runs `mlprof`, which must fail, and returns its error message.
pub fn refused(arguments: &[&str]) -> String {
    let output = mlprof(arguments);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(!output.status.success(), "{arguments:?}: {}", text(&output.stdout));
    assert_eq!(text(&output.stdout), "", "{arguments:?}");
    text(&output.stderr)
}

pub fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are text")
}

pub fn spin(microseconds: u64) {
    let start = Instant::now();
    while start.elapsed() < Duration::from_micros(microseconds) {
        std::hint::spin_loop();
    }
}

/// Runs a training under a Simple profiler and returns the report.
pub fn train(profiler: &dyn Profiler) -> Report {
    profiler.setup(Stage::Fit, &RunContext::default());
    for batch in 0..5 {
        let _batch = profiler.profile("run_training_batch");
        {
            let _forward = profiler.profile("forward");
            spin(200);
        }
        if batch == 4 {
            let _save = profiler.profile("save_checkpoint");
            spin(1000);
        }
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _load = profiler.profile("load");
            spin(100);
        });
    });
    profiler.teardown(Some(Stage::Fit));
    profiler.report().expect("a report")
}

pub fn simple() -> Report {
    train(&SimpleProfiler::new())
}

pub fn counted() -> Report {
    train(&SimpleProfiler::new().measure_cpu().measure_io())
}

#[profiled]
fn forward(depth: u32) {
    spin(100);
    if depth > 0 {
        forward(depth - 1);
    }
    relu();
}

#[profiled]
fn relu() {
    spin(50);
}

/// Records actions with nested functions on two threads.
pub fn advanced() -> Report {
    // Function hooks report to any active profiler, so tests that record functions must not
    // overlap.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let profiler = Arc::new(AdvancedProfiler::new());
    let active = mlprof_core::activate(profiler.clone());
    profiler.setup(Stage::Fit, &RunContext::default());
    for _ in 0..3 {
        let _step = profiler.profile("training_step");
        forward(2);
    }
    std::thread::scope(|scope| {
        let worker = std::thread::Builder::new().name("worker".into());
        let work = || {
            let _load = profiler.profile("load/batch");
            relu();
        };
        worker.spawn_scoped(scope, work).expect("a thread");
    });
    profiler.teardown(Some(Stage::Fit));
    drop(active);
    profiler.report().expect("a report")
}

fn op(profiler: &TensorProfiler, name: &str, sizes: &[i64], inside: impl FnOnce()) {
    let mut inputs = InputsBuilder::new();
    inputs.tensor(DType::Float32, sizes);
    let mut op = OpStart::new(Action::op(name));
    op.inputs = Some(&inputs);
    profiler.start_op(&op);
    inside();
    profiler.stop(op.action).expect("it was started");
}

/// Runs two steps with ops, one of which has a kernel on a device.
fn steps(profiler: &TensorProfiler) {
    for step in 0..2 {
        {
            let _step = profiler.profile("training_step");
            spin(300);
            op(profiler, "linear", &[4, 8], || {
                op(profiler, "matmul", &[4, 8], || spin(700));
                spin(200);
                op(profiler, "add", &[4], || spin(100));
            });
            op(profiler, "relu; in place", &[4], || spin(150));
            if step == 0 {
                launch(profiler);
            }
        }
        profiler.step();
    }
}

fn launch(profiler: &TensorProfiler) {
    let launch = Action::of_kind(ActionKind::Launch, "cudaLaunchKernel", None);
    let start = Instant::now();
    let mut start_of_launch = OpStart::new(launch);
    start_of_launch.sequence = 7;
    profiler.start_op(&start_of_launch);
    spin(50);
    profiler.stop(launch).expect("it was started");
    let kernel = Action::of_kind(ActionKind::Kernel, "gemm", None);
    let at = |after_us| Timestamp::at(start + Duration::from_micros(after_us));
    profiler.observe(&Observation::DeviceEvent(&DeviceEvent {
        correlation: 7,
        ..DeviceEvent::new(kernel, at(20), at(45))
    }));
}

/// Results of a Tensor profiler.
pub struct Recorded {
    pub report: Report,
    /// Path of the compressed trace.
    pub trace: PathBuf,
    /// Folded stacks of the same cycle, written by the profiler's own exporter.
    pub folded: String,
}

/// Records a run with the Tensor profiler into a folder.
pub fn tensor(folder: &Folder) -> Recorded {
    tensor_by(folder, |profiler| profiler)
}

/// Records a run with the Tensor profiler and additional settings.
pub fn tensor_by(folder: &Folder, set: impl FnOnce(TensorProfiler) -> TensorProfiler) -> Recorded {
    let trace = folder.path().join("run.pt.trace.json.gz");
    let (path, place) = (trace.clone(), Arc::new(Mutex::new(String::new())));
    let folded = place.clone();
    let export = move |cycle: &Cycle| {
        cycle.export_chrome_trace(&path).expect("written");
        let mut text = Vec::new();
        FlameGraph::of(cycle).write_stacks(FlameMetric::SelfCpuTime, &mut text).expect("memory");
        *place.lock().expect("no panic") = String::from_utf8(text).expect("text");
    };
    let two_steps = Schedule::new().wait(0).warmup(0).active(2).repeat(1);
    let profiler = TensorProfiler::new().schedule(two_steps);
    let profiler = set(profiler.on_trace_ready(export));
    profiler.setup(Stage::Fit, &RunContext::default());
    steps(&profiler);
    profiler.teardown(Some(Stage::Fit));
    let report = profiler.report().expect("a report");
    let folded = folded.lock().expect("no panic").clone();
    Recorded { report, trace, folded }
}
