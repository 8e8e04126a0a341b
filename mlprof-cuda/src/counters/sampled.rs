//! Repeated sampling of one device.

use mlprof_core::hook::{CounterSample, DeviceCounter, Timestamp};

/// Counters that are read with one NVML call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// GPU and memory utilization.
    Utilization,
    Memory,
    Power,
    Temperature,
    SmClock,
    MemoryClock,
}

const ALL: [Reading; 6] = [
    Reading::Utilization,
    Reading::Memory,
    Reading::Power,
    Reading::Temperature,
    Reading::SmClock,
    Reading::MemoryClock,
];

/// Reason why there is no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoValue {
    /// The device does not support the counter, or the process lacks permission. Later reads would
    /// fail too.
    Never,
    /// The value is temporarily unavailable.
    Now,
    /// The device is lost.
    Lost,
}

/// Device interface, implemented for NVML and for tests.
pub(super) trait Device {
    /// Reads the counters of `reading` and passes each value to `show`.
    fn read(
        &self,
        reading: Reading,
        show: &mut dyn FnMut(DeviceCounter, f64),
    ) -> Result<(), NoValue>;
}

/// Device with its supported counters.
pub(super) struct Sampled<D> {
    /// CUDA device id.
    number: u32,
    device: D,
    /// Readings that the device may support.
    readings: Vec<Reading>,
}

impl<D: Device> Sampled<D> {
    pub(super) fn new(number: u32, device: D) -> Self {
        Self { number, device, readings: ALL.to_vec() }
    }

    pub(super) const fn number(&self) -> u32 {
        self.number
    }

    /// Reads all supported counters and appends them to `samples`. All values get the time of the
    /// last response.
    ///
    /// # Errors
    ///
    /// Returns an error if the device is lost. Later calls do not query it again.
    pub(super) fn sample(&mut self, samples: &mut Vec<CounterSample>) -> Result<(), DeviceLost> {
        // Preliminary time, which is replaced after the last reading.
        let time = Timestamp::now();
        let (first, device) = (samples.len(), self.number);
        let mut is_lost = false;
        self.readings.retain(|reading| {
            if is_lost {
                return false;
            }
            let mut show = |counter, value| {
                samples.push(CounterSample { time, device, counter, value });
            };
            match self.device.read(*reading, &mut show) {
                Ok(()) | Err(NoValue::Now) => true,
                Err(NoValue::Never) => false,
                Err(NoValue::Lost) => {
                    is_lost = true;
                    false
                }
            }
        });
        let time = Timestamp::now();
        samples[first..].iter_mut().for_each(|sample| sample.time = time);
        if is_lost {
            self.readings.clear();
            return Err(DeviceLost(device));
        }
        Ok(())
    }
}

/// Error of a device that has fallen off the bus or must be reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("device {0} is lost, so its counters end here")]
pub(super) struct DeviceLost(u32);

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Device that returns prepared results and records the requested readings.
    struct Fake {
        power: RefCell<Vec<Result<f64, NoValue>>>,
        asked: RefCell<Vec<Reading>>,
    }

    impl Device for &Fake {
        fn read(
            &self,
            reading: Reading,
            show: &mut dyn FnMut(DeviceCounter, f64),
        ) -> Result<(), NoValue> {
            self.asked.borrow_mut().push(reading);
            match reading {
                Reading::Utilization => {
                    show(DeviceCounter::GpuUtilization, 50.0);
                    show(DeviceCounter::MemoryUtilization, 25.0);
                    Ok(())
                }
                Reading::Power => {
                    let answer = self.power.borrow_mut().remove(0)?;
                    show(DeviceCounter::Power, answer);
                    Ok(())
                }
                _ => Err(NoValue::Never),
            }
        }
    }

    #[test]
    fn missing_counters_are_queried_once() {
        let power = vec![Ok(300.0), Err(NoValue::Now), Ok(301.0), Err(NoValue::Lost)];
        let fake = Fake { power: RefCell::new(power), asked: RefCell::default() };
        let mut sampled = Sampled::new(3, &fake);
        let mut samples = Vec::new();
        for _ in 0..3 {
            sampled.sample(&mut samples).expect("it is there");
        }
        assert_eq!(fake.asked.borrow().len(), ALL.len() + 2 + 2);
        let power: Vec<f64> = samples
            .iter()
            .filter(|sample| sample.counter == DeviceCounter::Power)
            .map(|sample| sample.value)
            .collect();
        assert_eq!(power, [300.0, 301.0]);
        assert_eq!(samples.len(), 3 * 2 + 2);
        assert!(samples.iter().all(|sample| sample.device == 3));
        assert_eq!(samples[0].time, samples[2].time, "of one time");
        assert_eq!(sampled.sample(&mut samples), Err(DeviceLost(3)));
        let asked = fake.asked.borrow().len();
        sampled.sample(&mut samples).expect("said once");
        assert_eq!(fake.asked.borrow().len(), asked, "not asked again");
    }
}
