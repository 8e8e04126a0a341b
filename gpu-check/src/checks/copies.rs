//! Compares copies and fills of memory with CUDA events.

use cudarc::driver::sys::CUevent_flags;
use mlprof_core::hook::DeviceActivity;
use mlprof_core::{PassThroughProfiler, Profiler, ProfilerExt};

use super::Shared;
use crate::gpu::{Gpu, explain};
use crate::options::Options;
use crate::outcome::Row;
use crate::recording::{Event, Plan, record};
use crate::statistics::{difference, time};

const BYTES: usize = 256 << 20;
/// Number of consecutive copies of one kind between two events. The device waits for the host
/// before the first copy.
const TIMES: usize = 20;
/// Maximum relative difference between two measurements of one copy.
const PART: f64 = 0.1;
const TO_DEVICE: &str = "host to device";
const ON_DEVICE: &str = "device to device";
const TO_HOST: &str = "device to host";
const FILL: &str = "fill";

pub fn run(_: &Options, shared: &mut Shared) -> Result<Vec<Row>, String> {
    let gpu = shared.gpu()?;
    // The first copies of a process are slower and are not measured.
    copy_all(gpu, &PassThroughProfiler)?;
    let mut by_events = Vec::new();
    let recorded = record(Plan { keeps_events: true, ..Plan::default() }, |profiler| {
        by_events = copy_all(gpu, profiler)?;
        Ok(())
    })?;
    let events = &recorded.recording.events;
    let row = |(name, by_events): (&'static str, f64)| {
        let activity = if name == FILL { DeviceActivity::Fill } else { DeviceActivity::Copy };
        let is_it = |event: &&Event| event.activity == activity && event.actions.contains(&name);
        let found: Vec<&Event> = events.iter().filter(is_it).collect();
        let by_driver: f64 = found.iter().map(|event| event.nanoseconds()).sum();
        let measured = format!(
            "{} records, {} ({:.1} GB/s); CUDA events {}",
            found.len(),
            time(by_driver),
            (TIMES * BYTES) as f64 / by_driver,
            time(by_events)
        );
        let is_good = found.len() == TIMES && difference(by_driver, by_events) <= PART;
        Row::decided(format!("copies: {name}"), measured, "20 records, within 10 %", is_good)
    };
    Ok(by_events.into_iter().map(row).collect())
}

/// Performs each copy inside an action with its name. Returns each copy's duration by CUDA events
/// in nanoseconds.
fn copy_all(gpu: &Gpu, profiler: &dyn Profiler) -> Result<Vec<(&'static str, f64)>, String> {
    let stream = gpu.stream();
    // SAFETY: the uninitialised buffer is only written by CUDA, and it is not read before a copy
    // has filled it.
    let mut host = unsafe { stream.context().alloc_pinned::<u8>(BYTES) }.map_err(explain)?;
    let mut one = stream.alloc_zeros::<u8>(BYTES).map_err(explain)?;
    let mut other = stream.alloc_zeros::<u8>(BYTES).map_err(explain)?;
    gpu.wait()?;
    let mut measured = Vec::new();
    let mut measure = |name, copy: &mut dyn FnMut() -> Result<(), String>| {
        let event = || stream.record_event(Some(CUevent_flags::CU_EVENT_DEFAULT)).map_err(explain);
        let _scope = profiler.profile(name);
        let begin = event()?;
        (0..TIMES).try_for_each(|_| copy())?;
        let end = event()?;
        let milliseconds = begin.elapsed_ms(&end).map_err(explain)?;
        measured.push((name, f64::from(milliseconds) * 1e6));
        Ok::<(), String>(())
    };
    measure(TO_DEVICE, &mut || stream.memcpy_htod(&host, &mut one).map_err(explain))?;
    measure(ON_DEVICE, &mut || stream.memcpy_dtod(&one, &mut other).map_err(explain))?;
    measure(TO_HOST, &mut || stream.memcpy_dtoh(&other, &mut host).map_err(explain))?;
    measure(FILL, &mut || stream.memset_zeros(&mut other).map_err(explain))?;
    Ok(measured)
}
