//! A profiler for tests of hooks that records every start and stop.

#![allow(dead_code, reason = "each test uses its share")]

use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

use mlprof_core::{Action, Interest, NeverStarted, Profiler, activate};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    Start(Action),
    Stop(Action),
}

#[derive(Debug)]
pub struct Recorder {
    interest: Interest,
    events: Mutex<Vec<(ThreadId, Event)>>,
}

impl Recorder {
    pub fn new(interest: Interest) -> Arc<Self> {
        Arc::new(Self { interest, events: Mutex::default() })
    }

    pub fn of_everything() -> Arc<Self> {
        Self::new(Interest::ACTIONS | Interest::FUNCTIONS)
    }

    fn note(&self, event: Event) {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        events.push((std::thread::current().id(), event));
    }

    /// Returns the events of `thread`.
    pub fn events_of(&self, thread: ThreadId) -> Vec<Event> {
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        events.iter().filter(|(of, _)| *of == thread).map(|(_, event)| *event).collect()
    }

    /// Returns the events of the calling thread.
    pub fn events(&self) -> Vec<Event> {
        self.events_of(std::thread::current().id())
    }

    /// Returns the events of the calling thread as text; see [`nesting`].
    pub fn nesting(&self) -> String {
        nesting(&self.events())
    }

    /// Returns the actions that the calling thread started, in order.
    pub fn started(&self) -> Vec<Action> {
        let started = |event| match event {
            Event::Start(action) => Some(action),
            Event::Stop(_) => None,
        };
        self.events().into_iter().filter_map(started).collect()
    }
}

/// Formats events as `outer(inner() inner())`, with `!name` for a stop that is not of the innermost
/// action.
pub fn nesting(events: &[Event]) -> String {
    let mut open = Vec::new();
    let mut text = String::new();
    for event in events {
        match event {
            Event::Start(action) => {
                if text.ends_with(')') {
                    text.push(' ');
                }
                write!(text, "{}(", action.name()).expect("a string");
                open.push(*action);
            }
            Event::Stop(action) if open.last() == Some(action) => {
                open.pop();
                text.push(')');
            }
            Event::Stop(action) => write!(text, "!{}", action.name()).expect("a string"),
        }
    }
    text
}

impl Profiler for Recorder {
    fn start(&self, action: Action) {
        self.note(Event::Start(action));
    }

    fn stop(&self, action: Action) -> Result<(), NeverStarted> {
        self.note(Event::Stop(action));
        Ok(())
    }

    fn interest(&self) -> Interest {
        self.interest
    }
}

/// Serialises the tests that activate a profiler, because the active profiler belongs to the whole
/// process.
pub fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Records the starts and stops of `work` on this thread.
pub fn record(work: impl FnOnce()) -> Arc<Recorder> {
    let _turn = turn();
    let recorder = Recorder::of_everything();
    let activated = activate(recorder.clone());
    work();
    drop(activated);
    recorder
}
