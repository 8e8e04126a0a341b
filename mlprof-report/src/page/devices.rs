//! What devices' counters showed.

use super::Part;
use super::limits::Limits;
use crate::number::{duration, grouped};
use crate::tensor::{DeviceCounterStatistics, DeviceIdle, device_counters, device_idle};

/// A table per device: a row per action, a column per counter.
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

/// Writes a table of what devices waited for.
pub(super) fn write_idle(html: &mut String, devices: &[DeviceIdle], part: &Part) {
    if !devices.is_empty() {
        part.heading(html, "idle", "Devices: busy, and idle by cause");
        device_idle::table(devices).write(html, part.limits);
    }
}
