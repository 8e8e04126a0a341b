//! Where nothing can be sampled: on other systems, and without the feature.

use super::{ReportedSessions, SamplerError, SamplerSettings};
use profiler_report::samples::Samples;

pub(super) struct Engine(std::convert::Infallible);

impl Engine {
    pub(super) fn start(_settings: SamplerSettings) -> Result<Self, SamplerError> {
        Err(match cfg!(feature = "sampling") {
            true => SamplerError::Unsupported,
            false => SamplerError::NotBuilt,
        })
    }

    pub(super) fn samples(&self, _of: Option<&ReportedSessions>) -> Samples {
        match self.0 {}
    }

    pub(super) fn enter_session(&self, _current: u64, _alive: &[u64]) {
        match self.0 {}
    }

    pub(super) fn stop(&self) {
        match self.0 {}
    }
}
