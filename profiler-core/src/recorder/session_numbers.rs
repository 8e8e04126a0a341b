//! The numbers of sessions, by which samples of stacks are told apart.

use super::{Recorder, Session, Table};
use crate::Stage;

/// Which sessions there are at one moment.
pub(crate) struct SessionNumbers {
    /// The one that threads record into.
    pub(crate) current: u64,
    /// Those of the report, each with the stage inside the reported one that it is.
    pub(crate) reported: Vec<(u64, Option<Stage>)>,
    /// All that may be reported yet.
    pub(crate) alive: Vec<u64>,
}

impl<T: Table> Recorder<T> {
    /// The sessions, and which of them [`collect`](Self::collect) reports now.
    pub(crate) fn session_numbers(&self) -> SessionNumbers {
        let sessions = self.sessions();
        let position = sessions.reported();
        let mut reported = Vec::new();
        match &sessions.finished {
            Some(finished) if sessions.running[position].is_idle() => {
                finished.add_numbers(None, &mut reported);
            }
            _ => {
                let (until, inside) = sessions.running.split_at(position + 1);
                until[position].add_numbers(None, &mut reported);
                inside.iter().for_each(|session| session.add_numbers(session.stage, &mut reported));
            }
        }
        let mut alive = Vec::new();
        let all = sessions.running.iter().chain(&sessions.finished);
        all.for_each(|session| session.add_numbers(None, &mut alive));
        SessionNumbers {
            current: sessions.running.last().map_or(0, |session| session.number),
            reported,
            alive: alive.into_iter().map(|(number, _)| number).collect(),
        }
    }
}

impl<T: Table> Session<T> {
    fn add_numbers(&self, stage: Option<Stage>, numbers: &mut Vec<(u64, Option<Stage>)>) {
        numbers.push((self.number, stage));
        self.inner.iter().for_each(|inner| inner.add_numbers(inner.stage, numbers));
    }
}
