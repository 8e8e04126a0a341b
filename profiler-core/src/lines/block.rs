//! What one thread records of one function.

use std::sync::OnceLock;

use super::memory;
use mlprof_events::clock::Clock;
use mlprof_events::forking::made_once;
use mlprof_events::sync::Tally;

/// No point: nothing of the function is running.
pub(super) const NOWHERE: u32 = u32::MAX;

/// The tallies of one function on one thread. Times in ticks.
///
/// *Invariant*: one thread at a time writes. Whoever stores that a line ended stores first since when
/// the next one runs; a reader that reads in the other order never finds the same time twice, and
/// what it misses is as short as the writing.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Block {
    /// Since when `running` runs.
    since: Tally,
    /// A point or [`NOWHERE`].
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

/// A copy of one point's tallies.
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

    /// Ends what runs; `next` runs from now on. Returns what ran.
    #[inline(always)]
    fn change(&self, next: u32) -> u32 {
        let now = now();
        let (since, before) = (self.since.get(), self.running.get());
        self.since.set(now);
        self.running.publish(u64::from(next));
        let line = self.lines.get(before as usize);
        if let Some(line) = line {
            // A counter that goes back, on another core, makes no time of it.
            line.ticks.publish(line.ticks.get() + now.saturating_sub(since));
        }
        if memory::is_wanted() {
            self.memory.change(line.map(|line| &line.memory));
        }
        before as u32
    }

    /// A call begins, or a part of one. Returns what ran.
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

    /// As [`back`](Self::back), of a frame that was not running. Returns what ran.
    pub fn begin(&self, point: u32) -> u32 {
        self.change(point)
    }

    /// A frame ends, or stops for a while; `outer` goes on.
    #[inline(always)]
    pub fn end(&self, outer: u32) {
        self.change(outer);
        if outer == NOWHERE && memory::is_wanted() {
            self.memory.leave();
        }
    }

    /// The thread is gone, and what it had open is not running any more.
    pub fn abandon(&self) {
        self.running.publish(u64::from(NOWHERE));
    }

    /// Nothing was recorded yet; what runs goes on only if `goes_on`. In a forked child, before
    /// anything writes or reads there.
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

    /// What the calls found when they began.
    pub fn entry(&self) -> memory::Snapshot {
        self.memory.entry()
    }

    /// All points; what runs has run until `now`.
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
