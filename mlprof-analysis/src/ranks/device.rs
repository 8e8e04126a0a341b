//! Device work of a rank by the steps that launched it.

use std::collections::BTreeMap;

use mlprof_report::ranks::Stage;

use crate::answers::WorkKind;
use crate::classify::Meanings;
use crate::device::union::Union;
use crate::device::work::{Device, DeviceWork};
use crate::host::steps::Step;
use crate::trace::Trace;

/// Number of parts.
pub(super) const COUNT: usize = 3;

/// Returns the parts of a device's time: computation, copies that no other work hides, and
/// communication that computation does not hide.
pub(super) fn stages() -> Vec<Stage> {
    let stage = |name: &str, waits_for_others| Stage { name: name.to_owned(), waits_for_others };
    vec![
        stage("computing on the device", false),
        stage("copies on the device", false),
        stage("communication on the device", true),
    ]
}

/// Stretches of device time by kind of work.
#[derive(Debug, Default)]
struct Work {
    compute: Vec<(i64, i64)>,
    communication: Vec<(i64, i64)>,
    memory: Vec<(i64, i64)>,
}

impl Work {
    fn add(&mut self, kind: WorkKind, stretch: (i64, i64)) {
        match kind {
            WorkKind::Compute => self.compute.push(stretch),
            WorkKind::Communication => self.communication.push(stretch),
            WorkKind::Memory => self.memory.push(stretch),
        }
    }

    fn parts(self) -> [i64; COUNT] {
        let compute = Union::of(self.compute);
        let with_communication = compute.or(&Union::of(self.communication));
        let all = with_communication.or(&Union::of(self.memory));
        let communication = with_communication.length() - compute.length();
        [compute.length(), all.length() - with_communication.length(), communication]
    }
}

/// Returns the parts of each step by step number. `None` if the trace has no steps or no device
/// work.
///
/// Work belongs to the step that launched it. Work with an unknown launch is attributed to a step
/// before the trace. If no launch is known at all, work belongs to the step in which it began. Of
/// several devices, the one with the longest computation counts.
pub(super) fn of_steps(
    trace: &Trace,
    meanings: &Meanings,
    steps: &[Step],
) -> Option<Vec<(u64, [i64; COUNT])>> {
    let work = DeviceWork::of(trace, &trace.correlations());
    let mut found: BTreeMap<u64, [i64; COUNT]> =
        steps.iter().filter_map(|step| Some((step.number?, [0; COUNT]))).collect();
    if found.is_empty() || work.devices.is_empty() {
        return None;
    }
    for device in &work.devices {
        for (number, of_step) in by_step(trace, meanings, steps, &work, device) {
            let parts = of_step.parts();
            let longest = found.entry(number).or_default();
            if parts[0] > longest[0] {
                *longest = parts;
            }
        }
    }
    Some(found.into_iter().collect())
}

fn by_step(
    trace: &Trace,
    meanings: &Meanings,
    steps: &[Step],
    work: &DeviceWork,
    device: &Device,
) -> BTreeMap<u64, Work> {
    let step_at = |time: i64| {
        let after = steps.partition_point(|step| step.start() <= time);
        steps.get(after.checked_sub(1)?)?.number
    };
    let places = || device.streams.iter().flat_map(|stream| stream.work.iter().copied());
    let has_launches = places().any(|place| work.call(place).is_some());
    let mut found: BTreeMap<u64, Work> = BTreeMap::new();
    for place in places() {
        let slice = &trace.slices[place as usize];
        let launched = work.call(place).map(|call| trace.slices[call as usize].start);
        let began = if has_launches { launched } else { Some(slice.start) };
        let Some(number) = began.and_then(step_at) else { continue };
        if let Some(kind) = meanings.work(slice) {
            found.entry(number).or_default().add(kind, (slice.start, slice.end()));
        }
    }
    found
}

/// Times in which the devices of a trace compute, communicate, or do any work.
#[derive(Debug)]
pub(super) struct Activity {
    compute: Union,
    with_communication: Union,
    any: Union,
}

impl Activity {
    pub(super) fn of(trace: &Trace, meanings: &Meanings) -> Self {
        let mut work = Work::default();
        for slice in &trace.slices {
            if let Some(kind) = meanings.work(slice) {
                work.add(kind, (slice.start, slice.end()));
            }
        }
        let compute = Union::of(work.compute);
        let with_communication = compute.or(&Union::of(work.communication));
        let any = with_communication.or(&Union::of(work.memory));
        Self { compute, with_communication, any }
    }

    /// Returns how long any device computes or copies within a window, and how long devices
    /// communicate without computing, in nanoseconds.
    pub(super) fn within(&self, window: (i64, i64)) -> (i64, i64) {
        let window = Union::of(vec![window]);
        let length = |of: &Union| of.within(&window).length();
        let communicating = length(&self.with_communication) - length(&self.compute);
        (length(&self.any) - communicating, communicating)
    }
}
