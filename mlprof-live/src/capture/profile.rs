//! A capture: from what the button says to the file that it gets.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use mlprof_core::tensor::Cycle;
use mlprof_events::forking::Mutex;
use mlprof_events::live::RecordRequest;

use super::messages::{ProfileRequest, ProfileResponse, ToolData};
use super::space;
use crate::recording::News;
use crate::requester::{Busy, Requester};
use crate::service::recorded::{LOOK, complete_notes};
use crate::watcher::Watcher;

/// What the client calls the file, behind a name of its own.
const FILE: &str = "xplane.pb";

/// From these levels of what a host does on. 2 is the button's own, and what who says none means.
const LEVEL_OF_OPS: u32 = 2;
const LEVEL_OF_SHAPES: u32 = 3;
const USUAL_LEVEL: u32 = 2;

/// The capture that is under way, if there is one.
#[derive(Default)]
pub(super) struct Captures(Mutex<Option<Arc<Capture>>>);

pub(super) struct Capture {
    session: String,
    began: Instant,
    /// When it has to be over, as whoever asked does not wait for long after that.
    until: Option<Instant>,
    is_terminated: AtomicBool,
    is_abandoned: AtomicBool,
}

/// While it lives no other capture begins: until the answer is taken, as the process keeps it for
/// so long.
pub(super) struct Turn {
    captures: Arc<Captures>,
    capture: Arc<Capture>,
}

impl Captures {
    /// One that `patience` is waited for.
    ///
    /// # Errors
    ///
    /// If another one is under way, or its answer has not been taken.
    pub(super) fn begin(
        self: &Arc<Self>,
        session: String,
        patience: Option<Duration>,
    ) -> Result<Turn, Busy> {
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(other) = &*current {
            let since = other.began.elapsed();
            return Err(Busy::UnderWay { requester: Requester::Capture, since, has_begun: true });
        }
        let began = Instant::now();
        let capture = Arc::new(Capture {
            session,
            began,
            // A tenth is left for the trace.
            until: patience.map(|patience| began + patience / 10 * 9),
            is_terminated: AtomicBool::new(false),
            is_abandoned: AtomicBool::new(false),
        });
        *current = Some(capture.clone());
        Ok(Turn { captures: self.clone(), capture })
    }

    /// Has the capture of a session end with what it has: whether there is one.
    pub(super) fn terminate(&self, session: &str) -> bool {
        let current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = current.as_ref().filter(|capture| capture.session == session);
        found.map(|capture| capture.is_terminated.store(true, Ordering::SeqCst)).is_some()
    }
}

impl Turn {
    /// Throws the capture away when it is dropped.
    pub(super) fn abandoned_by(&self) -> Abandons {
        Abandons(self.capture.clone())
    }
}

impl Turn {
    /// Lets another capture begin.
    fn give_back(&self) {
        let mut current = self.captures.0.lock().unwrap_or_else(PoisonError::into_inner);
        current.take_if(|current| Arc::ptr_eq(current, &self.capture));
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// Whoever has this waits for a capture.
pub(super) struct Abandons(Arc<Capture>);

impl Drop for Abandons {
    fn drop(&mut self) {
        self.0.is_abandoned.store(true, Ordering::SeqCst);
    }
}

impl Capture {
    fn is_abandoned(&self) -> bool {
        self.is_abandoned.load(Ordering::SeqCst)
    }

    /// Why it is to end before its time, if it is.
    fn ends_early(&self) -> Option<&'static str> {
        if self.is_terminated.load(Ordering::SeqCst) {
            return Some("the capture was terminated");
        }
        let is_late = self.until.is_some_and(|until| Instant::now() >= until);
        is_late.then_some("the client does not wait any longer than this")
    }
}

/// Captures: what is to be answered, or nothing if nobody waits for it any more. It lasts as long as the capture, so it is
/// for a thread of its own.
pub(super) fn answer(watcher: &Watcher, request: &ProfileRequest, turn: &Turn) -> Option<Bytes> {
    let wishes = wishes(request);
    match record(watcher, &wishes, turn)? {
        Ok((cycle, mut warnings)) => {
            complete_notes(&cycle, &wishes, &mut warnings);
            let copies = if request.emit_xspace { 2 } else { 1 };
            Some(space::of_cycle(cycle, warnings, copies))
        }
        Err(why) => Some(space::of_fault(why, Vec::new())),
    }
}

/// What is answered in place of a capture if there is another one.
pub(super) fn busy(busy: Busy) -> Bytes {
    space::of_fault(busy.to_string(), Vec::new())
}

/// A trace as an answer to what was asked for.
pub(super) fn response(request: &ProfileRequest, space: Bytes) -> ProfileResponse {
    ProfileResponse {
        xspace: request.emit_xspace.then(|| space.clone()),
        tool_data: vec![ToolData { name: FILE.to_owned(), data: space }],
    }
}

/// What is recorded, by the levels that the button offers. What devices do belongs to the ops that have them do it, so
/// the device's own level decides nothing, nor does Python's.
fn wishes(request: &ProfileRequest) -> RecordRequest {
    let options = request.opts.clone().unwrap_or_default();
    let is_set = options.version != 0;
    let level = if is_set { options.host_tracer_level } else { USUAL_LEVEL };
    let times = [request.duration_ms, options.duration_ms];
    let milliseconds = times.into_iter().find(|time| *time > 0).unwrap_or_default();
    let start = options.start_timestamp_ns / 1_000_000;
    RecordRequest {
        milliseconds: Some(milliseconds),
        ops: level >= LEVEL_OF_OPS,
        memory: level >= LEVEL_OF_OPS,
        shapes: level >= LEVEL_OF_SHAPES,
        start_milliseconds: (start > 0).then_some(start),
        ..RecordRequest::default()
    }
}

/// What was recorded with what is to be said of it, or why nothing was.
type Outcome = Result<(Box<Cycle>, Vec<String>), String>;

/// Takes the wish back if nobody waits any more.
struct Asked<'watcher>(&'watcher Watcher, u64);

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.0.cancel(self.1);
    }
}

