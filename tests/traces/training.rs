//! Simulates a training by sending the events that a plugin would report for two ranks with one GPU
//! each.

use std::path::Path;
use std::time::{Duration, Instant};

use mlprof_core::hook::{
    CounterSample, DType, DeviceActivity, DeviceCounter, DeviceEvent, Direction, InputsBuilder,
    MemoryChange, MemoryDevice, OpStart, Timestamp,
};
use mlprof_core::tensor::{Schedule, trace_handler};
use mlprof_core::{
    Action, ActionKind, Observation, Profiler, ProfilerExt, RunContext, Stage, TensorProfiler,
};

/// Number of recorded steps.
pub const STEPS: u64 = 3;
/// Layers of the model, each with a forward op, a backward op and a kernel.
pub const LAYERS: u32 = 4;
/// Duration of each kernel in microseconds.
pub const KERNEL_US: u64 = 300;
/// Size of each copy in bytes.
pub const BATCH: u64 = 1 << 20;

/// Number of steps before the recorded ones.
const UNRECORDED: usize = 2;

/// The training of one rank.
struct Training<'profiler> {
    profiler: &'profiler TensorProfiler,
    correlation: u32,
    steps: u32,
    /// Time at which the device completes its queued work.
    busy_until: Instant,
    /// Start of each step on the device.
    begins: Vec<Instant>,
    allocated: u64,
}

/// Trains as `rank` of two and writes one trace to `directory`. Returns `true` if the device began
/// the first recorded step only after the host had begun the last one. This is the normal case
/// unless the host is delayed. The results differ for a device that keeps up with the host.
pub fn record(directory: &Path, rank: u32) -> bool {
    let worker = format!("worker{rank}");
    let profiler = TensorProfiler::new()
        .schedule(Schedule::new().wait(1).warmup(UNRECORDED as u64 - 1).active(STEPS).repeat(1))
        .profile_memory(true)
        .with_flops(true)
        .with_stack(true)
        .on_trace_ready(trace_handler(directory, Some(&worker), true));
    let run = RunContext::default().with_rank(rank, 2);
    profiler.setup(Stage::Fit, &run);
    let busy_until = Instant::now();
    let begins = Vec::new();
    let mut training = Training {
        profiler: &profiler,
        correlation: 0,
        steps: 0,
        busy_until,
        begins,
        allocated: 0,
    };
    let (first, last) = (UNRECORDED, UNRECORDED + STEPS as usize - 1);
    let mut is_behind = false;
    for step in 0..=last + 1 {
        if step == last {
            is_behind = training.begins[first] > Instant::now();
        }
        training.step();
        profiler.step();
    }
    profiler.teardown(None);
    is_behind
}

fn spin(microseconds: u64) {
    let start = Instant::now();
    while start.elapsed() < Duration::from_micros(microseconds) {
        std::hint::spin_loop();
    }
}

impl Training<'_> {
    fn step(&mut self) {
        let profiler = self.profiler;
        {
            let _scope = profiler.profile("[_TrainingEpochLoop].train_dataloader_next");
            spin(50);
            self.launch(
                "cuMemcpyHtoDAsync_v2",
                "Memcpy HtoD (Pageable -> Device)",
                DeviceActivity::Copy,
            );
        }
        {
            let _scope = profiler.profile("[Strategy]SingleDevice.training_step");
            for layer in 1..=LAYERS {
                let module = Action::module("Linear", &format!("layers.{layer}"));
                let _module = profiler.profile(module);
                self.op("aten::linear", layer, Direction::Forward);
            }
        }
        {
            let _scope = profiler.profile("[Strategy]SingleDevice.backward");
            for layer in (1..=LAYERS).rev() {
                self.op("AddmmBackward0", layer, Direction::Backward);
            }
        }
        // The second device is idle.
        for device in [0, 1] {
            for counter in DeviceCounter::ALL {
                let (time, value) = (Timestamp::now(), 37.5);
                profiler.observe(&Observation::DeviceCounter(&CounterSample {
                    time,
                    device,
                    counter,
                    value,
                }));
            }
        }
        let _scope = profiler.profile("optimizer_step \"sgd\"\u{1}");
        self.launch("cuMemsetD8Async", "Memset (Device)", DeviceActivity::Fill);
        spin(50);
        self.steps += 1;
    }

    fn op(&mut self, name: &str, layer: u32, direction: Direction) {
        let mut inputs = InputsBuilder::new();
        inputs.tensor(DType::Float32, &[64, 128]);
        inputs.tensor(DType::Float32, &[128, 10]);
        inputs.not_a_tensor();
        let mut op = OpStart::new(Action::op(name));
        op.inputs = Some(&inputs);
        let sequence = self.steps * LAYERS + layer;
        (op.sequence, op.direction, op.forward_thread) = (sequence, direction, 1);
        self.profiler.start_op(&op);
        let inner = Action::op("aten::addmm");
        self.profiler.start(inner);
        self.allocate(1 << 16);
        self.launch("cuLaunchKernel", "sgemm_128x64", DeviceActivity::Kernel);
        self.allocate(-(1 << 16));
        self.profiler.stop(inner).expect("it was started");
        self.profiler.stop(op.action).expect("it was started");
    }

    fn allocate(&mut self, bytes: i64) {
        self.allocated = self.allocated.saturating_add_signed(bytes);
        self.profiler.observe(&Observation::Memory(&MemoryChange {
            address: 0x7f00_0000_0000,
            bytes,
            total_allocated: self.allocated,
            total_reserved: 1 << 20,
            device: MemoryDevice::Accelerator(0),
        }));
    }

    /// Launches work that runs when the device has completed its earlier work.
    fn launch(&mut self, api: &str, name: &str, activity: DeviceActivity) {
        self.correlation += 1;
        let action = Action::of_kind(ActionKind::Launch, api, None);
        let launch = OpStart::launch(action, self.correlation);
        self.profiler.start_op(&launch);
        spin(5);
        self.profiler.stop(action).expect("it was started");
        let start = self.busy_until.max(Instant::now()) + Duration::from_micros(20);
        if self.begins.len() == self.steps as usize {
            self.begins.push(start);
        }
        self.busy_until = start + Duration::from_micros(KERNEL_US);
        let kernel = Action::of_kind(ActionKind::Kernel, name, None);
        let (start, end) = (Timestamp::at(start), Timestamp::at(self.busy_until));
        self.profiler.observe(&Observation::DeviceEvent(&DeviceEvent {
            activity,
            correlation: self.correlation,
            bytes: if activity == DeviceActivity::Copy { BATCH } else { 0 },
            ..DeviceEvent::new(kernel, start, end)
        }));
    }
}
