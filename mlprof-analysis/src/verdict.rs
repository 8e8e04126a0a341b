//! One sentence about a trace: what bounds it, and how its time is divided.

use mlprof_report::number::percent;

use crate::analysis::Analysis;
use crate::answers::{Activity, DeviceAnswers, StreamIdle};
use crate::findings::DEVICE_IDLE;

/// Share of the device time spent computing above which a trace is called device-bound.
const DEVICE_BOUND: f64 = 0.8;
/// Share of exposed communication above which a trace is called communication-bound.
const COMMUNICATION_BOUND: f64 = 0.2;
/// Share of step time that waits for data above which a trace is called data-bound.
const DATA_BOUND: f64 = 0.2;
/// Share of step time in ops above which a trace without devices is called compute-bound.
const COMPUTE_BOUND: f64 = 0.5;

impl Analysis {
    /// Returns one sentence about the trace: which part bounds it, and how the time of its devices,
    /// or of its steps, is divided. Returns `None` for a trace without devices and steps.
    ///
    /// *Shares* of several devices are those of all devices together.
    pub fn verdict(&self) -> Option<String> {
        self.device_verdict().or_else(|| self.host_verdict())
    }

    fn device_verdict(&self) -> Option<String> {
        let sum = |part: fn(&DeviceAnswers) -> i64| self.devices.iter().map(part).sum::<i64>();
        let window = sum(|device| device.times.window_ns);
        if window <= 0 {
            return None;
        }
        let share = |part| sum(part) as f64 / window as f64;
        let computing = share(|device| device.times.compute_ns);
        let communication = share(|device| device.times.exposed_communication_ns);
        let copies = share(|device| device.times.exposed_memory_ns);
        let idle = (1.0 - computing - communication - copies).max(0.0);
        let waiting = self.share_waiting_for_data().unwrap_or(0.0);
        let bound = if computing >= DEVICE_BOUND {
            "Device-bound"
        } else if communication >= COMMUNICATION_BOUND && communication >= idle {
            "Communication-bound"
        } else if waiting >= DATA_BOUND {
            "Data-bound"
        } else if self.waits_for_host() {
            "Host-bound"
        } else {
            "No single bound"
        };
        let subject = match self.devices.len() {
            1 => format!("device {} computes", self.devices[0].device),
            count => format!("{count} devices compute"),
        };
        Some(format!(
            "{bound}: {subject} {} of the time, {} exposed communication, {} exposed copies, {} \
             idle.",
            percent(computing),
            percent(communication),
            percent(copies),
            percent(idle)
        ))
    }

    /// Returns `true` if a finding states that devices wait for launches, or if at least half of
    /// the idle time of each device's busiest stream is a wait for the host.
    fn waits_for_host(&self) -> bool {
        if self.findings.iter().any(|finding| finding.rule == DEVICE_IDLE) {
            return true;
        }
        let busiest = |device: &DeviceAnswers| {
            device.streams.iter().max_by_key(|stream| stream.busy_ns).map(is_starved)
        };
        self.devices.iter().filter_map(busiest).all(|is_starved| is_starved)
    }

    fn host_verdict(&self) -> Option<String> {
        let data = self.share_waiting_for_data()?;
        let ops = self.share_of(Activity::Op);
        let device = self.share_of(Activity::WaitingForDevice);
        let bound = if data >= DATA_BOUND {
            "Data-bound"
        } else if ops >= COMPUTE_BOUND {
            "Compute-bound"
        } else {
            "Bound by work outside of ops"
        };
        let other = (1.0 - ops - data - device).max(0.0);
        let device = if device >= 0.005 {
            format!("{} waiting for a device, ", percent(device))
        } else {
            String::new()
        };
        Some(format!(
            "{bound}: {} of a step in ops, {} waiting for data, {device}{} other.",
            percent(ops),
            percent(data),
            percent(other)
        ))
    }

    /// Returns the share of all steps that waits for data. Returns `None` without steps.
    fn share_waiting_for_data(&self) -> Option<f64> {
        let whole: i64 = self.steps.iter().map(|step| step.duration_ns).sum();
        let waiting: i64 = self.steps.iter().map(|step| step.waiting_for_data_ns).sum();
        (self.has_steps() && whole > 0).then(|| waiting as f64 / whole as f64)
    }

    /// Returns the share of all steps with this activity.
    fn share_of(&self, activity: Activity) -> f64 {
        let whole: i64 = self.all_steps.iter().map(|part| part.duration_ns).sum();
        let own = self.all_steps.iter().filter(|part| part.activity == activity);
        own.map(|part| part.duration_ns).sum::<i64>() as f64 / whole.max(1) as f64
    }
}

/// Returns `true` if at least half of the stream's idle time is a wait for the host.
fn is_starved(stream: &StreamIdle) -> bool {
    2 * stream.waiting_for_host_ns >= stream.span_ns - stream.busy_ns
}
