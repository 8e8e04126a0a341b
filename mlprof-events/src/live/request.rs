//! Requests to a process with a live socket.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

/// Maximum number of steps in one recording.
pub const MOST_STEPS: u64 = 10_000;

/// Maximum duration of one recording, in milliseconds.
pub const LONGEST_RECORDING: u64 = 600_000;

/// Maximum delay before a timed recording begins, in milliseconds: ten minutes. While it waits,
/// other recordings are refused.
pub const LATEST_START: u64 = 600_000;

/// Maximum interval between replies to a client that [follows](Request::Follow) the process, in
/// milliseconds.
pub const LONGEST_INTERVAL: u64 = 60_000;

/// A request with its version: `{"version": 1, "request": "state"}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// Version of the protocol: [`VERSION`](super::VERSION).
    pub version: u32,
    /// The request itself.
    #[serde(flatten)]
    pub request: Request,
}

impl Question {
    /// Creates a question for the current version of the protocol.
    pub fn new(request: Request) -> Self {
        Self { version: super::VERSION, request }
    }
}

/// Type of request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Request {
    /// Requests the current state of the process, as one [`State`](super::Answer::State).
    State,
    /// Requests the state repeatedly until the connection is closed.
    Follow {
        /// Interval between replies in milliseconds, limited to values from 50 to
        /// [`LONGEST_INTERVAL`].
        interval_milliseconds: u64,
        /// Enables the activity of threads:
        /// [`ProcessState::activity`](super::ProcessState::activity). The process measures its
        /// actions and modules as long as at least one client uses this option.
        #[serde(default)]
        actions: bool,
    },
    /// Requests the current reports.
    Report,
    /// Requests a recording of some steps, or of a duration.
    Record(RecordRequest),
    /// Cancels the recording that is in progress or waiting to begin, regardless of its requester.
    /// For some seconds afterwards only requests of this user over the socket can start a
    /// recording.
    Cancel,
    /// Requests the open actions of all threads.
    Dump {
        /// Enables the stacks of all threads, which are interrupted for that:
        /// [`Dump::stacks`](super::Dump::stacks).
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        stacks: bool,
    },
}

/// Options of a recording. Either `steps` or `milliseconds` must be set.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RecordRequest {
    /// Number of complete steps, at most [`MOST_STEPS`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    /// Duration in which complete steps are recorded, in milliseconds: at most
    /// [`LONGEST_RECORDING`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub milliseconds: Option<u64>,
    /// Enables tensor ops and device events, in addition to actions, modules and functions.
    #[serde(default)]
    pub ops: bool,
    /// Enables the shapes of op inputs. Requires `ops`.
    #[serde(default)]
    pub shapes: bool,
    /// Enables allocations and deallocations.
    #[serde(default)]
    pub memory: bool,
    /// Sampling rate in samples per second and thread. Sampling runs from the warm-up on, and its
    /// report follows the trace. It requires Linux and the plugin's feature
    /// `sampling`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<u32>,
    /// Number of the first recorded step. If that step is over, recording begins at the next
    /// possible step. Requires `steps`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_step: Option<u64>,
    /// Fails the request if `first_step` is over or has no time left for its warm-up. Requires
    /// `first_step`.
    #[serde(default)]
    pub exactly: bool,
    /// Divisor of the first step's number, so that processes that train together record the same
    /// steps. It applies if `first_step` is unset or already over. Requires `steps`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multiple_of: Option<u64>,
    /// Number of steps before the first one that are recorded and discarded, because they include
    /// the cost of enabling hooks. It is at least 1 and at most [`MOST_STEPS`]. Requires `steps`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warmup: Option<u64>,
    /// Start time in milliseconds since 1970, at most [`LATEST_START`] ahead; the recording begins
    /// at once if it is `None`. Requires `milliseconds`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_milliseconds: Option<u64>,
}

impl RecordRequest {
    /// Checks that the options are consistent and within the limits.
    ///
    /// # Errors
    ///
    /// Returns a message if neither or both of `steps` and `milliseconds` are set, if options
    /// contradict each other, or if a limit is exceeded.
    pub fn check(&self) -> Result<(), String> {
        match (self.steps, self.milliseconds) {
            (Some(1..=MOST_STEPS), None) => self.check_steps(),
            (None, Some(1..=LONGEST_RECORDING)) => self.check_start(),
            (Some(steps), None) => {
                Err(format!("cannot record {steps} steps: use 1 to {MOST_STEPS}"))
            }
            (None, Some(milliseconds)) => {
                Err(format!("cannot record {milliseconds} ms: use 1 to {LONGEST_RECORDING}"))
            }
            _ => {
                Err("cannot record: the request needs either \"steps\" or \"milliseconds\""
                    .to_owned())
            }
        }
    }

