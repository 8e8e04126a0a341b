//! The watcher as a profiler beside all others: it passes calls on to the recording and the
//! followers, and learns of stages and steps.

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

    /// Never fails: what was started before the recording began is not known to it.
    fn stop(&self, action: Action) -> Result<(), NeverStarted> {
        #[cfg(any(feature = "metrics", feature = "otlp"))]
        if let Some(scraped) = self.scraped.get() {
            // It may have been started before it was counted.
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
            // The recording is of whatever runs, and belongs to no training.
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
        // Before endpoints are opened anew, at which somebody may follow.
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
    /// Loops must tell of their steps.
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

    /// Nothing: what is recorded goes to whoever asked for it.
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
        // What waited for data meanwhile was not the training.
        self.followed.take_waited();
        self.change(|trainings, thread| trainings.resume(thread, Instant::now()));
    }
}
