//! Replies of a process with a live socket.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Activity, MemoryState, ThreadStack};
use crate::Stage;

/// Seconds of a century. A training run that would take longer has no planned end.
const LONGEST_TRAINING: f64 = 100.0 * 365.0 * 86_400.0;

/// One line of a reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Answer {
    /// Current state of the process.
    State(ProcessState),
    /// Results of the process's profilers so far.
    Report {
        /// One report in JSON for each profiler that has one. Empty if no profiler is active.
        reports: Vec<Value>,
    },
    /// The recording has begun.
    Recording,
    /// The recording is over, and its trace follows.
    Recorded(Recorded),
    /// Open actions and stacks of the process's threads.
    Dump(Dump),
    /// The recording in progress was cancelled.
    Cancelled {
        /// Part of a sentence: the requester of the cancelled recording, and how long ago it was
        /// requested. `None` if no recording was in progress.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        recording: Option<String>,
    },
    /// The request cannot be fulfilled.
    Error {
        /// Reason, in one sentence.
        message: String,
    },
}

/// State of a process with a live socket, and of its training runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProcessState {
    /// Version of the protocol.
    pub version: u32,
    /// Process id, as seen by the process itself.
    pub process: u32,
    /// Inode of the PID namespace to which the ids of the process and its parent belong, on Linux.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<u64>,
    /// File name of the program.
    pub program: String,
    /// Kinds of the active profilers: `simple`, `advanced`, `tensor`, or `other` for profilers that
    /// the program defines.
    pub profilers: Vec<String>,
    /// Set while a recording requested over the socket is in progress.
    pub is_recording: bool,
    /// Running stages, one for each thread that trains; empty between stages.
    pub trainings: Vec<TrainingState>,
    /// Memory of the process, if the system reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryState>,
    /// Activity of the threads, for clients that [follow](super::Request::Follow) the process and
    /// requested it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activity: Option<Activity>,
    /// Id of the parent process, on Unix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<u32>,
    /// Variables that the launcher set to the same values in all processes of one training run,
    /// such as `MASTER_ADDR=10.0.0.1 MASTER_PORT=29500`. `None` if it set no such variables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch: Option<String>,
}

impl ProcessState {
    /// Returns `true` if both processes appear to belong to one training run.
    ///
    /// They must run the same program with the same launcher variables. If neither has launcher
    /// variables, they must have the same parent, or one must be the parent of the other. Ranks and
    /// world sizes are not compared, because a process does not report them between stages.
    pub fn is_launched_with(&self, other: &Self) -> bool {
        // Process ids of different containers cannot be compared.
        let is_related = || {
            let is_started_by = |one: &Self, two: &Self| one.parent == Some(two.process);
            let is_of_one = self.parent.is_some() && self.parent == other.parent;
            self.namespace == other.namespace
                && (is_of_one || is_started_by(self, other) || is_started_by(other, self))
        };
        self.program == other.program
            && match (&self.launch, &other.launch) {
                (None, None) => is_related(),
                (own, others) => own == others,
            }
    }
}

/// A training run or an evaluation in progress.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrainingState {
    /// Innermost stage; `None` if a loop reports steps but no stage.
    pub stage: Option<Stage>,
    /// Rank of the process among those that train together.
    pub rank: u32,
    /// Number of processes that train together.
    pub world_size: u32,
    /// Current epoch, counted from 0, if the trainer reports it.
    pub epoch: Option<u64>,
    /// Planned number of epochs, if the trainer reports it.
    pub epochs: Option<u64>,
    /// Number of completed steps of the stage.
    pub steps: u64,
    /// Duration of the stage so far, in seconds.
    pub seconds: f64,
    /// Set while a validation interrupts the steps.
    pub is_paused: bool,
    /// Durations of the last steps in seconds, in chronological order: at most 128. Interruptions
    /// are not included.
    pub last_steps: Vec<f64>,
    /// Number of completed steps of the epoch, if the trainer reports epochs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch_step: Option<u64>,
    /// Number of steps in an epoch, as reported by the trainer or as counted in the previous epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch_steps: Option<u64>,
    /// Number of samples per second over the last steps, if the trainer reports batch sizes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples_per_second: Option<f64>,
    /// Share of the last steps' time that was spent waiting for data. It is known while a client
    /// [follows actions](super::Request::Follow), for the steps since it connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_for_data: Option<f64>,
    /// Latest loss that the trainer read, if it reports the loss. In JSON a value that is not
    /// finite is a string: `"NaN"`, `"inf"`, `"-inf"`.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "any_number")]
    pub loss: Option<f64>,
}

