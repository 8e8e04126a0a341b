//! Line profile data of one function on one thread.

use std::sync::OnceLock;

use super::memory;
use mlprof_events::clock::Clock;
use mlprof_events::forking::made_once;
use mlprof_events::sync::Tally;

/// Marks that no point of the function is running.
pub(super) const NOWHERE: u32 = u32::MAX;

/// Tallies of one function on one thread. Times are in clock ticks.
///
/// *Invariant*: one thread at a time writes. When a line ends, the writer first stores `since` and
/// `running` of the next line, and then adds the time of the ended line. A reader loads the times
/// first, and `running` and `since` afterwards. It therefore never counts an interval twice. It may
/// miss the ended line's time while the writer is between these stores.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Block {
    /// Clock ticks at which `running` began.
    since: Tally,
    /// The running point, or [`NOWHERE`].
    running: Tally,
    calls: Tally,
    memory: memory::State,
    lines: Box<[Line]>,
}

#[derive(Debug)]
struct Line {
    hits: Tally,
    ticks: Tally,
    memory: memory::Line,
}

/// Copy of one point's tallies.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LineSnapshot {
    pub hits: u64,
    pub ticks: u64,
    pub memory: memory::Snapshot,
}

static CLOCK: OnceLock<Clock> = OnceLock::new();

#[inline(always)]
pub(super) fn now() -> u64 {
    made_once(&CLOCK, Clock::new).now()
}

impl Block {
    pub fn new(points: usize) -> Self {
        let zero = || Tally::new(0);
        let line = || Line { hits: zero(), ticks: zero(), memory: memory::Line::new() };
        Self {
            since: zero(),
            running: Tally::new(u64::from(NOWHERE)),
            calls: zero(),
            memory: memory::State::new(),
            lines: (0..points).map(|_| line()).collect(),
        }
    }

    /// Ends the running point and starts `next`. Returns the point that was running.
    #[inline(always)]
    fn change(&self, next: u32) -> u32 {
        let now = now();
        let (since, before) = (self.since.get(), self.running.get());
        self.since.set(now);
        self.running.publish(u64::from(next));
        let line = self.lines.get(before as usize);
        if let Some(line) = line {
            // The clock may be behind on another core. The difference then counts as 0.
            line.ticks.publish(line.ticks.get() + now.saturating_sub(since));
        }
        if memory::is_wanted() {
            self.memory.change(line.map(|line| &line.memory));
        }
        before as u32
    }

    /// Begins a call, or a part of one. Returns the point that was running.
    pub fn enter(&self, is_call: bool) -> u32 {
        if is_call {
            self.calls.add(1);
        }
        let outer = self.change(NOWHERE);
        if outer == NOWHERE && memory::is_wanted() {
            self.memory.enter();
        }
        outer
    }

    #[inline(always)]
    pub fn at(&self, point: u32) {
        self.change(point);
        if let Some(line) = self.lines.get(point as usize) {
            line.hits.add(1);
        }
    }

    #[inline(always)]
    pub fn back(&self, point: u32) {
        self.change(point);
    }

    /// Continues `point`, like [`back`](Self::back), in a frame that was not running. Returns the
    /// point that was running.
    pub fn begin(&self, point: u32) -> u32 {
        self.change(point)
    }

    /// Ends or suspends a frame and continues the point `outer`.
    #[inline(always)]
    pub fn end(&self, outer: u32) {
        self.change(outer);
        if outer == NOWHERE && memory::is_wanted() {
            self.memory.leave();
        }
    }

    /// Stops the running point because its thread has ended.
    pub fn abandon(&self) {
        self.running.publish(u64::from(NOWHERE));
    }

    /// Resets all tallies in a forked child, before any other access. The running point continues
    /// only if `goes_on` is `true`.
    pub fn restart(&self, goes_on: bool) {
        self.calls.set(0);
        self.memory.restart();
        for line in &self.lines {
            line.hits.set(0);
            line.ticks.publish(0);
            line.memory.restart();
        }
        self.since.set(now());
        if !goes_on {
            self.abandon();
        }
    }

    pub fn has_run(&self) -> bool {
        self.calls() > 0 || self.lines.iter().any(|line| line.hits.get() > 0)
    }

    pub fn calls(&self) -> u64 {
        self.calls.get()
    }

    /// Returns the memory statistics at the beginning of calls.
    pub fn entry(&self) -> memory::Snapshot {
        self.memory.entry()
    }

    /// Returns a copy of all points. The running point is counted up to `now`.
    pub fn snapshot(&self, now: u64) -> Vec<LineSnapshot> {
        let copy = |line: &Line| LineSnapshot {
            hits: line.hits.get(),
            ticks: line.ticks.get_published(),
            memory: line.memory.snapshot(),
        };
        let mut lines: Vec<_> = self.lines.iter().map(copy).collect();
        let running = self.running.get_published();
        let since = self.since.get();
        if let Some(line) = lines.get_mut(running as usize) {
            line.ticks += now.saturating_sub(since);
        }
        lines
    }
}
