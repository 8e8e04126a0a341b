//! Session numbers, which attribute stack samples to sessions.

use super::{Recorder, Session, Table};
use crate::Stage;

/// Session numbers at one moment.
pub(crate) struct SessionNumbers {
    /// Number of the session that threads record into.
    pub(crate) current: u64,
    /// Numbers of the reported sessions, each with its stage inside the reported one.
    pub(crate) reported: Vec<(u64, Option<Stage>)>,
    /// Numbers of all sessions that a report may still cover.
    pub(crate) alive: Vec<u64>,
}

impl<T: Table> Recorder<T> {
    /// Returns the session numbers, including those that [`collect`](Self::collect) would report
    /// now.
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