/// Serialises finite numbers as JSON numbers, and others as strings.
mod any_number {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Written {
        Number(f64),
        Text(String),
    }

    pub(super) fn serialize<S: Serializer>(number: &Option<f64>, to: S) -> Result<S::Ok, S::Error> {
        let written = number.map(|number| match number.is_finite() {
            true => Written::Number(number),
            false => Written::Text(number.to_string()),
        });
        written.serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
        Ok(match Option::deserialize(from)? {
            Some(Written::Number(number)) => Some(number),
            Some(Written::Text(text)) => text.parse().ok(),
            None => None,
        })
    }
}

impl TrainingState {
    /// Returns the steps per second over the last steps, or `None` if no duration is known yet.
    pub fn steps_per_second(&self) -> Option<f64> {
        let seconds: f64 = self.last_steps.iter().sum();
        (seconds > 0.0).then(|| self.last_steps.len() as f64 / seconds)
    }

    /// Returns the estimated number of seconds until all epochs are over. The estimate uses the
    /// average duration of the stage's steps, including interruptions. Returns `None` if the number
    /// of steps is unknown, or so large that it only means "until stopped".
    pub fn seconds_left(&self) -> Option<f64> {
        let epochs = self.epochs?.checked_sub(self.epoch?)?;
        let left = epochs.checked_mul(self.epoch_steps?)?.checked_sub(self.epoch_step?)?;
        let seconds = (self.steps > 0).then(|| self.seconds / self.steps as f64 * left as f64);
        seconds.filter(|seconds| *seconds < LONGEST_TRAINING)
    }

    /// Returns a quantile of the last steps' durations, in seconds. It is the smallest duration
    /// that at least `share` of the steps do not exceed.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let mut sorted = self.last_steps.clone();
        sorted.sort_by(f64::total_cmp);
        let rank = (share * sorted.len() as f64).ceil() as usize;
        sorted.get(rank.saturating_sub(1)).copied()
    }
}

/// A completed recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded {
    /// Number of bytes that follow this line: a trace in Kineto's format, compressed with gzip.
    pub bytes: u64,
    /// Number of bytes that follow the trace: the sampling report as JSON, if it was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample_bytes: Option<u64>,
    /// Number of complete steps in the recording.
    pub steps: u64,
    /// Number of the first recorded step, as the program counts steps; `None` if no step is
    /// complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_step: Option<u64>,
    /// Number of recorded thread events.
    pub events: u64,
    /// Number of ops among the events.
    pub ops: u64,
    /// Number of events that were dropped for lack of space.
    pub dropped: u64,
    /// Notes for the reader, for example that the stage ended before all steps were complete.
    pub notes: Vec<String>,
}

/// Open actions and stacks of all threads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Dump {
    /// Threads with open actions.
    pub threads: Vec<OpenThread>,
    /// Stacks of all threads except mlprof's own, if they were requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stacks: Vec<ThreadStack>,
    /// Notes about missing data and the reasons.
    pub notes: Vec<String>,
}

/// A thread with open actions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpenThread {
    /// Name of the thread.
    pub thread: String,
    /// Open actions, outermost first.
    pub open: Vec<OpenAction>,
}

