//! Runs a capture, from the client's request to the resulting file.

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

/// Suffix of the file name that the client chooses.
const FILE: &str = "xplane.pb";

/// Minimum host tracer levels for ops and for shapes. Level 2 is the button's own value, and the
/// default for clients that set no level.
const LEVEL_OF_OPS: u32 = 2;
const LEVEL_OF_SHAPES: u32 = 3;
const USUAL_LEVEL: u32 = 2;

/// The active capture, if any.
#[derive(Default)]
pub(super) struct Captures(Mutex<Option<Arc<Capture>>>);

pub(super) struct Capture {
    session: String,
    began: Instant,
    /// Deadline of the capture, because the client does not wait much longer.
    until: Option<Instant>,
    is_terminated: AtomicBool,
    is_abandoned: AtomicBool,
}

/// RAII guard that prevents other captures. It is held until the client has received the answer,
/// because the process keeps the answer in memory until then.
pub(super) struct Turn {
    captures: Arc<Captures>,
    capture: Arc<Capture>,
}

impl Captures {
    /// Begins a capture whose client waits for at most `patience`.
    ///
    /// # Errors
    ///
    /// Returns an error if another capture is active, or if its answer was not yet received.
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
            // The last tenth of the time is reserved for converting and sending the trace.
            until: patience.map(|patience| began + patience / 10 * 9),
            is_terminated: AtomicBool::new(false),
            is_abandoned: AtomicBool::new(false),
        });
        *current = Some(capture.clone());
        Ok(Turn { captures: self.clone(), capture })
    }

    /// Ends the capture of a session early, with the data recorded so far. Returns `true` if there
    /// is such a capture.
    pub(super) fn terminate(&self, session: &str) -> bool {
        let current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = current.as_ref().filter(|capture| capture.session == session);
        found.map(|capture| capture.is_terminated.store(true, Ordering::SeqCst)).is_some()
    }
}

impl Turn {
    /// Returns a guard that marks the capture as abandoned when it is dropped.
    pub(super) fn abandoned_by(&self) -> Abandons {
        Abandons(self.capture.clone())
    }
}

impl Turn {
    /// Allows another capture to begin.
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

/// Guard held by the call that waits for a capture. Dropping it marks the capture as abandoned.
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

    /// Returns the reason for an early end of the capture, if there is one.
    fn ends_early(&self) -> Option<&'static str> {
        if self.is_terminated.load(Ordering::SeqCst) {
            return Some("the capture was terminated");
        }
        let is_late = self.until.is_some_and(|until| Instant::now() >= until);
        is_late.then_some("the capture ended early because of the client's deadline")
    }
}

/// Runs the capture and returns the encoded answer, or `None` if the client no longer waits. Blocks
/// for the whole capture, so it needs its own thread.
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

/// Returns the answer that reports another active capture.
pub(super) fn busy(busy: Busy) -> Bytes {
    space::of_fault(busy.to_string(), Vec::new())
}

/// Wraps a trace into the response that the client requested.
pub(super) fn response(request: &ProfileRequest, space: Bytes) -> ProfileResponse {
    ProfileResponse {
        xspace: request.emit_xspace.then(|| space.clone()),
        tool_data: vec![ToolData { name: FILE.to_owned(), data: space }],
    }
}

/// Converts the request's levels into recording options. Device work always belongs to the ops that
/// launch it, so the device level and the Python level are ignored.
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

/// Recorded cycle with notes, or the reason why nothing was recorded.
type Outcome = Result<(Box<Cycle>, Vec<String>), String>;

/// Guard that cancels the request in the watcher when it is dropped.
struct RequestGuard<'watcher>(&'watcher Watcher, u64);

impl Drop for RequestGuard<'_> {
    fn drop(&mut self) {
        self.0.cancel(self.1);
    }
}

/// Records a cycle and waits for it. Returns `None` if the client no longer waits.
fn record(watcher: &Watcher, wishes: &RecordRequest, turn: &Turn) -> Option<Outcome> {
    let capture = &turn.capture;
    if let Err(why) = wishes.check() {
        return Some(Err(why));
    }
    let (sender, news) = channel();
    let asked = match watcher.record(wishes.clone(), Requester::Capture, sender) {
        Ok(number) => RequestGuard(watcher, number),
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
                // The slot is released before the recording is cancelled, because another capture
                // can begin directly afterwards.
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
        let why = if notes.is_empty() { "no event occurred".to_owned() } else { notes.join("; ") };
        format!("the recording has no trace: {why}")
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
        assert!(of(0, 0).check().is_err_and(|why| why.starts_with("cannot record 0 ms: ")));
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
        assert_eq!(ends, Some("the capture ended early because of the client's deadline"));
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
