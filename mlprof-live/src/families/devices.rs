//! Metrics of devices, if a hook provides their counters.

use mlprof_core::hook::{CounterSample, DeviceCounter};

use super::Labels;
use super::family::{Family, Kind, Value};

/// Returns one family per counter. A counter without samples has no metrics.
pub(super) fn families(samples: &[CounterSample], labels: &Labels) -> Vec<Family> {
    let of_counter = |counter| {
        let (name, help, unit) = shown(counter);
        let mut family = Family::new(name, Kind::Gauge, help);
        for sample in samples.iter().filter(|sample| sample.counter == counter) {
            let mut labels = labels.clone();
            labels.push(("device", sample.device.to_string()));
            family.add(labels, Value::Number(sample.value * unit));
        }
        family
    };
    DeviceCounter::ALL.into_iter().map(of_counter).collect()
}

/// Returns the metric name, the help text, and the factor that converts a sample to the metric's
/// unit.
fn shown(counter: DeviceCounter) -> (&'static str, &'static str, f64) {
    match counter {
        DeviceCounter::GpuUtilization => (
            "mlprof_device_utilization_ratio",
            "Share of the last sampling interval in which a kernel ran on the device.",
            0.01,
        ),
        DeviceCounter::MemoryUtilization => (
            "mlprof_device_memory_utilization_ratio",
            "Share of the last sampling interval in which the device memory was read or written.",
            0.01,
        ),
        DeviceCounter::MemoryUsed => {
            ("mlprof_device_memory_used_bytes", "Device memory used by all processes.", 1.0)
        }
        DeviceCounter::Power => ("mlprof_device_power_watts", "Power draw of the device.", 1.0),
        DeviceCounter::Temperature => {
            ("mlprof_device_temperature_celsius", "Temperature of the device.", 1.0)
        }
        DeviceCounter::SmClock => {
            ("mlprof_device_sm_clock_hertz", "Clock of the device's compute units.", 1e6)
        }
        DeviceCounter::MemoryClock => {
            ("mlprof_device_memory_clock_hertz", "Clock of the device memory.", 1e6)
        }
    }
}

#[cfg(test)]
mod tests {
    use mlprof_core::hook::Timestamp;

    use super::*;

    #[test]
    fn a_counter_is_a_metric_and_each_device_a_series() {
        let time = Timestamp::now();
        let sample = |device, counter, value| CounterSample { time, device, counter, value };
        let samples = [
            sample(0, DeviceCounter::GpuUtilization, 50.0),
            sample(1, DeviceCounter::GpuUtilization, 75.0),
            sample(1, DeviceCounter::SmClock, 1980.0),
        ];
        let families = families(&samples, &vec![("rank", "2".to_owned())]);
        let series = |name: &str| -> Vec<(String, f64)> {
            let family = families.iter().find(|family| family.name == name).expect("a family");
            let of = |metric: &super::super::family::Metric| {
                assert_eq!(metric.labels[0], ("rank", "2".to_owned()));
                let Value::Number(number) = metric.value else { panic!("{metric:?}") };
                (metric.labels[1].1.clone(), number)
            };
            family.metrics.iter().map(of).collect()
        };
        let expected = [("0".to_owned(), 0.5), ("1".to_owned(), 0.75)];
        assert_eq!(series("mlprof_device_utilization_ratio"), expected);
        assert_eq!(series("mlprof_device_sm_clock_hertz"), [("1".to_owned(), 1.98e9)]);
        assert!(series("mlprof_device_power_watts").is_empty());
    }
}
