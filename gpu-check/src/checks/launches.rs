//! Checks kernels of several threads, and kernels of a replayed graph.

use std::thread;

use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use mlprof_core::hook::DeviceActivity;
use mlprof_core::{Profiler, ProfilerExt};

use super::Shared;
use crate::gpu::{Gpu, Kernel, explain};
use crate::options::Options;
use crate::outcome::Row;
use crate::recording::{Event, Plan, Recorded, record};

/// Action names of the threads.
const THREADS: [&str; 4] = ["thread 0", "thread 1", "thread 2", "thread 3"];
/// Kernels per thread.
const KERNELS: u64 = 2_000;
const CAPTURE: &str = "capture";
const REPLAY: &str = "replay";
/// Kernels in the graph.
const CAPTURED: u64 = 10;
/// Launches of the graph.
const REPLAYS: u64 = 50;

pub fn run(_: &Options, shared: &mut Shared) -> Result<Vec<Row>, String> {
    let gpu = shared.gpu()?;
    Ok(vec![threads()?, graph(gpu)?])
}

/// Returns the number of kernels inside an action.
fn kernels_in(recorded: &Recorded, action: &str) -> u64 {
    let is_inside = |event: &&Event| {
        event.activity == DeviceActivity::Kernel && event.actions.contains(&action)
    };
    recorded.recording.events.iter().filter(is_inside).count() as u64
}

fn threads() -> Result<Row, String> {
    let recorded = record(Plan { keeps_events: true, ..Plan::default() }, |profiler| {
        thread::scope(|scope| {
            let launch = |name| scope.spawn(move || launch_inside(profiler, name));
            let threads = THREADS.map(launch);
            let join = |thread: thread::ScopedJoinHandle<'_, Result<(), String>>| {
                thread.join().unwrap_or_else(|_| Err("a thread panicked".to_owned()))
            };
            threads.into_iter().try_for_each(join)
        })
    })?;
    let counts = THREADS.map(|name| kernels_in(&recorded, name));
    let measured = format!("{counts:?} kernels of four threads, each with its own stream");
    let is_good = counts == [KERNELS; THREADS.len()];
    Ok(Row::decided("launches: threads", measured, format!("{KERNELS} each"), is_good))
}

fn launch_inside(profiler: &dyn Profiler, name: &'static str) -> Result<(), String> {
    let gpu = Gpu::open()?;
    let _scope = profiler.profile(name);
    gpu.launch(Kernel::Empty, KERNELS)?;
    gpu.wait()
}

fn graph(gpu: &Gpu) -> Result<Row, String> {
    let recorded = record(Plan { keeps_events: true, ..Plan::default() }, |profiler| {
        let graph = {
            let _scope = profiler.profile(CAPTURE);
            let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
            gpu.stream().begin_capture(mode).map_err(explain)?;
            let launched = gpu.launch(Kernel::Spin, CAPTURED);
            let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
            let graph = gpu.stream().end_capture(flags).map_err(explain)?;
            launched?;
            graph.ok_or("nothing was captured")?
        };
        let _scope = profiler.profile(REPLAY);
        for _ in 0..REPLAYS {
            graph.launch().map_err(explain)?;
        }
        gpu.wait()
    })?;
    let (captured, replayed) = (kernels_in(&recorded, CAPTURE), kernels_in(&recorded, REPLAY));
    let measured = format!("{captured} kernels of the capture, {replayed} of {REPLAYS} replays");
    let wanted = CAPTURED * REPLAYS;
    let is_good = captured == 0 && replayed == wanted;
    Ok(Row::decided("launches: graph", measured, format!("0 and {wanted}"), is_good))
}
