//! Stack samples in addition to the exact numbers of the Advanced profiler.

use super::AdvancedProfiler;
use crate::report::samples::Samples;
use crate::sampler::{ReportedSessions, Sampler, SamplerSettings};

/// A running sampler, or the reason why sampling is unavailable.
pub(super) type Sampling = Result<Sampler, String>;

impl AdvancedProfiler {
    /// Samples the stacks of all threads at this frequency in hertz, in addition to the exact
    /// numbers. Samples estimate the time of code that is not instrumented, below the exact table
    /// of each action. Sampling runs until the profiler is dropped. See [`sampler`](crate::sampler)
    /// for the method.
    ///
    /// A sample counts for every action that its thread had open, if the thread last recorded with
    /// this profiler. Samples of other threads, such as the workers of a library's thread pool, are
    /// in a separate table. `.prof` files contain only exact numbers.
    ///
    /// If the system does not permit sampling or another sampler is running, the report has no
    /// samples and gives the reason.
    ///
    /// ```
    /// use mlprof_core::{AdvancedProfiler, Profiler, ProfilerExt};
    ///
    /// let profiler = AdvancedProfiler::new().sampled(1000);
    /// {
    ///     let _step = profiler.profile("training_step");
    ///     // … work of any library …
    /// }
    /// profiler.describe();
    /// # assert!(profiler.summary().contains("Profile stats for: training_step"));
    /// ```
    #[must_use]
    pub fn sampled(mut self, settings: impl Into<SamplerSettings>) -> Self {
        self.sampling = None; // stops a running sampler
        self.sampling = Some(Sampler::start(settings).map_err(|error| format!("{error:?}")));
        self.sample_session();
        self
    }

    /// Returns the report's words for the sampling mode.
    pub(super) fn sampling_in_words(&self) -> &'static str {
        match &self.sampling {
            None => "none",
            Some(Ok(_)) => "of all threads",
            Some(Err(_)) => "requested, but not available",
        }
    }

    /// Returns the samples of the sessions that are reported now.
    pub(super) fn samples(&self) -> Option<Samples> {
        Some(match self.sampling.as_ref()? {
            Ok(sampler) => {
                let sessions = self.recorder.session_numbers().reported;
                sampler.samples_of(&ReportedSessions { sessions })
            }
            Err(reason) => Samples::of_nothing(reason),
        })
    }

    /// Passes the number of the running session to the sampler.
    pub(super) fn sample_session(&self) {
        if let Some(Ok(sampler)) = &self.sampling {
            let numbers = self.recorder.session_numbers();
            sampler.enter_session(numbers.current, &numbers.alive);
        }
    }
}
