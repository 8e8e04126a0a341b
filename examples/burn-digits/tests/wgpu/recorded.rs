//! The Tensor profiler's recording in a form that tests can query.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use burn::tensor::Device;
use mlprof_core::hook::{DeviceActivity, Direction, ShapeList, TensorShape, TimingMethod};
use mlprof_core::tensor::{Cycle, DeviceTiming};
use mlprof_core::{ActionKind, Activated, TensorProfiler, activate};

/// The place where an op was called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub step: u64,
    pub thread: u64,
    /// Open actions and functions, outermost first.
    pub actions: Vec<&'static str>,
}

impl Place {
    pub fn is_in(&self, action: &str) -> bool {
        self.actions.contains(&action)
    }
}

/// One scope of a thread.
#[derive(Debug, Clone)]
pub struct Scope {
    pub name: &'static str,
    pub kind: ActionKind,
    pub thread: String,
    pub start: i64,
    pub end: i64,
    pub depth: u16,
    pub direction: Direction,
    pub sequence: u32,
    pub inputs: Option<Vec<TensorShape>>,
    pub place: Option<Place>,
}

impl Scope {
    /// Returns the open actions and functions at the call.
    pub fn actions(&self) -> &[&'static str] {
        &self.place.as_ref().expect("a place").actions
    }
}

/// An event on a device.
#[derive(Debug, Clone)]
pub struct Kernel {
    pub name: &'static str,
    pub activity: DeviceActivity,
    pub method: TimingMethod,
    pub start: i64,
    pub end: i64,
    pub correlation: u32,
    pub place: Option<Place>,
}

/// One recorded cycle.
#[derive(Debug, Clone, Default)]
pub struct Recorded {
    pub scopes: Vec<Scope>,
    pub kernels: Vec<Kernel>,
    /// Changes of memory in bytes, and the allocated bytes after each change.
    pub memory: Vec<(i64, u64)>,
    pub dropped: u64,
}

impl Recorded {
    fn of(cycle: &Cycle) -> Self {
        let place = |context: Option<_>| {
            let place = cycle.context(context?)?;
            let actions = place.actions.iter().map(|action| action.name()).collect();
            Some(Place { step: place.step, thread: place.thread, actions })
        };
        let mut recorded = Self::default();
        for track in cycle.tracks() {
            recorded.scopes.extend(track.events().map(|event| Scope {
                name: event.action.name(),
                kind: event.action.kind(),
                thread: track.thread_name.clone(),
                start: cycle.nanoseconds_since_start(event.start),
                end: cycle.nanoseconds_since_start(event.end),
                depth: event.depth,
                direction: event.direction,
                sequence: event.sequence,
                inputs: ShapeList::inputs(event.shapes),
                place: place(event.context),
            }));
            let changes = track.memory_events().map(|event| event.change);
            recorded.memory.extend(changes.map(|change| (change.bytes, change.total_allocated)));
        }
        recorded.kernels.extend(cycle.device_events.iter().map(|event| Kernel {
            name: event.action.name(),
            activity: event.activity,
            method: event.method,
            start: cycle.nanoseconds_since_start(event.start),
            end: cycle.nanoseconds_since_start(event.end),
            correlation: event.correlation,
            place: place(event.context),
        }));
        let dropped = cycle.dropped;
        recorded.dropped = dropped.events + dropped.memory + dropped.device;
        recorded
    }

    /// Returns the events of ops that the program called.
    pub fn ops(&self) -> impl Iterator<Item = &Scope> {
        self.scopes.iter().filter(|scope| {
            scope.kind == ActionKind::Op && !scope.name.starts_with(mlprof_burn::ops::FUSED)
        })
    }

    pub fn fused(&self) -> impl Iterator<Item = &Scope> {
        self.scopes.iter().filter(|scope| scope.name.starts_with(mlprof_burn::ops::FUSED))
    }

    pub fn launches(&self) -> impl Iterator<Item = &Scope> {
        self.scopes.iter().filter(|scope| scope.kind == ActionKind::Launch)
    }

    pub fn op(&self, name: &str) -> &Scope {
        let found = self.ops().find(|op| op.name == name);
        found.unwrap_or_else(|| panic!("no {name} among {:?}", self.op_counts()))
    }

    pub fn op_counts(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for op in self.ops() {
            *counts.entry(op.name).or_default() += 1;
        }
        counts
    }

    /// Returns `true` if `scope` is inside `outer` on the same thread.
    pub fn is_inside(&self, scope: &Scope, outer: &Scope) -> bool {
        scope.thread == outer.thread && outer.start <= scope.start && scope.end <= outer.end
    }