/// An action that has begun and not ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpenAction {
    /// Name of the action.
    pub action: String,
    /// Time since the start of the action, in seconds.
    pub seconds: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn training(last_steps: &[f64]) -> TrainingState {
        TrainingState {
            stage: Some(Stage::Fit),
            rank: 0,
            world_size: 1,
            epoch: None,
            epochs: None,
            steps: 4,
            seconds: 1.0,
            is_paused: false,
            last_steps: last_steps.to_vec(),
            epoch_step: None,
            epoch_steps: None,
            samples_per_second: None,
            waiting_for_data: None,
            loss: None,
        }
    }

    #[test]
    fn the_last_steps_say_how_fast_it_is() {
        let state = training(&[0.1, 0.4, 0.2, 0.3]);
        assert_eq!(state.steps_per_second(), Some(4.0));
        assert_eq!((state.quantile(0.5), state.quantile(0.99)), (Some(0.2), Some(0.4)));
        let none = training(&[]);
        assert_eq!((none.steps_per_second(), none.quantile(0.5)), (None, None));
    }

    #[test]
    fn a_loss_that_is_no_number_is_said() {
        let mut state = training(&[]);
        let round = |state: &TrainingState| -> (String, TrainingState) {
            let json = serde_json::to_string(state).expect("JSON");
            let read = serde_json::from_str(&json).expect("a state");
            (json, read)
        };
        assert!(!round(&state).0.contains("loss"), "nobody has said one");
        for (loss, text) in [(0.5, ":0.5}"), (f64::NEG_INFINITY, ":\"-inf\"}")] {
            state.loss = Some(loss);
            let (json, read) = round(&state);
            assert!(json.ends_with(text), "{json}");
            assert_eq!(read, state);
        }
        state.loss = Some(f64::NAN);
        let (json, read) = round(&state);
        assert!(json.ends_with(":\"NaN\"}") && read.loss.is_some_and(f64::is_nan), "{json}");
    }

    #[test]
    fn the_time_left_is_known_where_steps_and_epochs_are() {
        let mut state = training(&[0.1]);
        assert_eq!(state.seconds_left(), None);
        (state.epoch, state.epochs) = (Some(1), Some(3));
        (state.epoch_step, state.epoch_steps) = (Some(1), Some(3));
        // Four steps took one second, and five are left.
        assert_eq!(state.seconds_left(), Some(1.25));
        for endless in [u64::MAX, u64::MAX / 4, 1 << 40] {
            state.epochs = Some(endless);
            assert_eq!(state.seconds_left(), None, "{endless} epochs");
        }
        state.epochs = Some(3);
        state.steps = 0;
        assert_eq!(state.seconds_left(), None);
        state.epoch_step = Some(100);
        assert_eq!(state.seconds_left(), None, "more steps than there should be");
    }

    #[test]
    fn fields_missing_in_older_versions_are_unknown() {
        let text = r#"{"answer":"state","version":1,"process":1,"program":"x","profilers":[],"is_recording":false,
            "trainings":[{"stage":"fit","rank":0,"world_size":1,"epoch":null,"epochs":null,"steps":1,"seconds":1.0,
            "is_paused":false,"last_steps":[]}]}"#;
        let Ok(Answer::State(state)) = serde_json::from_str(text) else { panic!("a state") };
        assert_eq!((state.memory, &state.activity), (None, &None));
        assert_eq!((state.parent, &state.launch), (None, &None));
        assert_eq!(state.trainings[0].waiting_for_data, None);
    }

    #[test]
    fn ranks_of_a_training_share_launcher_or_parent() {
        let state = |process, parent, launch: Option<&str>| ProcessState {
            version: 1,
            process,
            namespace: None,
            program: "digits".into(),
            profilers: Vec::new(),
            is_recording: false,
            trainings: Vec::new(),
            memory: None,
            activity: None,
            parent,
            launch: launch.map(str::to_owned),
        };
        let one = state(7, Some(1), Some("MASTER_PORT=1"));
        assert!(one.is_launched_with(&state(8, Some(2), Some("MASTER_PORT=1"))));
        assert!(!one.is_launched_with(&state(8, Some(1), Some("MASTER_PORT=2"))));
        assert!(!one.is_launched_with(&state(8, Some(1), None)));
        let alone = state(7, Some(1), None);
        assert!(alone.is_launched_with(&state(8, Some(1), None)), "sisters");
        assert!(alone.is_launched_with(&state(8, Some(7), None)), "its child");
        assert!(state(8, Some(7), None).is_launched_with(&alone), "its parent");
        assert!(!alone.is_launched_with(&state(8, Some(2), None)));
        assert!(!state(7, None, None).is_launched_with(&state(8, None, None)), "nothing is known");
        let container =
            |namespace| ProcessState { namespace: Some(namespace), ..state(1, Some(7), None) };
        assert!(!container(1).is_launched_with(&container(2)), "two containers");
        assert!(container(1).is_launched_with(&container(1)));
        let other = ProcessState { program: "text".into(), ..state(8, Some(1), None) };
        assert!(!alone.is_launched_with(&other));
    }

    #[test]
    fn answers_are_told_apart_by_one_field() {
        let error = Answer::Error { message: "why".into() };
        let text = serde_json::to_string(&error).expect("plain");
        assert_eq!(text, r#"{"answer":"error","message":"why"}"#);
        assert_eq!(serde_json::from_str::<Answer>(&text).expect("the same"), error);
    }
}
