//! A simple model of the counts in profilers, without threads, tables and clocks.

use mlprof_core::Stage;

/// Number of actions in a case.
pub const ACTIONS: usize = 6;

/// A stage, or the time outside all stages.
struct Session {
    number: usize,
    stage: Option<Stage>,
    calls: [u64; ACTIONS],
    /// Set when any thread has started an action.
    is_used: bool,
    /// Completed stages inside this one.
    inner: Vec<Session>,
}

impl Session {
    fn has(&self, number: usize) -> bool {
        self.number == number || self.inner.iter().any(|inner| inner.has(number))
    }

    fn find(&mut self, number: usize) -> Option<&mut Self> {
        if self.number == number {
            return Some(self);
        }
        self.inner.iter_mut().find_map(|inner| inner.find(number))
    }

    fn add_to(&self, calls: &mut [u64; ACTIONS]) {
        calls.iter_mut().zip(self.calls).for_each(|(sum, calls)| *sum += calls);
        self.inner.iter().for_each(|inner| inner.add_to(calls));
    }
}

/// Open calls of one thread in one session.
struct Open {
    session: usize,
    /// Number of open calls by action.
    calls: [u64; ACTIONS],
}

/// A model of a profiler that receives the same operations.
pub struct Model {
    /// Running sessions, innermost last. Never empty.
    running: Vec<Session>,
    finished: Option<Session>,
    /// Open calls by thread, and by session in the order of the thread's first use.
    open: Vec<Vec<Open>>,
    sessions: usize,
}

impl Model {
    pub fn new(threads: usize) -> Self {
        let open = (0..threads).map(|_| Vec::new()).collect();
        let mut model = Self { running: Vec::new(), finished: None, open, sessions: 0 };
        model.run(None);
        model
    }

    fn run(&mut self, stage: Option<Stage>) {
        self.sessions += 1;
        let (number, calls) = (self.sessions, [0; ACTIONS]);
        self.running.push(Session { number, stage, calls, is_used: false, inner: Vec::new() });
    }

    pub fn start(&mut self, thread: usize, action: usize) {
        let Some(session) = self.running.last_mut() else { return };
        session.is_used = true;
        let number = session.number;
        let open = &mut self.open[thread];
        if !open.iter().any(|open| open.session == number) {
            open.push(Open { session: number, calls: [0; ACTIONS] });
        }
        open.iter_mut()
            .filter(|open| open.session == number)
            .for_each(|open| open.calls[action] += 1);
    }

    /// Stops a call in the running stage, or otherwise in the latest stage with such a call.
    /// Returns `true` if there was one.
    pub fn stop(&mut self, thread: usize, action: usize) -> bool {
        let current = self.running.last().map(|session| session.number);
        let open = &mut self.open[thread];
        let has = |open: &Open| open.calls[action] > 0;
        let found = open.iter().position(|open| Some(open.session) == current && has(open));
        let Some(found) = found.or_else(|| open.iter().rposition(has)) else { return false };
        open[found].calls[action] -= 1;
        let number = open[found].session;
        let mut sessions = self.running.iter_mut().chain(&mut self.finished);
        if let Some(session) = sessions.find_map(|session| session.find(number)) {
            session.calls[action] += 1;
        }
        true
    }

    pub fn begin(&mut self, stage: Stage) {
        if let Some(again) = self.running.iter().position(|run| run.stage == Some(stage)) {
            self.running.truncate(again);
        }
        self.finished = None;
        match self.running.last_mut() {
            Some(outside) if outside.stage.is_none() && outside.is_used => {
                outside.stage = Some(stage);
                return;
            }
            Some(outside) if outside.stage.is_none() => drop(self.running.pop()),
            _ => {}
        }
        self.run(Some(stage));
    }

    fn reported(&self) -> usize {
        let has_report = |session: &Session| session.stage != Some(Stage::SanityCheck);
        self.running.iter().rposition(has_report).unwrap_or(0)
    }

    pub fn end(&mut self, stage: Option<Stage>) {
        let position = match stage {
            None => Some(self.reported()),
            Some(_) => self.running.iter().rposition(|session| session.stage == stage),
        };
        let Some(position) = position.filter(|at| self.running[*at].stage.is_some()) else {
            return;
        };
        let inner = self.running.split_off(position + 1);
        let Some(mut session) = self.running.pop() else { return };
        session.inner.extend(inner);
        match (session.stage, self.running.last_mut()) {
            (Some(Stage::SanityCheck), Some(outer)) => outer.inner.push(session),
            _ => self.finished = Some(session),
        }
        if self.running.is_empty() {
            self.run(None);
        }
    }

    /// Returns the expected report: the number of calls of each action, and the number of open
    /// calls.
    pub fn report(&self) -> ([u64; ACTIONS], u64) {
        let position = self.reported();
        let is_idle = |session: &Session| session.stage.is_none() && !session.is_used;
        let reported: Vec<&Session> = match &self.finished {
            Some(finished) if is_idle(&self.running[position]) => vec![finished],
            _ => self.running[position..].iter().collect(),
        };
        let mut calls = [0; ACTIONS];
        reported.iter().for_each(|session| session.add_to(&mut calls));
        let is_reported = |number| reported.iter().any(|session| session.has(number));
        let open = self.open.iter().flatten().filter(|open| is_reported(open.session));
        (calls, open.map(|open| open.calls.iter().sum::<u64>()).sum())
    }
}
