//! A listening process, together with its state or the reason why it did not answer.

use mlprof_events::live::{ProcessState, VERSION};
use serde::Serialize;

use super::ProcessName;

/// Entry for a listening process.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Listed {
    /// Name under which the other commands find the process.
    #[serde(serialize_with = "as_text")]
    pub(super) name: ProcessName,
    /// Answer of the process; mostly empty if it did not answer.
    #[serde(flatten)]
    pub(super) state: ProcessState,
    /// Reason for a missing answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) unanswered: Option<String>,
}

fn as_text<S: serde::Serializer>(name: &ProcessName, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(name)
}

impl Listed {
    pub(super) fn answered(name: ProcessName, state: ProcessState) -> Self {
        Self { name, state, unanswered: None }
    }

    /// Creates the entry for a process that did not answer. `program` is its file name, if known.
    #[cfg_attr(not(unix), expect(dead_code, reason = "used only on Unix"))]
    pub(super) fn unanswered(name: ProcessName, program: Option<String>, why: String) -> Self {
        let state = ProcessState {
            version: VERSION,
            process: name.number,
            namespace: name.namespace,
            program: program.unwrap_or_else(|| "-".to_owned()),
            profilers: Vec::new(),
            is_recording: false,
            trainings: Vec::new(),
            memory: None,
            activity: None,
            parent: None,
            launch: None,
        };
        Self { name, state, unanswered: Some(why) }
    }
}
