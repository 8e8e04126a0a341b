//! Recording on demand: its Tensor profiler and its state.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use mlprof_core::tensor::{Cycle, Schedule};
use mlprof_core::{Interest, Output, TensorProfiler};
use mlprof_events::live::RecordRequest;

use crate::requester::Requester;

/// Number of steps that no recording of a time reaches.
const WITHOUT_END: u64 = 1 << 40;

/// Maximum number of events in one recording, which take 160 MiB.
const MAX_EVENTS: u64 = 1 << 22;

/// Event of a recording, sent to its requester.
pub(crate) enum News {
    Began,
    Cycle(Box<Cycle>),
    /// The recording is over; contains notes and the profiler. The receiver drops the profiler, so
    /// that no training thread has to.
    Over(Vec<String>, Option<Arc<TensorProfiler>>),
}

/// Requested recording.
pub(crate) struct Recording {
    pub(crate) number: u64,
    pub(crate) wishes: RecordRequest,
    pub(crate) requester: Requester,
    pub(crate) asked: Instant,
    /// Earliest time at which the recording may begin.
    pub(crate) from: Instant,
    pub(crate) news: Sender<News>,
    /// Recording profiler, once the recording has begun.
    pub(crate) guest: Option<AttachedProfiler>,
}

/// Profiler that performs the recording.
pub(crate) struct AttachedProfiler {
    pub(crate) profiler: Arc<TensorProfiler>,
    /// Number of the recorded stage; `None` if everything is recorded, without steps.
    pub(crate) of: Option<u64>,
    pub(crate) began: Instant,
    /// Set while another stage interrupts the recorded steps.
    pub(crate) is_paused: bool,
    /// Set when all requested steps are recorded.
    is_full: Arc<AtomicBool>,
}

impl Recording {
    /// Returns the reason for giving up if the recording has not begun in time.
    pub(crate) fn expired(&self, now: Instant) -> Option<String> {
        let patience = self.requester.patience();
        let is_late = now.saturating_duration_since(self.from) >= patience;
        if self.guest.is_some() || !is_late {
            return None;
        }
        let minutes = patience.as_secs() / 60;
        let first =
            self.wishes.first_step.map(|first| format!(" (the first requested step was {first})"));
        Some(format!(
            "no requested step began within {minutes} minutes{}",
            first.unwrap_or_default()
        ))
    }

    /// Returns the requested duration of a recording of a time.
    pub(crate) fn time(&self) -> Option<Duration> {
        self.wishes.milliseconds.map(Duration::from_millis)
    }

    fn warmup(&self) -> u64 {
        self.wishes.warmup.unwrap_or_default().max(1)
    }

    /// Returns `true` if the recording can begin with the given step. In a recording of steps, this
    /// is a warmup step.
    pub(crate) fn may_begin(&self, step: u64, now: Instant) -> bool {
        let RecordRequest { first_step, multiple_of, exactly, .. } = self.wishes;
        let first = step.saturating_add(self.warmup());
        let is_named = first_step == Some(first);
        let is_late = first_step.is_none_or(|named| first > named);
        let is_multiple = multiple_of.is_none_or(|multiple| first.is_multiple_of(multiple));
        now >= self.from && (is_named || is_late && is_multiple && !exactly)
    }

    /// Returns the requested first step if it can no longer be reached when the given step begins,
    /// and no other step is acceptable.
    pub(crate) fn missed(&self, step: u64) -> Option<u64> {
        let first = step.saturating_add(self.warmup());
        self.wishes.first_step.filter(|named| self.wishes.exactly && first > *named)
    }

    /// Creates a profiler for the steps of a stage, beginning with the given step.
    pub(crate) fn guest_for_steps(&self, of: u64, step: u64, now: Instant) -> AttachedProfiler {
        // A recording of steps discards its first step, in which hooks are enabled. A recording of
        // a time has no warmup, because its time may be short.
        let schedule = match self.wishes.steps {
            Some(steps) => Schedule::new().warmup(self.warmup()).active(steps),
            None => Schedule::new().warmup(0).active(WITHOUT_END),
        };
        let schedule = schedule.skip_first(step).wait(0).repeat(1);
        let profiler = TensorProfiler::new().schedule(schedule).begin_at_step(step);
        self.guest(profiler, Some(of), now)
    }

    /// Creates a profiler that records all events, without steps.
    pub(crate) fn guest_for_time(&self, now: Instant) -> AttachedProfiler {
        self.guest(TensorProfiler::new().without_schedule(), None, now)
    }

