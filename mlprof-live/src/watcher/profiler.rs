//! Implements the profiler interface of the watcher. It forwards calls to the recording and the
//! followers, and observes stages and steps.

use std::thread;
use std::time::Instant;

use mlprof_core::output::RenderedReport;
use mlprof_core::{
    Action, Inner, Interest, Internals, NeverStarted, Observation, Profiler, RunContext, Stage,
};
use mlprof_events::{OpStart, uncounted};

use super::Watcher;

impl Profiler for Watcher {
    fn start(&self, action: Action) {
        #[cfg(any(feature = "metrics", feature = "otlp"))]
        if let Some(scraped) = self.scraped.get() {
            scraped.start(action);
        }
        self.followed.start(action);
        self.told.tell(|guest| guest.start(action));
    }

    /// Never fails, because an action may have started before the recording began.
    fn stop(&self, action: Action) -> Result<(), NeverStarted> {
        #[cfg(any(feature = "metrics", feature = "otlp"))]
        if let Some(scraped) = self.scraped.get() {
            // The action may have started before counting began.
            let _ = scraped.stop(action);
        }
        self.followed.stop(action);
        self.told.tell(|guest| guest.stop(action)).unwrap_or(Ok(()))
    }

    fn start_op(&self, op: &OpStart<'_>) {
        self.told.tell(|guest| guest.start_op(op));
    }

    fn observe(&self, observation: &Observation<'_>) {
        match observation {
            Observation::StepEnd => {
                uncounted(|| self.step_is_over(thread::current().id(), Instant::now()));
            }
            Observation::StepsPaused => self.pause_steps(),
            Observation::StepsResumed => self.resume_steps(),
            // A recording covers the whole process and belongs to no single training, so it has no
            // use for unattributed work.
            Observation::Unattributed(_) => {}
            _ => drop(self.told.tell(|guest| guest.observe(observation))),
        }
    }

    fn interest(&self) -> Interest {
        let of_guest = self.told.tell(|guest| guest.interest()).unwrap_or(Interest::NONE);
        #[cfg(any(feature = "metrics", feature = "otlp"))]
        let of_guest = match self.scraped.get() {
            Some(scraped) => of_guest | scraped.interest(),
            None => of_guest,
        };
        let of_followers = self.followed.tallies().map_or(Interest::NONE, |_| Interest::ACTIONS);
        of_guest | of_followers
    }

    fn setup(&self, stage: Stage, run: &RunContext) {
        // This must precede the reopening of endpoints, through which a client may follow at once.
        self.forget_parents_clients();
        (self.at_stage)();
        self.change(|trainings, thread| {
            if let (true, Some(tallies)) = (trainings.is_empty(), self.followed.tallies()) {
                tallies.stage_begins();
            }
            trainings.begin(thread, stage, run, Instant::now());
        });
    }

    fn teardown(&self, stage: Option<Stage>) {
        self.change(|trainings, thread| trainings.end(thread, stage));
    }

    fn describe(&self) {
        self.teardown(None);
    }

    fn inner(&self) -> Inner<'_> {
        Inner::internals(self)
    }
}

impl Internals for Watcher {
    /// Returns `true`, so that loops report their steps.
    fn is_enabled(&self) -> bool {
        true
    }

    fn is_open(&self, action: Action) -> bool {
        let is_counted = self.followed.is_open(action);
        #[cfg(any(feature = "metrics", feature = "otlp"))]
        let is_counted =
            is_counted || self.scraped.get().is_some_and(|it| Internals::is_open(it, action));
        is_counted || self.told.tell(|guest| Internals::is_open(guest, action)).unwrap_or(false)
    }

    /// Returns an empty report, because recordings are sent to their requesters.
    fn render(&self) -> RenderedReport {
        RenderedReport::new(String::new(), None)
    }
}

impl Watcher {
    fn pause_steps(&self) {
        let waited = self.followed.take_waited();
        self.change(|trainings, thread| {
            trainings.waited(thread, waited);
            trainings.pause(thread, Instant::now());
        });
    }

    fn resume_steps(&self) {
        // Waiting for data during the pause belongs to another stage, so it is discarded.
        self.followed.take_waited();
        self.change(|trainings, thread| trainings.resume(thread, Instant::now()));
    }
}
