//! The watcher as a profiler beside all others: it passes calls on to the recording and the
//! followers, and learns of stages and steps.

use std::sync::Arc;
use std::thread;
use std::time::Instant;

use mlprof_core::output::RenderedReport;
use mlprof_core::{Action, Interest, NeverStarted, Observation, Profiler, RunContext, Stage};
use mlprof_events::{OpStart, RegionSink, uncounted};

use super::Watcher;

impl Profiler for Watcher {
    fn is_guarded(&self) -> bool {
        true
    }

    fn separates_sanity_check(&self) -> bool {
        true
    }

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

    fn is_open(&self, action: Action) -> bool {
        let is_counted = self.followed.is_open(action);
        #[cfg(any(feature = "metrics", feature = "otlp"))]
        let is_counted = is_counted || self.scraped.get().is_some_and(|it| it.is_open(action));
        is_counted || self.told.tell(|guest| guest.is_open(action)).unwrap_or(false)
    }

    fn start_op(&self, op: &OpStart<'_>) {
        self.told.tell(|guest| guest.start_op(op));
    }

    fn observe(&self, observation: &Observation<'_>) {
        self.told.tell(|guest| guest.observe(observation));
    }

    fn region_sink(&self) -> Option<Arc<dyn RegionSink>> {
        self.told.tell(|guest| guest.region_sink()).flatten()
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

    /// Loops must tell of their steps.
    fn is_enabled(&self) -> bool {
        true
    }

    fn step(&self) {
        uncounted(|| self.step_is_over(thread::current().id(), Instant::now()));
    }

    fn pause(&self) {
        let waited = self.followed.take_waited();
        self.change(|trainings, thread| {
            trainings.waited(thread, waited);
            trainings.pause(thread, Instant::now());
        });
    }

    fn resume(&self) {
        // What waited for data meanwhile was not the training.
        self.followed.take_waited();
        self.change(|trainings, thread| trainings.resume(thread, Instant::now()));
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

    /// Nothing: what is recorded goes to whoever asked for it.
    fn render(&self) -> RenderedReport {
        RenderedReport::new(String::new(), None)
    }

    fn describe(&self) {
        self.teardown(None);
    }
}
