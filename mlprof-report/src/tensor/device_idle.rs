//! Idle time of devices between their kernels, by cause.

use serde::Serialize;

use crate::number::grouped;
use crate::table::{Cell, Table, count, digits, markup, seconds, share, table, words};

/// Busy and idle times of a device or one of its streams. Each recorded cycle counts from its first
/// kernel, copy or fill to its last one, and all cycles are summed. Times are in seconds by the
/// device's clock.
///
/// The busy time and the gaps of all causes add up to the window. Concurrent work on several
/// streams counts once.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct DeviceIdle {
    /// Index of the device, from 0.
    pub device: u32,
    /// Id of the stream. `None` for all streams of the device together.
    pub stream: Option<u32>,
    /// Number of kernels, copies and fills.
    pub events: u64,
    /// Time from the start of the first event to the end of the last one, in seconds.
    pub window_seconds: f64,
    /// Part of the window in which any of the events ran, in seconds.
    pub busy_seconds: f64,
    /// Gaps before work that the host launched when the device was already idle. The host was late.
    pub host_wait: IdleGaps,
    /// Gaps below 30 µs before work that was launched in time. They are the overhead of the launch
    /// itself.
    pub launch: IdleGaps,
    /// Longer gaps before work that was launched in time. The work waited for another stream, a
    /// copy or an event.
    pub other: IdleGaps,
    /// Gaps before work with an unknown launch time.
    pub unknown: IdleGaps,
}

/// Gaps of one cause.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct IdleGaps {
    /// Number of gaps.
    pub count: u64,
    /// Total duration of the gaps in seconds.
    pub seconds: f64,
    /// Duration of the longest gap in seconds.
    pub longest_seconds: f64,
}

impl DeviceIdle {
    /// Returns the gaps by cause, each with the name of the cause.
    pub fn causes(&self) -> [(&'static str, IdleGaps); 4] {
        [
            ("host late", self.host_wait),
            ("launch", self.launch),
            ("other", self.other),
            ("unknown", self.unknown),
        ]
    }

    /// Returns the total duration of all gaps in seconds.
    pub fn idle_seconds(&self) -> f64 {
        self.causes().iter().map(|(_, gaps)| gaps.seconds).sum()
    }

    /// Returns a label such as `0`, or `0, stream 7`.
    pub(crate) fn label(&self) -> String {
        match self.stream {
            Some(stream) => format!("{}, stream {stream}", self.device),
            None => self.device.to_string(),
        }
    }
}

/// Names of the bar colours, by index.
const COLOURS: [&str; 7] = ["host late", "busy", "", "", "other", "launch", "unknown"];

/// Returns the table of busy and idle times.
pub(crate) fn table(devices: &[DeviceIdle]) -> Table {
    let caption = "Busy and idle time by the devices’ own clocks; the causes add up to the idle \
                   time";
    let table = table!(caption, devices, |device| {
        let window = device.window_seconds;
        let [busy, idle] = [device.busy_seconds, device.idle_seconds()];
        let [host, launch, other, unknown] = device.causes().map(|(_, gaps)| gaps.seconds);
        let colours = [(1, busy), (0, host), (5, launch), (4, other), (6, unknown)];
        let longest = device.causes().map(|(_, gaps)| gaps.longest_seconds);
        words("Device", "Number of the device, and of its stream").key() => device.label(),
        markup("Parts", "Parts of the window: busy time, then the gaps by cause") =>
            Cell::Bar(colours.map(|(colour, part)| (colour, part / window)).to_vec()),
        digits(4, "Window", "Time from the first to the last kernel of each recording") => window,
        digits(3, "Busy", "Time in which a kernel, copy or fill ran") => Cell::Part(busy, window),
        share("Busy, share", "Share of the window").on_page() => (window > 0.0).then_some(busy / window),
        digits(3, "Idle", "Time in which nothing ran: the sum of the causes") => Cell::Part(idle, window),
        digits(
            3,
            "Host late",
            "Gaps before work that was launched when the device was already idle",
        ) => Cell::Part(host, window),
        digits(3, "Launch", "Gaps below 30 µs before work that was launched in time") =>
            Cell::Part(launch, window),
        digits(3, "Other", "Longer gaps before work that was launched in time") =>
            Cell::Part(other, window),
        digits(3, "Unknown", "Gaps before work with an unknown launch").optional() =>
            Cell::Part(unknown, window),
        seconds("Longest gap", "Longest gap of any cause").on_page() =>
            longest.into_iter().fold(0.0, f64::max),
        count("Events", "Number of kernels, copies and fills").on_page() => device.events,
    });
    table.name_last().legend(COLOURS)
}

/// Returns the table as text, or an empty string if no kernel was timed.
pub(crate) fn paint(devices: &[DeviceIdle]) -> String {
    if devices.is_empty() {
        return String::new();
    }
    let events: u64 =
        devices.iter().filter(|device| device.stream.is_none()).map(|device| device.events).sum();
    format!(
        "Device idle time by cause ({} kernels and copies)\n{}Window: from the first to the last \
         kernel of each recording. Host late: launched when the device was already idle.\nLaunch: \
         gaps below 30 µs before work that was launched in time; other: longer gaps.\n",
        grouped(events),
        table(devices).text(usize::MAX),
    )
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_what_a_device_waited_for() {
        let gaps = |count, seconds| IdleGaps { count, seconds, longest_seconds: seconds };
        let device = DeviceIdle {
            device: 0,
            stream: None,
            events: 1234,
            window_seconds: 1.0,
            busy_seconds: 0.25,
            host_wait: gaps(3, 0.5),
            launch: gaps(1000, 0.01),
            other: gaps(2, 0.24),
            unknown: IdleGaps::default(),
        };
        assert_eq!(paint(&[]), "");
        let text = paint(&[device, DeviceIdle { stream: Some(7), ..device }]);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "Device idle time by cause (1,234 kernels and copies)");
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let expected = "1.000 s 250 ms 25.00 % 750 ms 75.00 % 500 ms 50.00 % 10.0 ms 1.00 % 240 ms \
                        24.00 %";
        assert_eq!(words(lines[3]), words(&format!("{expected} 0")), "{text}");
        assert_eq!(words(lines[4]), words(&format!("{expected} 0, stream 7")), "{text}");
        assert!(!text.contains("Unknown") && text.lines().all(|line| line.chars().count() <= 120));
    }
}
