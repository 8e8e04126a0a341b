//! Scenes of the child processes.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mlprof_core::allocation::{AllocationProfiler, TrackingAllocator};
use mlprof_core::hook::{self, DeviceDescription, Instrumentation, OpScope, OpStart};
use mlprof_core::lines::LineProfiler;
use mlprof_core::tensor::Schedule;
use mlprof_core::{
    Action, AdvancedProfiler, Interest, Profiler, ProfilerExt, Report, RunContext, Session, Stage,
    TensorProfiler, activate, profile,
};

/// Separator between the text of a scene's report and its JSON.
pub const JSON: &str = "\n=== JSON ===\n";

/// Reason as given by a hook for the device.
const NO_OPS_OF_DEVICE: &str =
    "no ops of Device<Flex(Default)>: they need `mlprof run --ops burn-flex,burn-autodiff -- …`";

fn burn() -> hook::Framework {
    hook::Framework { name: "burn".to_owned(), ..hook::Framework::default() }
}

/// Process that plays a scene, and its expected output.
pub struct Scene {
    pub name: &'static str,
    pub play: fn(),
    /// Parts of the expected text. If empty, no warning may appear.
    pub says: &'static [&'static str],
    /// Set if the report is delivered, so that the reason also appears on standard error.
    pub is_delivered: bool,
}

/// System allocator, or a tracking allocator after a scene enables it.
struct Chosen;

static TRACKS: AtomicBool = AtomicBool::new(false);
static TRACKING: TrackingAllocator = TrackingAllocator::new();

// SAFETY: both allocators use the system's memory in the same way, so either may free a block of
// the other.
unsafe impl GlobalAlloc for Chosen {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the contract, and the arguments are passed on unchanged.
        unsafe {
            match TRACKS.load(Ordering::Relaxed) {
                true => TRACKING.alloc(layout),
                false => System.alloc(layout),
            }
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the contract, and the arguments are passed on unchanged.
        unsafe {
            match TRACKS.load(Ordering::Relaxed) {
                true => TRACKING.dealloc(block, layout),
                false => System.dealloc(block, layout),
            }
        }
    }
}

#[global_allocator]
static ALLOCATOR: Chosen = Chosen;

fn track_allocations() {
    TRACKS.store(true, Ordering::Relaxed);
    drop(std::hint::black_box(vec![1_u8; 100]));
}

/// Delivers the report twice, like a run of two stages, and prints the JSON.
fn deliver(profiler: &dyn Profiler) {
    let report = profiler.report();
    profiler.describe();
    let report = profiler.report().or(report).expect("a report");
    print_json(&report);
}

fn print_json(report: &Report) {
    println!("{JSON}{}", report.to_json().expect("JSON"));
}

fn op() {
    let scope = OpScope::open(&OpStart::new(Action::op("aten::mm")));
    scope.into_iter().for_each(OpScope::close);
}

/// Runs two fits with this many steps of one op each, while the profiler is active.
fn fit(profiler: TensorProfiler, steps: usize, work: fn()) {
    let profiler = Arc::new(profiler.export_trace(false));
    for _ in 0..2 {
        let session = Session::begin(profiler.clone(), Stage::Fit, &RunContext::default())
            .expect("a profiler");
        for _ in 0..steps {
            let _scope = profile!("training_step");
            work();
            drop(_scope);
            profiler.step();
        }
        drop(session); // delivers
    }
    print_json(&profiler.report().expect("a report"));
}

/// Instrumentation that never reports an op.
struct Idle;

impl Instrumentation for Idle {
    fn interest_changed(&self, _interest: Interest) {}

    fn ops_of(&self) -> Option<&'static str> {
        Some("a framework of this test")
    }
}

fn idle_source() {
    hook::register(Arc::new(Idle)).forever();
}

fn no_work() {}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