    fn check_steps(&self) -> Result<(), String> {
        match (self.warmup, self.multiple_of, self.start_milliseconds) {
            (Some(warmup), ..) if warmup > MOST_STEPS => {
                Err(format!("cannot use {warmup} warm-up steps: use at most {MOST_STEPS}"))
            }
            (_, Some(0), _) => Err("cannot begin at a multiple of 0: use at least 1".to_owned()),
            (.., Some(_)) => Err("cannot begin a recording of steps at a time: leave out \
                                  \"start_milliseconds\""
                .to_owned()),
            _ if self.exactly && self.first_step.is_none() => {
                Err("\"exactly\" needs the first step: set \"first_step\"".to_owned())
            }
            _ => Ok(()),
        }
    }

    fn check_start(&self) -> Result<(), String> {
        if self.exactly || self.first_step.or(self.multiple_of).or(self.warmup).is_some() {
            return Err(
                "cannot begin a timed recording at a step: record \"steps\" instead".to_owned()
            );
        }
        match self.until_start() {
            later if later.as_millis() <= u128::from(LATEST_START) => Ok(()),
            _ => Err("cannot begin a recording more than ten minutes later".to_owned()),
        }
    }

    /// Returns the time until the recording begins, or zero if the start time is over or unset.
    pub fn until_start(&self) -> Duration {
        let start = Duration::from_millis(self.start_milliseconds.unwrap_or_default());
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        start.saturating_sub(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_written_as_the_guide_says() {
        let of = |text: &str| serde_json::from_str::<Question>(text).expect("a request");
        let state = r#"{"version":1,"request":"state"}"#;
        assert_eq!(of(state), Question::new(Request::State));
        assert_eq!(serde_json::to_string(&of(state)).expect("plain"), state);
        let dump = r#"{"version":1,"request":"dump"}"#;
        assert_eq!(of(dump), Question::new(Request::Dump { stacks: false }));
        assert_eq!(serde_json::to_string(&of(dump)).expect("plain"), dump);
        let record = r#"{"version":1,"request":"record","steps":5,"ops":true}"#;
        let wishes = RecordRequest { steps: Some(5), ops: true, ..RecordRequest::default() };
        assert_eq!(of(record), Question::new(Request::Record(wishes)));
    }

    #[test]
    fn a_recording_is_of_steps_or_of_a_time_and_bounded() {
        let check = |steps, milliseconds| {
            RecordRequest { steps, milliseconds, ..RecordRequest::default() }.check()
        };
        assert_eq!(check(Some(1), None), Ok(()));
        assert_eq!(check(None, Some(LONGEST_RECORDING)), Ok(()));
        assert!(check(Some(0), None).is_err_and(|error| error.contains("use 1 to 10000")));
        assert!(check(None, Some(LONGEST_RECORDING + 1)).is_err());
        assert!(check(None, None).is_err() && check(Some(1), Some(1)).is_err());
    }

    #[test]
    fn steps_begin_at_a_step_and_times_at_a_time() {
        let steps = RecordRequest { steps: Some(3), ..RecordRequest::default() };
        let at = RecordRequest { first_step: Some(7), multiple_of: Some(5), ..steps.clone() };
        assert_eq!(at.check(), Ok(()));
        assert_eq!(RecordRequest { exactly: true, ..at }.check(), Ok(()));
        for wrong in [
            RecordRequest { warmup: Some(MOST_STEPS + 1), ..steps.clone() },
            RecordRequest { multiple_of: Some(0), ..steps.clone() },
            RecordRequest { exactly: true, ..steps.clone() },
            RecordRequest { start_milliseconds: Some(1), ..steps },
        ] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
        let time = RecordRequest { milliseconds: Some(3), ..RecordRequest::default() };
        assert!(RecordRequest { first_step: Some(7), ..time.clone() }.check().is_err());
        assert!(RecordRequest { exactly: true, ..time.clone() }.check().is_err());
        let long_ago = RecordRequest { start_milliseconds: Some(1), ..time.clone() };
        assert_eq!((long_ago.check(), long_ago.until_start()), (Ok(()), Duration::ZERO));
        let never = RecordRequest { start_milliseconds: Some(u64::MAX), ..time };
        assert!(never.check().is_err() && never.until_start() > Duration::from_secs(86_400));
        let in_hours = SystemTime::now() + Duration::from_secs(23 * 3600);
        let in_hours = in_hours.duration_since(SystemTime::UNIX_EPOCH).expect("later").as_millis();
        let in_hours = RecordRequest { start_milliseconds: Some(in_hours as u64), ..never };
        assert!(in_hours.check().is_err_and(|why| why.contains("ten minutes")));
    }
}
