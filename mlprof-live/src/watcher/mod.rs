//! Profiler that observes all stages and steps, and receives other events only during a recording.

mod profiler;

use std::sync::mpsc::Sender;
use std::sync::{Arc, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use mlprof_core::spliced::why_no_steps;
use mlprof_core::{Profiler, ProfilerExt, RunContext, Stage, hook};
use mlprof_events::forking::{Mutex, MutexGuard};
use mlprof_events::live::{Activity, RecordRequest, TrainingState};
use mlprof_events::uncounted;

use crate::recording::{AttachedProfiler, News, Recording};
use crate::recording_target::RecordingTarget;
use crate::requester::{Busy, Requester};
use crate::tallies::{Followed, Tallies};
use crate::trainings::Trainings;

/// Time after a cancellation in which only the user may request recordings. Otherwise another
/// client could immediately occupy the process again.
const RESERVED: Duration = Duration::from_secs(10);

/// The watcher; see the [module](self).
pub(crate) struct Watcher {
    /// Function that is called whenever a stage begins.
    at_stage: fn(),
    /// Target of forwarded events during a recording.
    told: RecordingTarget,
    /// Profiler that counts actions for metrics, created on the first request.
    #[cfg(any(feature = "metrics", feature = "otlp"))]
    scraped: std::sync::OnceLock<mlprof_core::SimpleProfiler>,
    followed: Followed,
    /// State of the watcher. The lock is also held while steps are forwarded to the recording
    /// profiler, which must receive them from one thread at a time.
    control: Mutex<Control>,
}

#[derive(Default)]
struct Control {
    /// Id of the process that the other fields belong to, or 0 before the first request. A forked
    /// child has none of its parent's clients.
    process: u32,
    trainings: Trainings,
    recording: Option<Recording>,
    /// Number of the last recording.
    last: u64,
    /// Time until which only the user may request a recording.
    reserved_until: Option<Instant>,
    /// Number of clients that follow actions.
    followers: usize,
}

/// RAII guard for a following client. While it lives, actions are counted and devices are queried.
pub(crate) struct Following(Arc<Watcher>, Arc<Tallies>);

impl Following {
    /// Returns the recent activity of the threads.
    pub(crate) fn activity(&self) -> Activity {
        uncounted(|| self.1.activity())
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        uncounted(|| {
            let mut control = self.0.control();
            control.followers -= 1;
            if control.followers == 0 {
                self.0.followed.end();
                hook::interest_changed();
            }
        });
    }
}

impl Watcher {
    /// Creates a watcher. `at_stage` is called whenever a stage begins.
    pub(crate) fn new(at_stage: fn()) -> Self {
        Self {
            at_stage,
            told: RecordingTarget::default(),
            #[cfg(any(feature = "metrics", feature = "otlp"))]
            scraped: std::sync::OnceLock::new(),
            followed: Followed::default(),
            control: Mutex::default(),
        }
    }

    fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts counting actions, for as long as the returned guard lives.
    pub(crate) fn follow_actions(self: &Arc<Self>) -> Following {
        // A client may follow a forked child before its first stage begins.
        self.forget_parents_clients();
        uncounted(|| {
            let mut control = self.control();
            let tallies = self.followed.tallies().unwrap_or_else(|| self.followed.begin());
            control.followers += 1;
            hook::interest_changed();
            Following(self.clone(), tallies)
        })
    }

    /// Returns the running trainings, and `true` if a recording is active.
    pub(crate) fn states(&self) -> (Vec<TrainingState>, bool) {
        let control = self.control();
        (control.trainings.states(Instant::now()), control.recording.is_some())
    }

    /// Starts counting actions for metrics.
    #[cfg(any(feature = "metrics", feature = "otlp"))]
    pub(crate) fn count_actions(&self) {
        self.scraped.get_or_init(mlprof_core::SimpleProfiler::aside);
        hook::interest_changed();
    }

    /// Returns the durations of actions, if they are counted.
    #[cfg(any(feature = "metrics", feature = "otlp"))]
    pub(crate) fn durations(&self) -> Vec<mlprof_core::ActionDurations> {
        self.scraped.get().map(|scraped| scraped.durations()).unwrap_or_default()
    }

    /// Returns the step durations of this process, by stage and rank.
    #[cfg(any(feature = "metrics", feature = "otlp"))]
    pub(crate) fn step_durations(&self) -> crate::trainings::StepDurations {
        self.control().trainings.step_durations.clone()
    }

    /// Requests a recording and returns its number. Its events are sent to `news`.
    ///
    /// # Errors
    ///
    /// Returns an error if another recording is active, or if the user has just cancelled one.
    pub(crate) fn record(
        &self,
        wishes: RecordRequest,
        requester: Requester,
        news: Sender<News>,
    ) -> Result<u64, Busy> {
        self.forget_parents_clients();
        let mut control = self.control();
        let asked = Instant::now();
        if let Some(other) = &control.recording {
            return Err(Busy::UnderWay {
                requester: other.requester,
                since: other.asked.elapsed(),
                has_begun: other.guest.is_some(),
            });
        }
        let reserved = control.reserved_until.and_then(|until| until.checked_duration_since(asked));
        match (requester, reserved) {
            (Requester::Capture | Requester::Dynolog, Some(left)) => {
                return Err(Busy::Reserved { left });
            }
            _ => control.reserved_until = None,
        }
        control.last += 1;
        let number = control.last;
        let from = asked + wishes.until_start();
        let recording = Recording { number, wishes, requester, asked, from, news, guest: None };
        control.recording = Some(recording);
        Ok(number)
    }

    /// Cancels the active recording at the user's request. Returns a description of its requester
    /// and age.
    pub(crate) fn cancel_any(&self) -> Option<String> {
        uncounted(|| {
            let mut control = self.control();
            let recording = control.recording.as_ref()?;
            let seconds = recording.asked.elapsed().as_secs_f64();
            let told = format!("requested by {} {seconds:.1} s ago", recording.requester);
            control.reserved_until = Some(Instant::now() + RESERVED);
            self.end(&mut control, vec!["the user cancelled the recording".to_owned()]);
            Some(told)
        })
    }

    /// Cancels a recording for its requester. Does nothing if the recording is already over.
    pub(crate) fn cancel(&self, number: u64) {
        uncounted(|| {
            let mut control = self.control();
            if control.recording.as_ref().is_some_and(|recording| recording.number == number) {
                self.end(&mut control, Vec::new());
            }
        });
    }

    /// Ends the active recording, if any, with `why` as a note.
    pub(crate) fn end_any(&self, why: &str) {
        uncounted(|| self.end(&mut self.control(), vec![why.to_owned()]));
    }

    /// Ends a recording that has not begun in time. Also begins and ends a recording of a time if
    /// no step does so. A background thread must call this periodically.
    pub(crate) fn look_at_clock(&self, number: u64) {
        uncounted(|| {
            let mut control = self.control();
            let recording = control.recording.as_mut().filter(|it| it.number == number);
            if let Some(why) = recording.as_ref().and_then(|it| it.expired(Instant::now())) {
                return self.take_away(&mut control, vec![why]);
            }
            let Some((recording, time)) = recording.and_then(|it| it.time().map(|time| (it, time)))
            else {
                return;
            };
            // A program that cannot report steps is recorded at once.
            let patience = if why_no_steps().is_some() { Duration::ZERO } else { time };
            match &recording.guest {
                None if recording.from.elapsed() >= patience => {
                    let guest = recording.guest_for_time(Instant::now());
                    self.begin(recording, guest, None);
                }
                Some(guest) if guest.of.is_none() && guest.began.elapsed() >= time => {
                    let note =
                        "the recording has no steps, because no step began in the requested time";
                    self.end(&mut control, vec![note.to_owned()]);
                }
                Some(guest) if guest.began.elapsed() >= time * 2 => {
                    let note = "the last step is incomplete, because it took longer than the requested time";
                    self.end(&mut control, vec![note.to_owned()]);
                }
                _ => {}
            }
        });
    }

    fn begin(
        &self,
        recording: &mut Recording,
        guest: AttachedProfiler,
        stage: Option<(Stage, &RunContext)>,
    ) {
        let profiler = guest.profiler.clone();
        recording.guest = Some(guest);
        self.told.begin(profiler.clone());
        if let Some((stage, run)) = stage {
            profiler.setup(stage, run);
        }
        hook::interest_changed();
        let _ = recording.news.send(News::Began);
    }

    /// Ends a recording with its data so far, and removes it.
    fn end(&self, control: &mut Control, notes: Vec<String>) {
        if let Some(guest) = control.recording.as_ref().and_then(|it| it.guest.as_ref()) {
            guest.profiler.teardown(None);
        }
        self.take_away(control, notes);
    }

    fn take_away(&self, control: &mut Control, notes: Vec<String>) {
        let Some(recording) = control.recording.take() else { return };
        self.told.end();
        hook::interest_changed();
        let guest = recording.guest.map(|guest| guest.profiler);
        let _ = recording.news.send(News::Over(notes, guest));
    }

    /// Handles the end of a step, which may begin or end a recording.
    fn step_is_over(&self, thread: ThreadId, now: Instant) {
        let mut control = self.control();
        let Control { trainings, recording, .. } = &mut *control;
        trainings.waited(thread, self.followed.take_waited());
        let Some(running) = trainings.step(thread, now).map(|training| training.top()) else {
            return;
        };
        if let Some(tallies) = self.followed.tallies() {
            tallies.step();
        }
        let Some(recording) = recording else { return };
        let Some(guest) = &recording.guest else {
            // The batches of a sanity check are not worth recording, because it is not a training.
            if running.stage == Some(Stage::SanityCheck) {
                return;
            }
            if recording.may_begin(running.steps, now) {
                let guest = recording.guest_for_steps(running.number, running.steps, now);
                self.begin(recording, guest, running.stage.map(|stage| (stage, &running.run)));
            } else if let Some(missed) = recording.missed(running.steps) {
                let at = running.steps;
                let note =
                    format!("cannot begin at step {missed}: the training is already at step {at}");
                self.take_away(&mut control, vec![note]);
            }
            return;
        };
        if guest.of != Some(running.number) {
            return;
        }
        guest.profiler.step();
        let is_over = recording.time().is_some_and(|time| guest.began.elapsed() >= time);
        if guest.is_full() {
            self.take_away(&mut control, Vec::new());
        } else if is_over {
            self.end(&mut control, Vec::new());
        }
    }

    /// Pauses, resumes or ends the recording after stages or pauses have changed.
    fn follow(&self, control: &mut Control) {
        let Control { trainings, recording, .. } = &mut *control;
        let Some(guest) = recording.as_mut().and_then(|it| it.guest.as_mut()) else { return };
        let Some(of) = guest.of else { return };
        match trainings.goes_on(of) {
            None => self.end(control, vec!["the stage ended during the recording".to_owned()]),
            Some(true) if guest.is_paused => {
                guest.is_paused = false;
                guest.profiler.resume();
            }
            Some(false) if !guest.is_paused => {
                guest.is_paused = true;
                guest.profiler.pause();
            }
            Some(_) => {}
        }
    }

    /// Removes the parent's followers and recording in a forked child.
    fn forget_parents_clients(&self) {
        uncounted(|| {
            let mut control = self.control();
            let before = std::mem::replace(&mut control.process, std::process::id());
            if before == control.process || before == 0 {
                return;
            }
            control.followers = 0;
            self.followed.end();
            self.told.end();
            // The recording is leaked in the child. The parent's client thread waits for it, and
            // frees it there.
            std::mem::forget(control.recording.take());
            hook::interest_changed();
        });
    }

    fn change(&self, change: impl FnOnce(&mut Trainings, ThreadId)) {
        uncounted(|| {
            let mut control = self.control();
            change(&mut control.trainings, thread::current().id());
            self.follow(&mut control);
        });
    }
}

#[cfg(test)]
mod tests;
