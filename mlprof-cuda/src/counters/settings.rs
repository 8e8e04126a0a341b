//! Sampling rate and device selection.

use std::time::Duration;

/// Environment variable that enables sampling without a code change.
const VARIABLE: &str = "MLPROF_DEVICE_COUNTERS";

/// Error for a number that is not a valid sampling rate.
#[derive(Clone, Copy, PartialEq, thiserror::Error)]
#[error("cannot sample device counters {0} times per second: use a rate from 0.01 to 1000")]
pub struct InvalidRate(pub f64);

mlprof_events::debug_as_display!(InvalidRate);

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Settings {
    /// Samples per second.
    pub(super) hertz: f64,
    /// Selected CUDA device ids. `None` selects all devices.
    pub(super) devices: Option<Vec<u32>>,
}

impl Settings {
    pub(super) const DEFAULT: Self = Self { hertz: 10.0, devices: None };

    pub(super) fn check(&self) -> Result<(), InvalidRate> {
        let is_rate = (0.01..=1000.0).contains(&self.hertz);
        is_rate.then_some(()).ok_or(InvalidRate(self.hertz))
    }

    /// Returns the time between two samples.
    pub(super) fn interval(&self) -> Duration {
        Duration::from_secs_f64(1.0 / self.hertz)
    }

    pub(super) fn includes(&self, device: u32) -> bool {
        self.devices.as_ref().is_none_or(|devices| devices.contains(&device))
    }

    /// Returns the settings from the environment. `None` if the environment does not enable
    /// sampling.
    pub(super) fn from_environment() -> Option<Result<Self, String>> {
        Self::parse(&std::env::var_os(VARIABLE)?.to_string_lossy())
    }

    /// Returns `true` if the environment turns counters off explicitly, instead of leaving the
    /// variable unset.
    pub(super) fn are_off_in_environment() -> bool {
        let text = std::env::var_os(VARIABLE).unwrap_or_default();
        matches!(text.to_string_lossy().trim(), "0" | "off")
    }

    fn parse(text: &str) -> Option<Result<Self, String>> {
        let text = text.trim();
        if matches!(text, "" | "0" | "off") {
            return None;
        }
        let settings = text.parse().map(|hertz| Self { hertz, ..Self::DEFAULT }).ok();
        let settings = settings.filter(|settings| settings.check().is_ok());
        Some(settings.ok_or_else(|| {
            format!(
                "no device counters: {VARIABLE}={text} is not a sampling rate; set it to 0.01 to 1000 samples \
                 per second"
            )
        }))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_environment_has_a_rate_or_nothing() {
        for nothing in ["", " ", "0", "off"] {
            assert_eq!(Settings::parse(nothing), None, "{nothing:?}");
        }
        let ten = Settings::parse(" 10 ").expect("something").expect("a rate");
        assert_eq!(ten, Settings::DEFAULT);
        assert_eq!(ten.interval(), Duration::from_millis(100));
        for wrong in ["fast", "-1", "NaN", "inf", "1e9", "0.0001"] {
            let error = Settings::parse(wrong).expect("something").expect_err(wrong);
            assert!(error.contains(&format!("MLPROF_DEVICE_COUNTERS={wrong}")), "{error}");
        }
    }

    #[test]
    fn devices_are_all_or_those_that_were_named() {
        assert!(Settings::DEFAULT.includes(7));
        let some = Settings { devices: Some(vec![0, 2]), ..Settings::DEFAULT };
        assert_eq!([0, 1, 2].map(|device| some.includes(device)), [true, false, true]);
    }
}