    /// Returns the op or block of a launch, which is the innermost one that encloses it on its
    /// thread.
    pub fn owner(&self, launch: &Scope) -> Option<&Scope> {
        let is_around =
            |scope: &&Scope| scope.kind == ActionKind::Op && self.is_inside(launch, scope);
        self.scopes.iter().filter(is_around).max_by_key(|scope| scope.depth)
    }

    /// Returns the kernels that were launched inside `scope`.
    pub fn kernels_of(&self, scope: &Scope) -> Vec<&Kernel> {
        let inside = self.launches().filter(|launch| self.is_inside(launch, scope));
        let numbers: Vec<_> = inside.map(|launch| launch.sequence).collect();
        self.kernels.iter().filter(|kernel| numbers.contains(&kernel.correlation)).collect()
    }

    fn work(&self) -> impl Iterator<Item = &Kernel> {
        self.kernels.iter().filter(|kernel| kernel.activity == DeviceActivity::Kernel)
    }

    /// Returns the total time of the program's kernels in nanoseconds.
    pub fn kernel_nanoseconds(&self) -> i64 {
        self.work().map(|kernel| kernel.end - kernel.start).sum()
    }

    /// Returns the start of the first kernel and the end of the last kernel.
    pub fn kernel_span(&self) -> (u64, u64) {
        let first = self.work().map(|kernel| kernel.start).min().unwrap_or(0);
        let last = self.work().map(|kernel| kernel.end).max().unwrap_or(0);
        (first.max(0).unsigned_abs(), last.max(0).unsigned_abs())
    }

    /// Returns `true` if kernels ran one after the other, with a tolerance of one microsecond.
    pub fn kernels_do_not_overlap(&self) -> bool {
        let mut times: Vec<_> = self.work().map(|kernel| (kernel.start, kernel.end)).collect();
        times.sort_unstable();
        times.windows(2).all(|pair| pair[1].0 >= pair[0].1 - 1000)
    }
}

/// Collects cycles when they are complete.
#[derive(Clone, Default)]
pub struct Cycles(Arc<Mutex<Vec<Recorded>>>);

impl Cycles {
    /// Returns `profiler`, with its cycles collected here.
    pub fn of(&self, profiler: TensorProfiler) -> TensorProfiler {
        let cycles = self.0.clone();
        profiler.on_trace_ready(move |cycle| {
            let mut cycles = cycles.lock().unwrap_or_else(PoisonError::into_inner);
            cycles.push(Recorded::of(cycle));
        })
    }

    pub fn take(&self) -> Vec<Recorded> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Returns the software or hardware GPU after registering it with the hook.
pub fn device() -> Device {
    let device = Device::wgpu(burn::tensor::DeviceKind::DefaultDevice);
    assert!(mlprof_burn::ops::install(&device), "{device:?} is a device of CubeCL");
    device
}

/// Serialises recordings, because observers are process-wide.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Records all work of `work`.
pub fn record(timing: DeviceTiming, work: impl FnOnce()) -> Recorded {
    record_with(|profiler| profiler.device_timing(timing), work)
}

/// Records all work of `work` with a profiler modified by `change`.
pub fn record_with(
    change: impl FnOnce(TensorProfiler) -> TensorProfiler,
    work: impl FnOnce(),
) -> Recorded {
    let cycles = Cycles::default();
    let profiler = change(TensorProfiler::new().without_schedule());
    let profiler: Arc<dyn mlprof_core::Profiler> = Arc::new(cycles.of(profiler));
    let run = mlprof_core::RunContext::default();
    profiler.setup(mlprof_core::Stage::Predict, &run);
    let active: Activated = activate(profiler.clone());
    work();
    drop(active);
    profiler.teardown(None);
    let mut cycles = cycles.take();
    assert_eq!(cycles.len(), 1, "one cycle per recording");
    let recorded = cycles.remove(0);
    assert_eq!(recorded.dropped, 0);
    recorded
}

/// Asserts that every kernel belongs to an op or block, is an autotuning trial, or reads a tensor
/// for the requesting thread.
pub fn assert_all_kernels_have_owners(recorded: &Recorded) {
    for kernel in &recorded.kernels {
        if kernel.activity == DeviceActivity::Tuning {
            continue;
        }
        let launch = recorded.launches().find(|launch| launch.sequence == kernel.correlation);
        let launch = launch.unwrap_or_else(|| panic!("no launch of {kernel:?}"));
        let runs_ops = launch.thread.starts_with("DSU-");
        assert!(
            !runs_ops || recorded.owner(launch).is_some(),
            "no owner of {launch:?}, {kernel:?}"
        );
    }
}
