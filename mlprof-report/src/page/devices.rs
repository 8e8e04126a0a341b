//! HTML of device counters and idle times.

use super::Part;
use super::limits::Limits;
use crate::number::{duration, grouped};
use crate::tensor::{DeviceCounterStatistics, DeviceIdle, device_counters, device_idle};

/// Writes a table per device, with a row per action and a column per counter.
pub(super) fn write(html: &mut String, devices: &[DeviceCounterStatistics], part: &Part) {
    for device in devices {
        if device.samples == 0 {
            continue;
        }
        let interval = device
            .interval_seconds
            .map_or_else(String::new, |seconds| format!(", one every {}", duration(seconds)));
        let id = format!("device-{}", device.device);
        part.heading(html, &id, &format!("Device {}", device.device));
        let caption = format!("Means of {} samples{interval}", grouped(device.samples));
        let limits = Limits { rows: part.limits.rows + 1, ..part.limits };
        device_counters::table(device).caption(caption).write(html, limits);
    }
}

/// Writes a table of the busy and idle times of devices, by cause.
pub(super) fn write_idle(html: &mut String, devices: &[DeviceIdle], part: &Part) {
    if !devices.is_empty() {
        part.heading(html, "idle", "Devices: busy, and idle by cause");
        device_idle::table(devices).write(html, part.limits);
    }
}
