//! What a process that listens answers.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Activity, MemoryState, ThreadStack};
use crate::Stage;

/// Seconds of a century: a training that would take longer has no planned end.
const LONGEST_TRAINING: f64 = 100.0 * 365.0 * 86_400.0;

/// A line of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Answer {
    /// What the process does.
    State(ProcessState),
    /// What its profilers have measured so far, each as the JSON of a report; none where nothing measures.
    Report {
        /// One for each profiler that has a report.
        reports: Vec<Value>,
    },
    /// The recording has begun.
    Recording,
    /// The recording is over; its trace follows.
    Recorded(Recorded),
    /// What its threads are in.
    Dump(Dump),
    /// The recording that was under way is cancelled.
    Cancelled {
        /// Who had requested it, and how long ago; `None` if no recording was under way.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        recording: Option<String>,
    },
    /// What was asked cannot be done, and why.
    Error {
        /// One sentence.
        message: String,
    },
}

/// A process that listens, and what it trains.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProcessState {
    /// Of the protocol.
    pub version: u32,
    /// The process's number, as it sees it itself.
    pub process: u32,
    /// Inode of the PID namespace in which the numbers of the process and its parent hold, on
    /// Linux.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<u64>,
    /// The file name of the program.
    pub program: String,
    /// What measures, by kind: `simple`, `advanced`, `tensor`; `other` for those of the program's own.
    pub profilers: Vec<String>,
    /// Whether somebody has a recording made now.
    pub is_recording: bool,
    /// What runs, one for each thread that trains; none between stages.
    pub trainings: Vec<TrainingState>,
    /// The process's memory, where the system says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryState>,
    /// What its threads do; only for who [follows](super::Request::Follow) and has asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activity: Option<Activity>,
    /// The process that started it, on Unix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<u32>,
    /// What its launcher has told all processes of one training alike: variables and their values, such as
    /// `MASTER_ADDR=10.0.0.1 MASTER_PORT=29500`; none where it has told nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch: Option<String>,
}

impl ProcessState {
    /// Whether both take part in one training, as far as can be said from outside: they are the same program, and their
    /// launcher has told them the same; where it has told neither anything, one process started both, or one of them the
    /// other. Ranks and world sizes are not compared: between stages a process does not say them.
    pub fn is_launched_with(&self, other: &Self) -> bool {
        // Numbers of different containers say nothing about each other.
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

/// A training, or an evaluation, that runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrainingState {
    /// The innermost stage; none where a loop tells steps but no stage.
    pub stage: Option<Stage>,
    /// The process's rank among those that train together.
    pub rank: u32,
    /// How many those are.
    pub world_size: u32,
    /// The epoch, counted from 0, if the trainer says it.
    pub epoch: Option<u64>,
    /// How many epochs there will be, if the trainer says it.
    pub epochs: Option<u64>,
    /// How many steps of the stage are over.
    pub steps: u64,
    /// For how long the stage has run, in seconds.
    pub seconds: f64,
    /// Whether a validation interrupts the steps now.
    pub is_paused: bool,
    /// How long the last steps took, in seconds, the last one last: 128 at most. Without what interrupted them.
    pub last_steps: Vec<f64>,
    /// How many steps of the epoch are over, if the trainer says epochs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch_step: Option<u64>,
    /// How many steps an epoch has: as the trainer says, or as many as the last one had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch_steps: Option<u64>,
    /// How many samples per second the last steps worked on, if the trainer says how large batches are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples_per_second: Option<f64>,
    /// The share of the last steps that waited for data; known while somebody
    /// [follows actions](super::Request::Follow), over the steps since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_for_data: Option<f64>,
    /// The loss that the trainer read last, if it says so. In JSON one that is not finite is a text: `"NaN"`, `"inf"`, `"-inf"`.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "any_number")]
    pub loss: Option<f64>,
}

/// Numbers that JSON has, and as texts those that it has not.
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
    /// Steps per second over the last ones; `None` before the second step.
    pub fn steps_per_second(&self) -> Option<f64> {
        let seconds: f64 = self.last_steps.iter().sum();
        (seconds > 0.0).then(|| self.last_steps.len() as f64 / seconds)
    }

    /// In how many seconds all epochs will be over if it goes on as it did since the stage began,
    /// what interrupts steps included; `None` where it is not known how many steps there will be,
    /// or their number only means "until somebody stops it".
    pub fn seconds_left(&self) -> Option<f64> {
        let epochs = self.epochs?.checked_sub(self.epoch?)?;
        let left = epochs.checked_mul(self.epoch_steps?)?.checked_sub(self.epoch_step?)?;
        let seconds = (self.steps > 0).then(|| self.seconds / self.steps as f64 * left as f64);
        seconds.filter(|seconds| *seconds < LONGEST_TRAINING)
    }

    /// The quantile of the last steps' times, in seconds: the smallest that at least this share of them do not
    /// exceed.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let mut sorted = self.last_steps.clone();
        sorted.sort_by(f64::total_cmp);
        let rank = (share * sorted.len() as f64).ceil() as usize;
        sorted.get(rank.saturating_sub(1)).copied()
    }
}

/// A recording that is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded {
    /// How many bytes follow this line: a trace in Kineto's format, compressed by gzip.
    pub bytes: u64,
    /// How many bytes follow those: the report of samples as JSON, where they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample_bytes: Option<u64>,
    /// How many whole steps are in it.
    pub steps: u64,
    /// The number of the first one, as the program counts them; none if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_step: Option<u64>,
    /// How many events of threads are in it.
    pub events: u64,
    /// How many ops are among them.
    pub ops: u64,
    /// How many events there was no room for.
    pub dropped: u64,
    /// What its reader must know, such as that the stage ended before all steps were over.
    pub notes: Vec<String>,
}

/// What threads are in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Dump {
    /// Those that have something open.
    pub threads: Vec<OpenThread>,
    /// All of them, but for mlprof's own, and the functions that each is in; where that was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stacks: Vec<ThreadStack>,
    /// What is missing, and why.
    pub notes: Vec<String>,
}

/// A thread that has something open.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpenThread {
    /// Its name.
    pub thread: String,
    /// What is open, outermost first.
    pub open: Vec<OpenAction>,
}

/// Something that has begun and is not over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpenAction {
    /// Its name.
    pub action: String,
    /// Since its start, in seconds.
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
        // Four steps took a second, and five are to come.
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
    fn what_older_versions_do_not_say_is_not_known() {
        let text = r#"{"answer":"state","version":1,"process":1,"program":"x","profilers":[],"is_recording":false,
            "trainings":[{"stage":"fit","rank":0,"world_size":1,"epoch":null,"epochs":null,"steps":1,"seconds":1.0,
            "is_paused":false,"last_steps":[]}]}"#;
        let Ok(Answer::State(state)) = serde_json::from_str(text) else { panic!("a state") };
        assert_eq!((state.memory, &state.activity), (None, &None));
        assert_eq!((state.parent, &state.launch), (None, &None));
        assert_eq!(state.trainings[0].waiting_for_data, None);
    }

    #[test]
    fn who_trains_together_is_known_by_launcher_or_parent() {
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
