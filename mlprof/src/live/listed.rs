//! A process that listens, whether it answers or not.

use mlprof_events::live::{ProcessState, VERSION};
use serde::Serialize;

use super::ProcessName;

/// A process that listens.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Listed {
    /// Name by which the other commands find it.
    #[serde(serialize_with = "as_text")]
    pub(super) name: ProcessName,
    /// Its answer; nearly empty if it has not answered.
    #[serde(flatten)]
    pub(super) state: ProcessState,
    /// Why there is no answer, if there is none.
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

    /// `program`: its file name, if that can be seen from outside.
    #[cfg_attr(not(unix), expect(dead_code, reason = "nobody is asked"))]
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
