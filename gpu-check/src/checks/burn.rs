//! Compares CUPTI's kernel times with burn's own for a training with burn.

use burn::cubecl::future::block_on;
use burn::tensor::{Device, ProfileOptions};
use mlprof_core::hook::{DeviceActivity, TimingMethod};
use mlprof_core::{ActionKind, ProfilerExt};

use super::Shared;
use super::regions::PART;
use crate::network::{Training, device};
use crate::options::Options;
use crate::outcome::Row;
use crate::pairs::Comparison;
use crate::recording::{Event, Plan, Recorded, record};
use crate::statistics::{difference, time};

/// Number of recorded steps.
pub const STEPS: u64 = 3;
/// Number of earlier steps, in which kernels are compiled and autotuned.
const WARM_UP: usize = 10;
/// Number of steps of the large network between two CUDA events. They are long enough that the
/// host's work before the first kernel is negligible.
const LARGE_STEPS: usize = 8;

/// Recorded steps of the small network, with burn's hooks installed.
pub struct Steps {
    pub recorded: Recorded,
    /// Folder of the trace, which is deleted when this is dropped.
    pub folder: tempfile::TempDir,
}

impl Shared {
    /// Records the steps on the first call and returns them.
    pub(super) fn steps(&mut self) -> Result<&Steps, String> {
        let steps = match self.steps.take() {
            Some(steps) => steps,
            None => record_steps()?,
        };
        Ok(self.steps.insert(steps))
    }
}

fn wait(device: &Device) -> Result<(), String> {
    device.sync().map_err(|error| format!("burn: {error:?}"))
}

fn record_steps() -> Result<Steps, String> {
    let device = device();
    if !mlprof_burn::ops::install(&device) {
        return Err(format!("burn does not report the ops of {device:?}"));
    }
    let mut training = Training::small(&device);
    for _ in 0..WARM_UP {
        training.step();
    }
    wait(&device)?;
    // This recording is discarded. It absorbs the initial cost of recording and the remaining
    // autotuning.
    record(Plan { steps: Some(2), ..Plan::default() }, |profiler| {
        for _ in 0..2 {
            training.step();
            wait(&device)?;
            profiler.step();
        }
        Ok(())
    })?;
    let folder = tempfile::tempdir()
        .map_err(|error| format!("cannot create a temporary folder: {error}"))?;
    let trace = folder.path().join("worker0.1.pt.trace.json.gz");
    let plan =
        Plan { steps: Some(STEPS), keeps_events: true, trace: Some(trace), ..Plan::default() };
    let recorded = record(plan, |profiler| {
        for _ in 0..STEPS {
            training.step();
            // The wait is like that of a training that reads its loss. Otherwise, all kernels would
            // run in the last step.
            wait(&device)?;
            profiler.step();
        }
        Ok(())
    })?;
    Ok(Steps { recorded, folder })
}

/// Returns the kernels reported by the driver, or those reported by burn, in launch order.
fn kernels(recorded: &Recorded, by_driver: bool) -> Vec<&Event> {
    let is_it = |event: &&Event| {
        event.is_of_driver == by_driver && event.activity == DeviceActivity::Kernel
    };
    let mut kernels: Vec<_> = recorded.recording.told.iter().filter(is_it).collect();
    kernels.sort_by_key(|event| (event.correlation, event.start));
    kernels
}

/// Checks that CUPTI reports as many kernels as burn launched, and that the report merges both.
pub fn counted(_: &Options, shared: &mut Shared) -> Result<Vec<Row>, String> {
    let recorded = &shared.steps()?.recorded;
    let (driver, burn) = (kernels(recorded, true).len(), kernels(recorded, false).len());
    let told = &recorded.recording.told;
    let tried = told.iter().filter(|event| event.activity == DeviceActivity::Tuning).count();
    let measured =
        format!("CUPTI {driver}, LaunchObserver {burn} in {STEPS} steps; {tried} more from tuning");
    let count =
        Row::decided("burn: kernels counted", measured, "equal", driver == burn && burn > 0);

    let has_note = recorded.has_note("with different counts") || recorded.recording.told_twice > 0;
    let rows = &recorded.report.key_averages.rows;
    let has_time = rows.iter().filter(|row| row.kind == ActionKind::Op && row.device_seconds > 0.0);
    let (fused, single): (Vec<_>, Vec<_>) =
        has_time.partition(|row| row.name.starts_with(mlprof_burn::ops::FUSED));
    let measured = format!(
        "{} ops and {} fused blocks have device time; {} note that counts differ",
        single.len(),
        fused.len(),
        if has_note { "a" } else { "no" }
    );
    let is_good = !has_note && !single.is_empty() && !fused.is_empty();
    let limit = "at least one of both, no note";
    let report = Row::decided("burn: ops in the report", measured, limit, is_good);
    Ok(vec![count, report])
}

/// Compares CUPTI's time of each kernel with burn's.
pub fn times(_: &Options, shared: &mut Shared) -> Result<Vec<Row>, String> {
    let name = "burn: kernel times";
    let recorded = &shared.steps()?.recorded;
    let (driver, burn) = (kernels(recorded, true), kernels(recorded, false));
    if driver.len() != burn.len() {
        return Ok(vec![Row::failed(name, "cannot pair the kernels: their numbers differ")]);
    }
    let pairs: Vec<(f64, f64)> = burn
        .iter()
        .zip(&driver)
        .filter(|(burn, _)| burn.method == TimingMethod::Device)
        .map(|(burn, driver)| (burn.nanoseconds(), driver.nanoseconds()))
        .collect();
    let comparison = Comparison::of(&pairs);
    let limit = "none shorter by both 2 % and 1 µs";
    Ok(vec![Row::decided(name, comparison.words(), limit, comparison.is_good())])
}

/// Compares the time between two CUDA events around several steps with the kernels between them.
/// cubecl places the events in its stream. burn's hooks are not installed, because they would add
/// events around each kernel.
pub fn step(_: &Options, _: &mut Shared) -> Result<Vec<Row>, String> {
    let device = device();
    let mut training = Training::large(&device);
    for _ in 0..WARM_UP {
        training.step();
    }
    wait(&device)?;
    let mut window = None;
    let plan = Plan { keeps_events: true, ..Plan::default() };
    let recorded = record(plan, |_| {
        let own = device.clone().inner();
        let steps = || (0..LARGE_STEPS).for_each(|_| training.step());
        let measured = own.profile_with(ProfileOptions::default().flush(), steps);
        let ((), duration) = measured.map_err(|error| format!("burn: {error:?}"))?;
        wait(&device)?;
        window = block_on(duration.resolve());
        Ok(())
    })?;
    let window = window.ok_or("burn measured no time for the steps")?.duration().as_nanos() as f64;
    let work: Vec<&Event> =
        recorded.recording.events.iter().filter(|event| event.activity.is_device_work()).collect();
    let first = work.iter().map(|event| event.start).min();
    let last = work.iter().map(|event| event.end).max();
    let (Some(first), Some(last)) = (first, last) else {
        return Err("no kernel was collected".to_owned());
    };
    let (span, busy) = ((last - first) as f64, work.iter().map(|event| event.nanoseconds()).sum());
    let measured = format!(
        "{LARGE_STEPS} steps: events {}, first kernel to last {} ({} of it busy, {} kernels)",
        time(window),
        time(span),
        time(busy),
        work.len()
    );
    let is_good = difference(span, window) <= PART;
    Ok(vec![Row::decided("burn: step and CUDA events", measured, "within 5 %", is_good)])
}
