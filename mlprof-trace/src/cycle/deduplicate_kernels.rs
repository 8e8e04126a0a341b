//! Deduplication of kernels that two sources report: a framework, which knows the op of each
//! kernel, and the device's driver, which measured the run.

use std::collections::BTreeSet;

use mlprof_events::OrderExt;
use mlprof_events::{DeviceActivity, DeviceEvent, TimingMethod};

/// Merges each pair into one event. Times, stream and configuration are the driver's; name and
/// launch are the framework's. Both sources report kernels in launch order, so they are paired in
/// that order if both report the same number. Otherwise the framework's kernels stay unchanged, and
/// the driver's kernels are removed. Copies and fills reported by the driver always remain.
///
/// Returns the number of removed driver kernels.
pub(super) fn pair(events: &mut Vec<DeviceEvent>) -> u64 {
    let devices: BTreeSet<u32> =
        events.iter().filter(|event| is_of_framework(event)).map(|event| event.device).collect();
    devices.into_iter().map(|device| pair_on(device, events)).sum()
}

/// Returns `true` for a kernel from a framework, which has a launch number. Kernels that autotuning
/// tried are included.
fn is_of_framework(event: &DeviceEvent) -> bool {
    event.method != TimingMethod::Driver
        && event.correlation != 0
        && matches!(event.activity, DeviceActivity::Kernel | DeviceActivity::Tuning)
}

fn is_of_driver(event: &DeviceEvent) -> bool {
    event.method == TimingMethod::Driver && event.activity == DeviceActivity::Kernel
}

/// Returns the indices of a device's events in launch order.
fn launched(
    events: &[DeviceEvent],
    device: u32,
    is_wanted: impl Fn(&DeviceEvent) -> bool,
) -> Vec<usize> {
    let is_it = |place: &usize| events[*place].device == device && is_wanted(&events[*place]);
    let mut places: Vec<usize> = (0..events.len()).filter(is_it).collect();
    places.order_by_key(|place| (events[*place].correlation, events[*place].start));
    places
}

fn pair_on(device: u32, events: &mut Vec<DeviceEvent>) -> u64 {
    let known = launched(events, device, is_of_framework);
    let seen = launched(events, device, is_of_driver);
    if seen.is_empty() {
        return 0;
    }
    let are_paired = known.len() == seen.len();
    if are_paired {
        for (known, seen) in known.iter().zip(&seen) {
            let seen = events[*seen];
            let known = &mut events[*known];
            *known = DeviceEvent {
                action: known.action,
                activity: known.activity,
                correlation: known.correlation,
                context: known.context,
                ..seen
            };
        }
    }
    let gone: std::collections::HashSet<usize> = seen.iter().copied().collect();
    let mut place = 0;
    events.retain(|_| {
        place += 1;
        !gone.contains(&(place - 1))
    });
    if are_paired { 0 } else { seen.len() as u64 }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use mlprof_events::{Action, ActionKind, Timestamp};

    fn event(name: &str, correlation: u32, method: TimingMethod, start: u64) -> DeviceEvent {
        let action = Action::of_kind(ActionKind::Kernel, name, None);
        let (start, end) = (Timestamp::from_ticks(start), Timestamp::from_ticks(start + 5));
        DeviceEvent { correlation, method, ..DeviceEvent::new(action, start, end) }
    }

    #[test]
    fn each_kernel_is_kept_once_with_the_name_of_one_and_the_times_of_the_other() {
        let copy = DeviceEvent {
            activity: DeviceActivity::Copy,
            ..event("copy", 9, TimingMethod::Driver, 1)
        };
        let mut events = vec![
            event("k_mul", 33, TimingMethod::Driver, 70),
            event("mul", 12, TimingMethod::Device, 500),
            event("k_add", 31, TimingMethod::Driver, 60),
            event("add", 11, TimingMethod::None, 0),
            copy,
        ];
        assert_eq!(pair(&mut events), 0);
        let seen: Vec<_> = events
            .iter()
            .map(|event| (event.action.name(), event.correlation, event.start.ticks()))
            .collect();
        assert_eq!(seen, [("mul", 12, 70), ("add", 11, 60), ("copy", 9, 1)]);
        assert!(events.iter().all(|event| event.method == TimingMethod::Driver));
    }

    #[test]
    fn where_the_counts_differ_the_frameworks_stay() {
        let mut events = vec![
            event("k_add", 31, TimingMethod::Driver, 60),
            event("add", 11, TimingMethod::Device, 3),
            event("k_mul", 33, TimingMethod::Driver, 70),
        ];
        assert_eq!(pair(&mut events), 2);
        assert_eq!(events, [event("add", 11, TimingMethod::Device, 3)]);
        let other = DeviceEvent { device: 1, ..event("k", 1, TimingMethod::Driver, 5) };
        let mut events = vec![other, event("add", 11, TimingMethod::Device, 3)];
        assert_eq!((pair(&mut events), events.len()), (0, 2), "on another device");
    }
}
