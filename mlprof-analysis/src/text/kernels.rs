//! Kernels of a device by category and by name, as tables.

use std::fmt::Write;

use mlprof_report::internals::shown_within;
use mlprof_report::number::{grouped, share};

use super::cell::LastCell;
use super::{section, section_of_names, time};
use crate::answers::{DeviceAnswers, KernelTimes};

/// The most characters of an op's name.
const OP: usize = 22;

pub(super) fn write(text: &mut String, device: &DeviceAnswers, limit: usize) {
    let number = device.device;
    let of_busy = |part: f64| share(part, 1.0);
    let categories = device.categories.iter().map(|row| {
        [
            time(row.total_ns),
            of_busy(row.busy_share),
            grouped(row.calls),
            row.category.text().to_owned(),
        ]
    });
    let heading =
        format!("Device {number}: kernels by category, and their shares of its busy time");
    section(text, &heading, ["Time", "Share", "Calls", "Category"], categories, limit);
    let rows = device.kernels.iter().map(|row| {
        let cells = [
            time(row.total_ns),
            of_busy(row.busy_share),
            grouped(row.calls),
            time(row.max_ns),
            row.category.text().to_owned(),
            launched_by(row, OP),
            String::new(),
        ];
        (cells, LastCell::Kernel(&row.name))
    });
    let heading = format!("Device {number}: kernels by name");
    let header = ["Time", "Share", "Calls", "Max", "Category", "Op", "Kernel"];
    section_of_names(text, &heading, header, rows, limit);
    if let Some(recomputed) = recomputed_in_words(device) {
        let _ = writeln!(text, "{recomputed}");
    }
}

/// The op that launched a kernel, in at most `room` characters, and the number of others that did.
pub(crate) fn launched_by(row: &KernelTimes, room: usize) -> String {
    let Some(op) = &row.op else { return "-".to_owned() };
    let op = shown_within(op, room);
    match row.ops {
        0 | 1 => op,
        ops => format!("{op} +{}", ops - 1),
    }
}

/// How much of a device's work ran again in backward; `None` if none did.
pub(crate) fn recomputed_in_words(device: &DeviceAnswers) -> Option<String> {
    let again: i64 = device.categories.iter().map(|row| row.recomputed_ns).sum();
    let all: i64 = device.categories.iter().map(|row| row.total_ns).sum();
    (again > 0).then(|| {
        let part = share(again as f64, all as f64);
        format!(
            "Kernels of forward ops that backward runs again took {}, {part} of all.",
            time(again)
        )
    })
}