    fn guest(&self, profiler: TensorProfiler, of: Option<u64>, now: Instant) -> AttachedProfiler {
        let is_full = Arc::new(AtomicBool::new(false));
        let (news, has_cycle) = (self.news.clone(), is_full.clone());
        let profiler = profiler
            .record_shapes(self.wishes.shapes)
            .profile_memory(self.wishes.memory)
            .max_events(MAX_EVENTS)
            // A schedule in the environment applies only to the program's own profiler.
            .output_to(Output::new().ignore_environment())
            .hand_cycles_to(move |cycle| {
                has_cycle.store(true, Ordering::Relaxed);
                // Sending fails if the requester no longer waits, and the cycle is then discarded.
                let _ = news.send(News::Cycle(Box::new(cycle)));
            });
        if !self.wishes.ops && !self.wishes.shapes {
            let ops = Interest::OPS | Interest::SHAPES | Interest::INPUTS | Interest::DEVICE;
            profiler.toggle_collection(ops, false);
        }
        AttachedProfiler { profiler: Arc::new(profiler), of, began: now, is_paused: false, is_full }
    }
}

impl AttachedProfiler {
    pub(crate) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recording(wishes: RecordRequest) -> Recording {
        let (news, _) = std::sync::mpsc::channel();
        let now = Instant::now();
        let requester = Requester::Dynolog;
        Recording { number: 1, wishes, requester, asked: now, from: now, news, guest: None }
    }

    /// Returns the steps up to 20 with which the recording can begin.
    fn begins(first_step: Option<u64>, multiple_of: Option<u64>, warmup: Option<u64>) -> Vec<u64> {
        let steps = Some(1);
        let wishes =
            RecordRequest { steps, first_step, multiple_of, warmup, ..RecordRequest::default() };
        let recording = recording(wishes);
        (0..=20).filter(|step| recording.may_begin(*step, recording.from)).collect()
    }

    #[test]
    fn steps_are_those_that_were_named_after_their_warm_up() {
        assert_eq!(begins(None, None, None).len(), 21);
        assert_eq!(begins(Some(5), None, None)[0], 4, "one warms up");
        assert_eq!(begins(Some(5), None, Some(3))[0], 2);
        assert_eq!(begins(Some(0), Some(10), Some(0)), [9, 19], "too late for it: the next tenth");
        assert_eq!(
            begins(Some(7), Some(10), Some(2)),
            [5, 8, 18],
            "the one that is named, or a tenth"
        );
        assert_eq!(begins(None, Some(8), Some(2)), [6, 14]);
    }

    #[test]
    fn a_step_that_nothing_else_may_stand_for_can_be_missed() {
        let of = |exactly| {
            let first_step = Some(5);
            recording(RecordRequest { steps: Some(1), first_step, exactly, ..Default::default() })
        };
        let exact = of(true);
        assert!(exact.may_begin(4, exact.from) && !exact.may_begin(5, exact.from));
        assert_eq!([3, 4, 5, 6].map(|step| exact.missed(step)), [None, None, Some(5), Some(5)]);
        let any = of(false);
        assert!(any.may_begin(5, any.from));
        assert_eq!(any.missed(6), None);
    }

    #[test]
    fn a_time_begins_when_it_was_named() {
        let mut recording =
            recording(RecordRequest { milliseconds: Some(5), ..RecordRequest::default() });
        recording.from += Duration::from_secs(9);
        assert!(!recording.may_begin(3, recording.asked));
        assert!(recording.may_begin(3, recording.from));
    }

    #[test]
    fn one_that_never_begins_is_not_waited_for_for_ever() {
        let steps =
            RecordRequest { steps: Some(1), first_step: Some(2_000_000_000), ..Default::default() };
        let mut recording = recording(steps);
        let later = |recording: &Recording, seconds| {
            recording.expired(recording.from + Duration::from_secs(seconds))
        };
        assert_eq!(later(&recording, 599), None);
        let why = later(&recording, 600).expect("it is late");
        assert_eq!(
            why,
            "no requested step began within 10 minutes (the first requested step was 2000000000)"
        );
        // The user may wait longer than other requesters. A recording that has begun never expires.
        recording.requester = Requester::Command { process: None };
        assert_eq!(later(&recording, 600), None);
        assert!(later(&recording, 3600).is_some());
        recording.guest = Some(recording.guest_for_time(recording.from));
        assert_eq!(later(&recording, 3600), None);
    }
}