fn scene(name: &'static str, play: fn(), says: &'static [&'static str]) -> Scene {
    Scene { name, play, says, is_delivered: true }
}

/// Returns a profiler as `mlprof run` makes it for a program without known steps.
fn without_steps() -> TensorProfiler {
    TensorProfiler::new().record_without_steps(true)
}

fn of_tensor() -> Vec<Scene> {
    vec![
        scene("all_is_there", || fit(TensorProfiler::new(), 6, op), &[]),
        scene(
            "tensor_never_used",
            || deliver(&TensorProfiler::new()),
            &["the profiler received no events: give it to a trainer (`.profiler(…)`)"],
        ),
        scene(
            "no_step",
            || fit(TensorProfiler::new(), 0, op),
            &[
                "step() was never called, and the first active step is 2 (counted from 0), so the whole",
            ],
        ),
        // The user of such a program cannot add the call. The report contains the reason, and
        // standard error does not.
        scene("no_step_of_a_program", || fit(without_steps(), 0, op), &[]),
        scene(
            "too_few_steps",
            || fit(TensorProfiler::new(), 2, op),
            &["the schedule needs 5 steps and fit had 2 steps: no active step"],
        ),
        scene(
            "a_cycle_cut_short",
            || fit(TensorProfiler::new(), 3, op),
            &["cycle 0 is incomplete: the schedule needs 5 steps until its end, fit had 3"],
        ),
        scene(
            "never_active",
            || {
                let profiler = TensorProfiler::new().without_schedule().profile_memory(true);
                drop(profiler.profile("work"));
                deliver(&profiler);
            },
            &["there are no ops and there is no memory, because the profiler was never active"],
        ),
        scene(
            "no_source_of_ops",
            || fit(TensorProfiler::new(), 6, no_work),
            &["there are no ops, because no hook reports them: with burn use `.profiler(…)`"],
        ),
        scene(
            "no_source_of_ops_of_a_known_framework",
            || {
                hook::declare_framework(burn);
                hook::declare_device("burn", "Flex(Default)");
                fit(TensorProfiler::new(), 6, no_work);
            },
            &[
                "there are no ops, because no hook reports them: run the program under `mlprof run --ops burn-flex,burn-autodiff -- …`",
            ],
        ),
        scene(
            "a_device_whose_hook_says_why_there_are_no_ops",
            || fit(TensorProfiler::new(), 6, || hook::note(NO_OPS_OF_DEVICE)),
            &[NO_OPS_OF_DEVICE],
        ),
        scene(
            "a_source_without_ops",
            || {
                idle_source();
                fit(TensorProfiler::new(), 6, no_work);
            },
            &["there are no ops: a framework of this test reports them, but none ran"],
        ),
        scene(
            "a_framework_without_hooks",
            || {
                hook::announce_without_ops("a framework");
                fit(TensorProfiler::new(), 6, no_work);
            },
            &[
                "a framework provides no hook for its tensor ops: run the program under `mlprof run --ops",
            ],
        ),
        scene(
            "no_allocator",
            || fit(TensorProfiler::new().profile_memory(true), 6, op),
            &["there is no memory, because no source reports it: use tch"],
        ),
        scene(
            "no_allocation",
            || {
                track_allocations();
                fit(TensorProfiler::new().profile_memory(true), 6, op);
            },
            &[
                "there is no memory: the program allocated and freed nothing while steps were recorded",
            ],
        ),
        scene(
            "no_kernel",
            || {
                let platform = "CUDA".to_owned();
                hook::describe_device(0, DeviceDescription { platform, ..Default::default() });
                fit(TensorProfiler::new(), 6, op);
            },
            &["there are no kernels: nothing ran on CUDA while steps were recorded"],
        ),
        scene(
            "empty_pictures",
            || {
                let folder = folder();
                let every_step = Schedule::new().wait(0).warmup(0).active(1);
                let profiler = TensorProfiler::new().schedule(every_step);
                let profiler = profiler.without_schedule().flame(true).memory_timeline(true);
                #[cfg(feature = "parquet")]
                let profiler = profiler.parquet(true);
                let profiler = profiler.export_trace(false).dirpath(folder.path());
                profiler.setup(Stage::Fit, &RunContext::default());
                deliver(&profiler);
                assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
            },
            &[
                "there are no flame graphs: nothing was recorded",
                #[cfg(feature = "parquet")]
                "there are no Parquet tables: nothing was recorded",
                "there is no memory over time: no allocation was recorded",
            ],
        ),
    ]
}

fn of_others() -> Vec<Scene> {
    vec![
        scene(
            "advanced_never_used",
            || deliver(&AdvancedProfiler::new()),
            &["the profiler received no events"],
        ),
        scene(
            "advanced_without_functions",
            || {
                let profiler = AdvancedProfiler::new();
                drop(profiler.profile("training_step"));
                deliver(&profiler);
            },
            &["there are no functions, only actions: write `#[profiled]` on functions"],
        ),
        scene(
            "advanced_with_functions",
            || {
                #[mlprof_core::prelude::profiled]
                fn work() {}
                let profiler = Arc::new(AdvancedProfiler::new());
                let active = activate(profiler.clone());
                drop(profile!("training_step"));
                work();
                drop(active);
                deliver(&*profiler);
            },
            &[],
        ),
        scene(
            "memory_without_an_allocator",
            || {
                let profiler = AllocationProfiler::new();
                drop(profiler.profile("work"));
                deliver(&profiler);
            },
            &[
                "nothing was counted: the program has no tracking allocator; add `#[global_allocator]",
            ],
        ),
        scene(
            "memory_without_actions",
            || {
                track_allocations();
                deliver(&AllocationProfiler::new());
            },
            &["there are no actions: only the process as a whole was counted"],
        ),
        Scene {
            name: "no_lines",
            play: || print_json(&Report::Lines(LineProfiler::new().report())),
            says: &["there are no lines: no function of this program has hooks on its lines"],
            is_delivered: false,
        },
    ]
}

#[cfg(all(feature = "sampling", target_os = "linux"))]
fn of_samples() -> Vec<Scene> {
    use mlprof_core::report::advanced::samples;
    use mlprof_core::sampler::Sampler;
    vec![
        scene(
            "no_sample",
            || {
                let report = Sampler::start(1).expect("starts").stop();
                print!("{}", samples::paint(&report));
                print_json(&Report::Samples(report));
            },
            &["at 1 samples per second: the program was too short or idle"],
        ),
        scene(
            "a_second_sampler",
            || {
                let _first = Sampler::start(1000).expect("starts");
                let profiler = AdvancedProfiler::new().sampled(1000);
                drop(profiler.profile("training_step"));
                deliver(&profiler);
            },
            &["another sampler is already running in this process"],
        ),
    ]
}

#[cfg(not(all(feature = "sampling", target_os = "linux")))]
fn of_samples() -> Vec<Scene> {
    Vec::new()
}

/// Returns all scenes.
pub fn all() -> Vec<Scene> {
    [of_tensor(), of_others(), of_samples()].into_iter().flatten().collect()
}
