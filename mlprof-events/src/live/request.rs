//! What a process that listens can be asked.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

/// So many steps can be recorded by one request.
pub const MOST_STEPS: u64 = 10_000;

/// So long a time can be recorded by one request, in milliseconds.
pub const LONGEST_RECORDING: u64 = 600_000;

/// A recording of a time can begin so much later than it is asked for, in milliseconds: ten
/// minutes. While it waits nothing else can be recorded.
pub const LATEST_START: u64 = 600_000;

/// Longest time from one answer to the next for a client that [follows](Request::Follow), in
/// milliseconds.
pub const LONGEST_INTERVAL: u64 = 60_000;

/// A request, as it is written: `{"version": 1, "request": "state"}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// Of the protocol: [`VERSION`](super::VERSION).
    pub version: u32,
    /// What is asked.
    #[serde(flatten)]
    pub request: Request,
}

impl Question {
    /// In this version.
    pub fn new(request: Request) -> Self {
        Self { version: super::VERSION, request }
    }
}

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Request {
    /// What the process does now: one [`State`](super::Answer::State).
    State,
    /// The same again and again, until the connection is closed.
    Follow {
        /// From one answer to the next, in milliseconds; at least 50 and at most
        /// [`LONGEST_INTERVAL`] are waited.
        interval_milliseconds: u64,
        /// Also what threads do meanwhile: [`ProcessState::activity`](super::ProcessState::activity). As long as
        /// somebody follows so, the process's actions and modules are measured.
        #[serde(default)]
        actions: bool,
    },
    /// The reports so far.
    Report,
    /// A few steps, or a while, of what runs.
    Record(RecordRequest),
    /// Cancels the recording that is under way or has yet to begin, whoever requested it. For some
    /// seconds afterwards only this user's requests over the socket are recorded.
    Cancel,
    /// What every thread is in.
    Dump {
        /// Also where each is in all code, for which it is interrupted: [`Dump::stacks`](super::Dump::stacks).
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        stacks: bool,
    },
}

/// What is to be recorded: either so many steps or so long.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RecordRequest {
    /// So many whole steps, at most [`MOST_STEPS`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    /// Whole steps for so long, at most [`LONGEST_RECORDING`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub milliseconds: Option<u64>,
    /// Tensor ops and what devices do, beside actions, modules and functions.
    #[serde(default)]
    pub ops: bool,
    /// The shapes of ops' inputs; with ops.
    #[serde(default)]
    pub shapes: bool,
    /// Allocations and frees.
    #[serde(default)]
    pub memory: bool,
    /// So many times a second every thread is looked at, from the warm-up on: its stacks come beside the trace. On Linux, and
    /// where the program is built with the feature `sampling`, as all plugins are by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<u32>,
    /// With steps: the number of the first one that is recorded; the next one that can be, if that one is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_step: Option<u64>,
    /// With a first step: if that one is over, or can no longer warm up, nothing is recorded, and that is said.
    #[serde(default)]
    pub exactly: bool,
    /// With steps: where the first one's number is over or not named, it begins with one that this divides, so that
    /// processes that train together record the same ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multiple_of: Option<u64>,
    /// With steps: so many before the first one are recorded and thrown away, as they pay for hooks that are turned
    /// on; one if this says fewer, at most [`MOST_STEPS`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warmup: Option<u64>,
    /// With a time: when it begins, in milliseconds since 1970, at most [`LATEST_START`] ahead; else at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_milliseconds: Option<u64>,
}

impl RecordRequest {
    /// What is wrong with it, in words.
    ///
    /// # Errors
    ///
    /// If it names neither steps nor a time, both, or more than is allowed.
    pub fn check(&self) -> Result<(), String> {
        match (self.steps, self.milliseconds) {
            (Some(1..=MOST_STEPS), None) => self.check_steps(),
            (None, Some(1..=LONGEST_RECORDING)) => self.check_start(),
            (Some(steps), None) => {
                Err(format!("{steps} steps cannot be recorded: between 1 and {MOST_STEPS} can"))
            }
            (None, Some(milliseconds)) => Err(format!(
                "{milliseconds} ms cannot be recorded: between 1 and {LONGEST_RECORDING} can"
            )),
            _ => Err("a recording is of either \"steps\" or \"milliseconds\"".to_owned()),
        }
    }

    fn check_steps(&self) -> Result<(), String> {
        match (self.warmup, self.multiple_of, self.start_milliseconds) {
            (Some(warmup), ..) if warmup > MOST_STEPS => {
                Err(format!("{warmup} steps cannot be warm-up: at most {MOST_STEPS} can"))
            }
            (_, Some(0), _) => Err("no step's number is a multiple of 0".to_owned()),
            (.., Some(_)) => Err("steps begin at a step, not at a time".to_owned()),
            _ if self.exactly && self.first_step.is_none() => {
                Err("\"exactly\" which step is first is not said: \"first_step\" does".to_owned())
            }
            _ => Ok(()),
        }
    }

    fn check_start(&self) -> Result<(), String> {
        if self.exactly || self.first_step.or(self.multiple_of).or(self.warmup).is_some() {
            return Err("what is recorded for a time begins at no step".to_owned());
        }
        match self.until_start() {
            later if later.as_millis() <= u128::from(LATEST_START) => Ok(()),
            _ => Err("a recording cannot begin more than ten minutes later".to_owned()),
        }
    }

    /// How long it is until it begins; nothing if that is over, or not said.
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
        assert!(check(Some(0), None).is_err_and(|error| error.contains("between 1 and 10000")));
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
