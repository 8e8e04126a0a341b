//! Replacement for the sampler on unsupported systems and without the feature `sampling`.

use std::time::Duration;

use super::{ReportedSessions, SamplerError, SamplerSettings};
use mlprof_events::live::ThreadStack;
use mlprof_report::samples::Samples;

pub(super) struct Engine(std::convert::Infallible);

fn why_not() -> SamplerError {
    match cfg!(feature = "sampling") {
        true => SamplerError::Unsupported,
        false => SamplerError::NotBuilt,
    }
}

impl Engine {
    pub(super) fn start(_settings: SamplerSettings) -> Result<Self, SamplerError> {
        Err(why_not())
    }

    pub(super) fn can_start() -> Result<(), SamplerError> {
        Err(why_not())
    }

    pub(super) fn samples(&self, _of: Option<&ReportedSessions>) -> Samples {
        match self.0 {}
    }

    pub(super) fn stacks(&self, _patience: Duration) -> Vec<ThreadStack> {
        match self.0 {}
    }

    pub(super) fn enter_session(&self, _current: u64, _alive: &[u64]) {
        match self.0 {}
    }

    pub(super) fn stop(&self) {
        match self.0 {}
    }
}
