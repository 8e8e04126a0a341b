//! The Advanced profiler with samples beside its exact numbers.

use super::AdvancedProfiler;
use crate::report::samples::Samples;
use crate::sampler::{ReportedSessions, Sampler, SamplerSettings};

/// A running sampler, or why there is none.
pub(super) type Sampling = Result<Sampler, String>;

impl AdvancedProfiler {
    /// Also samples the stacks of all threads, so many times a second: estimates for the code that
    /// nothing instruments, below the exact table of each action. From here until the profiler is
    /// dropped; see [`sampler`](crate::sampler) for what is measured, and how.
    ///
    /// A sample counts for every action that its thread had open, if this profiler is the one that
    /// the thread recorded with last. Samples of other threads, such as the workers of a library's
    /// thread pool, are in a table of their own. `.prof` files have exact numbers only.
    ///
    /// Where the system does not let it, or another sampler runs, the report says so and has no
    /// samples.
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
        self.sampling = None; // ends one that is running
        self.sampling = Some(Sampler::start(settings).map_err(|error| format!("{error:?}")));
        self.sample_session();
        self
    }

    /// Whether stacks are sampled.
    pub(super) fn sampling_in_words(&self) -> &'static str {
        match &self.sampling {
            None => "none",
            Some(Ok(_)) => "of all threads",
            Some(Err(_)) => "asked for, and not to be had",
        }
    }

    /// What was sampled in the sessions that are reported now.
    pub(super) fn samples(&self) -> Option<Samples> {
        Some(match self.sampling.as_ref()? {
            Ok(sampler) => {
                let sessions = self.recorder.session_numbers().reported;
                sampler.samples_of(&ReportedSessions { sessions })
            }
            Err(reason) => Samples::of_nothing(reason),
        })
    }

    /// Tells the sampler which session runs now.
    pub(super) fn sample_session(&self) {
        if let Some(Ok(sampler)) = &self.sampling {
            let numbers = self.recorder.session_numbers();
            sampler.enter_session(numbers.current, &numbers.alive);
        }
    }
}
