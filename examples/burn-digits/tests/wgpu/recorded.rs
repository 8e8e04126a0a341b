//! What the Tensor profiler recorded, in a form that tests can ask.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use burn::tensor::Device;
use mlprof_core::hook::{DeviceActivity, Direction, ShapeList, TensorShape, TimingMethod};
use mlprof_core::tensor::{Cycle, DeviceTiming};
use mlprof_core::{ActionKind, Activated, TensorProfiler, activate};

/// Where an op was called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub step: u64,
    pub thread: u64,
    /// What was open, the outermost first.
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
    /// What was open where it was called.
    pub fn actions(&self) -> &[&'static str] {
        &self.place.as_ref().expect("a place").actions
    }
}

/// Something on a device.
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

/// One cycle.
#[derive(Debug, Clone, Default)]
pub struct Recorded {
    pub scopes: Vec<Scope>,
    pub kernels: Vec<Kernel>,
    /// Changes of memory, in bytes, and what was allocated after them.
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

    /// The events of ops that the program called.
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

    /// Whether `scope` is inside `outer`, on the same thread.
    pub fn is_inside(&self, scope: &Scope, outer: &Scope) -> bool {
        scope.thread == outer.thread && outer.start <= scope.start && scope.end <= outer.end
    }

    /// The op or block that a launch was made for: the innermost one around it on its thread.
    pub fn owner(&self, launch: &Scope) -> Option<&Scope> {
        let is_around =
            |scope: &&Scope| scope.kind == ActionKind::Op && self.is_inside(launch, scope);
        self.scopes.iter().filter(is_around).max_by_key(|scope| scope.depth)
    }

    /// The kernels that were launched inside `scope`.
    pub fn kernels_of(&self, scope: &Scope) -> Vec<&Kernel> {
        let inside = self.launches().filter(|launch| self.is_inside(launch, scope));
        let numbers: Vec<_> = inside.map(|launch| launch.sequence).collect();
        self.kernels.iter().filter(|kernel| numbers.contains(&kernel.correlation)).collect()
    }

    fn work(&self) -> impl Iterator<Item = &Kernel> {
        self.kernels.iter().filter(|kernel| kernel.activity == DeviceActivity::Kernel)
    }

    /// Nanoseconds of the kernels that did the program's work.
    pub fn kernel_nanoseconds(&self) -> i64 {
        self.work().map(|kernel| kernel.end - kernel.start).sum()
    }

    /// When the first kernel began and the last one ended.
    pub fn kernel_span(&self) -> (u64, u64) {
        let first = self.work().map(|kernel| kernel.start).min().unwrap_or(0);
        let last = self.work().map(|kernel| kernel.end).max().unwrap_or(0);
        (first.max(0).unsigned_abs(), last.max(0).unsigned_abs())
    }

    /// Whether kernels ran one after the other, to a microsecond.
    pub fn kernels_do_not_overlap(&self) -> bool {
        let mut times: Vec<_> = self.work().map(|kernel| (kernel.start, kernel.end)).collect();
        times.sort_unstable();
        times.windows(2).all(|pair| pair[1].0 >= pair[0].1 - 1000)
    }
}

/// Cycles as they are finished.
#[derive(Clone, Default)]
pub struct Cycles(Arc<Mutex<Vec<Recorded>>>);

impl Cycles {
    /// `profiler`, whose cycles come here.
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

/// The software or hardware GPU, known to the hook.
pub fn device() -> Device {
    let device = Device::wgpu(burn::tensor::DeviceKind::DefaultDevice);
    assert!(mlprof_burn::ops::install(&device), "{device:?} is a device of CubeCL");
    device
}

/// One recording at a time: observers are the whole process's.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Records all that `work` does.
pub fn record(timing: DeviceTiming, work: impl FnOnce()) -> Recorded {
    record_with(|profiler| profiler.device_timing(timing), work)
}

/// Records all that `work` does with a profiler that was changed by `change`.
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

/// Every kernel was launched for an op or a block, is a trial, or reads a tensor back for the thread
/// that asked for it.
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
