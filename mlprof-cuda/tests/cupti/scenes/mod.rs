//! Scenes of the tests. Each is the `main` function of a process.

mod limits;
mod refusals;
mod training;

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use mlprof_core::report::Report;
use mlprof_core::report::tensor::{KeyAverage, TensorReport};
use mlprof_core::tensor::{Cycle, Schedule};
use mlprof_core::{Action, Profiler, TensorProfiler, activate};
use serde_json::Value;

/// One scene.
pub struct Scene {
    pub name: &'static str,
    pub play: fn(),
    /// Behaviour of the fake library.
    pub mode: &'static str,
    pub prepare: fn(&mut Command, &Path),
    /// `true` if the scene also runs with NVIDIA's own library, if there is one.
    pub is_of_real_library: bool,
}

const fn scene(name: &'static str, play: fn()) -> Scene {
    Scene { name, play, mode: "", prepare: |_, _| {}, is_of_real_library: false }
}

/// All scenes.
pub const ALL: &[Scene] = &[
    scene("kernels under ops", training::kernels_under_ops),
    scene("the trace", training::the_trace),
    scene("threads", training::threads),
    scene("no op", training::no_op),
    scene("no times", training::no_times),
    scene("memory", training::memory),
    scene("two cycles", training::two_cycles),
    Scene {
        prepare: |command, folder| {
            command.env("NVTX_INJECTION64_PATH", folder.join("libcupti.so.12"));
        },
        ..scene("ranges of libraries", training::ranges_of_libraries)
    },
    Scene { mode: "no-calls", ..scene("by action alone", training::by_action_alone) },
    Scene { mode: "no-clock", ..scene("a clock of its own", training::a_clock_of_its_own) },
    scene("many kernels", limits::many_kernels),
    scene("too many", limits::too_many),
    scene("fork", limits::fork),
    scene("finalize", limits::finalize),
    scene("silent after leaving", limits::silent_after_leaving),
    scene("nobody asks", limits::profilers_without_device_interest_do_not_enable_cupti),
    scene("the process ends in the middle", limits::exit_in_the_middle),
    scene("a profiler is let go", limits::let_go),
    Scene { mode: "cut", ..scene("records that are cut off", limits::unreadable) },
    Scene { mode: "lost", ..scene("records that cannot be found", limits::unreadable) },
    Scene { mode: "claimed", ..scene("claimed", refusals::claimed) },
    Scene { mode: "not-permitted", ..scene("not permitted", refusals::not_permitted) },
    Scene { mode: "too-new", ..scene("too new", refusals::too_new) },
    Scene {
        mode: "too-new",
        is_of_real_library: true,
        ..scene("a real library and no real driver", refusals::too_new)
    },
    Scene {
        prepare: |command, _| {
            command.env_remove("MLPROF_CUDA_DRIVER");
        },
        is_of_real_library: true,
        ..scene("a real library and no driver", refusals::no_driver)
    },
    Scene {
        prepare: |command, folder| {
            command.env("MLPROF_CUDA_DRIVER", folder.join("nothing.so"));
        },
        ..scene("no driver", refusals::no_driver)
    },
    Scene {
        prepare: |command, folder| {
            command.env("MLPROF_CUPTI_LIBRARY", folder);
            command.env("MLPROF_TEST_EMPTY", "1");
        },
        ..scene("in a folder", training::kernels_under_ops_in_a_folder)
    },
    Scene {
        prepare: |command, folder| {
            command.env("MLPROF_CUPTI_LIBRARY", folder.join("libcuda.so.1"));
        },
        ..scene("another library", refusals::another_library)
    },
    Scene {
        prepare: |command, folder| {
            command.env("MLPROF_CUPTI_LIBRARY", folder.join("nothing.so"));
        },
        ..scene("no library", refusals::no_library)
    },
];

/// Results of a run.
pub struct RunResults {
    pub report: TensorReport,
    pub text: String,
    /// Traces of all cycles.
    pub traces: Vec<Value>,
}

impl RunResults {
    /// Returns the table row with this name.
    pub fn row(&self, name: &str) -> &KeyAverage {
        let rows = &self.report.key_averages.rows;
        rows.iter().find(|row| row.name == name).unwrap_or_else(|| panic!("{name}: {}", self.text))
    }

    pub fn notes(&self) -> &[String] {
        &self.report.header.notes
    }

    pub fn has_note(&self, part: &str) -> bool {
        self.notes().iter().any(|note| note.contains(part))
    }
}

/// Records all of `program`.
pub fn record(program: impl FnOnce(&Arc<TensorProfiler>)) -> RunResults {
    run(TensorProfiler::new().without_schedule(), program)
}

/// Records the steps of a schedule.
pub fn record_steps(schedule: Schedule, program: impl FnOnce(&Arc<TensorProfiler>)) -> RunResults {
    run(TensorProfiler::new().schedule(schedule), program)
}

pub fn run(profiler: TensorProfiler, program: impl FnOnce(&Arc<TensorProfiler>)) -> RunResults {
    let traces: Arc<Mutex<Vec<Value>>> = Arc::default();
    let written = traces.clone();
    let on_trace_ready = move |cycle: &Cycle| {
        let mut text = Vec::new();
        mlprof_core::trace::kineto::write(cycle, "trace", &mut text).expect("it is written");
        let trace = serde_json::from_slice(&text).expect("JSON");
        written.lock().expect("not poisoned").push(trace);
    };
    let profiler = Arc::new(profiler.on_trace_ready(on_trace_ready));
    let activated = activate(profiler.clone());
    program(&profiler);
    drop(activated);
    profiler.describe();
    let text = profiler.summary();
    let Some(Report::Tensor(report)) = profiler.report() else { panic!("no report") };
    let traces = std::mem::take(&mut *traces.lock().expect("not poisoned"));
    RunResults { report, text, traces }
}

/// Runs `work` as an op.
pub fn op<T>(name: &str, work: impl FnOnce() -> T) -> T {
    use mlprof_core::hook::{OpScope, OpStart};
    let scope = OpScope::open(&OpStart::new(Action::op(name)));
    let result = work();
    if let Some(scope) = scope {
        scope.close();
    }
    result
}

/// Returns the slices of a trace with this category.
pub fn slices<'trace>(trace: &'trace Value, category: &str) -> Vec<&'trace Value> {
    let events = trace["traceEvents"].as_array().expect("a list");
    events.iter().filter(|event| event["ph"] == "X" && event["cat"] == category).collect()
}