/// Has something recorded and waits for it; `None` if nobody waits any more.
fn record(watcher: &Watcher, wishes: &RecordRequest, turn: &Turn) -> Option<Outcome> {
    let capture = &turn.capture;
    if let Err(why) = wishes.check() {
        return Some(Err(why));
    }
    let (sender, news) = channel();
    let asked = match watcher.record(wishes.clone(), Requester::Capture, sender) {
        Ok(number) => Asked(watcher, number),
        Err(busy) => return Some(Err(busy.to_string())),
    };
    let (mut cycle, mut early) = (None, None);
    let mut notes = loop {
        match news.recv_timeout(LOOK) {
            Ok(News::Began) => {}
            Ok(News::Cycle(recorded)) => cycle = Some(recorded),
            Ok(News::Over(notes, _profiler)) => break notes,
            Err(RecvTimeoutError::Disconnected) => break Vec::new(),
            Err(RecvTimeoutError::Timeout) if capture.is_abandoned() => {
                // Before the recording is cancelled: once it is, another capture can begin.
                turn.give_back();
                return None;
            }
            Err(RecvTimeoutError::Timeout) => match capture.ends_early() {
                Some(why) => {
                    early = Some(why);
                    watcher.cancel(asked.1);
                }
                None => watcher.look_at_clock(asked.1),
            },
        }
    };
    notes.extend(early.map(str::to_owned));
    Some(cycle.map(|cycle| (cycle, notes.clone())).ok_or_else(|| {
        let why = if notes.is_empty() { "nothing happened".to_owned() } else { notes.join("; ") };
        format!("there is nothing to show: {why}")
    }))
}

#[cfg(test)]
mod tests {
    use mlprof_events::live::LONGEST_RECORDING;
    use proptest::prelude::*;
    use prost::Message;

    use super::super::messages::ProfileOptions;
    use super::*;

    fn with_level(level: u32) -> RecordRequest {
        let opts = ProfileOptions { host_tracer_level: level, version: 1, ..Default::default() };
        wishes(&ProfileRequest { duration_ms: 5, opts: Some(opts), ..Default::default() })
    }

    #[test]
    fn levels_say_what_is_recorded() {
        let of = |wishes: RecordRequest| (wishes.ops, wishes.memory, wishes.shapes);
        assert_eq!(of(with_level(0)), (false, false, false));
        assert_eq!(of(with_level(1)), (false, false, false));
        assert_eq!(of(with_level(2)), (true, true, false));
        assert_eq!(of(with_level(3)), (true, true, true));
        let none = ProfileRequest { duration_ms: 5, ..Default::default() };
        assert_eq!(wishes(&none), with_level(2));
        let opts = Some(ProfileOptions::default());
        assert_eq!(wishes(&ProfileRequest { opts, ..none }), with_level(2));
    }

    #[test]
    fn either_place_may_say_for_how_long() {
        let of = |outside, inside| {
            let opts = ProfileOptions { duration_ms: inside, ..Default::default() };
            wishes(&ProfileRequest { duration_ms: outside, opts: Some(opts), ..Default::default() })
        };
        assert_eq!((of(7, 9).milliseconds, of(0, 9).milliseconds), (Some(7), Some(9)));
        assert!(of(0, 0).check().is_err_and(|why| why.starts_with("0 ms cannot be recorded")));
        assert!(of(LONGEST_RECORDING + 1, 0).check().is_err());
        assert!(of(LONGEST_RECORDING, 0).check().is_ok());
    }

    #[test]
    fn one_capture_at_a_time_which_its_session_ends() {
        let captures = Arc::new(Captures::default());
        let turn = captures.begin("a".to_owned(), None).map_err(|_| "no other").expect("the first");
        assert!(captures.begin("b".to_owned(), None).is_err());
        assert_eq!(turn.capture.ends_early(), None);
        assert!(!captures.terminate("b"));
        assert_eq!(turn.capture.ends_early(), None);
        assert!(captures.terminate("a"));
        assert_eq!(turn.capture.ends_early(), Some("the capture was terminated"));
        assert!(!turn.capture.is_abandoned());
        drop(turn.abandoned_by());
        assert!(turn.capture.is_abandoned());
        drop(turn);
        assert!(!captures.terminate("a"));
        let none = captures.begin("b".to_owned(), Some(Duration::ZERO)).map_err(|_| "no other");
        let ends = none.expect("the next one").capture.ends_early();
        assert_eq!(ends, Some("the client does not wait any longer than this"));
    }

    proptest! {
        #[test]
        fn any_request_is_a_wish_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            if let Ok(request) = ProfileRequest::decode(&bytes[..]) {
                let wishes = wishes(&request);
                if wishes.check().is_ok() {
                    prop_assert!((1..=LONGEST_RECORDING).contains(&wishes.milliseconds.unwrap_or(0)));
                }
            }
        }

        #[test]
        fn any_numbers_are_a_wish_or_refused(
            duration_ms in any::<u64>(), start_timestamp_ns in any::<u64>(), version in any::<u32>(),
        ) {
            let opts = ProfileOptions { start_timestamp_ns, version, ..Default::default() };
            let request = ProfileRequest { duration_ms, opts: Some(opts), ..Default::default() };
            let checked = wishes(&request).check();
            prop_assert!(duration_ms <= LONGEST_RECORDING || checked.is_err());
        }
    }
}
