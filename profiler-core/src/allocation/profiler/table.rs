//! What one thread records about memory: sums per action, and which call path is open.

use std::ptr;
use std::sync::PoisonError;

use rustc_hash::FxHashMap;

use crate::NeverStarted;
use crate::allocation::thread::{self, Opened};
use crate::allocation::tracker::tracker;
use crate::recorder::nesting::Nesting;
use crate::recorder::stack::{Overtaken, Stack};
use crate::recorder::{Kind, Table};
use profiler_events::Action;
use profiler_events::clock::Clock;
use profiler_events::forking::{Mutex, MutexGuard};
use profiler_events::{Tallies, uncounted};

pub(super) struct MemoryTable {
    /// Which scopes are open. Frames hold, instead of a time, the number of their scope.
    stack: Stack<()>,
    /// Only reports contend for it.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The number of the scope opened last.
    last: u64,
    /// The innermost last.
    open: Vec<Frame>,
    /// Those whose surrounding scope has ended.
    detached: Vec<Frame>,
    nesting: Nesting,
    recorded: MemorySnapshot,
    /// The path inside of a path, by the action that leads there.
    paths: FxHashMap<(u32, Action), u32>,
}

/// An open scope.
struct Frame {
    number: u64,
    opened: Opened,
    /// What the scopes directly inside counted.
    children: Tallies,
    /// What scopes of other tables had counted at the start; see [`thread::Thread::elsewhere`].
    elsewhere: Tallies,
    /// The path around it.
    outside: u32,
}

pub(super) type MemorySnapshot = FxHashMap<Action, Row>;

/// What the calls of one action counted together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) calls: u64,
    /// Of calls that are not inside another one of the same action.
    pub(super) total: Tallies,
    /// Without the actions inside.
    pub(super) own: Tallies,
    /// Of the call with the highest.
    pub(super) peak_bytes: u64,
}

impl Row {
    pub(super) fn merge(&mut self, other: &Self) {
        self.calls += other.calls;
        self.total.add(&other.total);
        self.own.add(&other.own);
        self.peak_bytes = self.peak_bytes.max(other.peak_bytes);
    }
}

impl State {
    fn path_inside(&mut self, path: u32, action: Action) -> u32 {
        let find = || tracker().paths.inside(path, action);
        *self.paths.entry((path, action)).or_insert_with(find)
    }

    /// Takes the frame of scope `number` out; those inside of it are detached.
    fn take(&mut self, number: u64) -> Option<(Frame, bool)> {
        match self.open.iter().rposition(|frame| frame.number == number) {
            Some(index) => {
                self.detached.extend(self.open.drain(index + 1..));
                self.open.pop().map(|frame| (frame, false))
            }
            None => {
                let index = self.detached.iter().position(|frame| frame.number == number)?;
                Some((self.detached.swap_remove(index), true))
            }
        }
    }
}

impl MemoryTable {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, action: Action) {
        uncounted(|| {
            let mut state = self.state();
            state.last += 1;
            let number = state.last;
            let is_recursive = state.nesting.open(action);
            self.stack.push_any(action, ptr::null(), is_recursive, || number);
            thread::with(|thread| {
                let outside = thread.path();
                thread.set_path(state.path_inside(outside, action));
                state.open.push(Frame {
                    number,
                    opened: thread.open(),
                    children: Tallies::ZERO,
                    elsewhere: thread.elsewhere(),
                    outside,
                });
            });
        });
    }

    fn close(&self, action: Action) -> bool {
        uncounted(|| {
            let mut state = self.state();
            let nesting = &mut state.nesting;
            let on_detach = |scope: &Overtaken<()>| nesting.close(scope.action);
            let Some(closed) = self.stack.pop_any(action, 0, on_detach) else { return false };
            if !closed.is_detached {
                state.nesting.close(action);
            }
            let Some((frame, is_detached)) = state.take(closed.started) else { return true };
            let (total, peak_bytes) = thread::with(|thread| {
                if !is_detached {
                    thread.set_path(frame.outside);
                }
                thread.close(&frame.opened)
            });
            let own = if is_detached {
                total.since(&frame.children)
            } else {
                let own = total.since(&frame.inside());
                state.count_in_parent(&frame, &total);
                own
            };
            let row = state.recorded.entry(action).or_default();
            row.calls += 1;
            row.own.add(&own);
            row.peak_bytes = row.peak_bytes.max(peak_bytes);
            if closed.is_outermost {
                row.total.add(&total);
            }
            true
        })
    }
}

impl Frame {
    /// What was counted in scopes inside, of this table and of others.
    fn inside(&self) -> Tallies {
        let mut inside = thread::with(|thread| thread.elsewhere()).since(&self.elsewhere);
        inside.add(&self.children);
        inside
    }
}

impl State {
    /// A scope that has ended is inside the one around it: of this table, or of that of the stage
    /// around the running one.
    fn count_in_parent(&mut self, frame: &Frame, total: &Tallies) {
        let mut elsewhere = frame.elsewhere;
        match self.open.last_mut() {
            Some(parent) => parent.children.add(total),
            None => elsewhere.add(total),
        }
        thread::with(|thread| thread.set_elsewhere(elsewhere));
    }
}

impl Table for MemoryTable {
    type Snapshot = MemorySnapshot;
    type Record = ();

    const KIND: Kind = Kind::Memory;

    fn new() -> Self {
        Self { stack: Stack::new(), state: Mutex::default() }
    }

    fn start(&self, action: Action, _clock: &Clock) {
        self.open(action);
    }

    fn start_slow(&self, action: Action, _clock: &Clock) {
        self.open(action);
    }

    fn stop(
        &self,
        action: Action,
        elsewhere: impl FnOnce() -> Result<(), NeverStarted>,
    ) -> Result<(), NeverStarted> {
        if self.close(action) { Ok(()) } else { elsewhere() }
    }

    fn stop_slow(&self, action: Action, _clock: &Clock) -> bool {
        self.close(action)
    }

    fn stack(&self) -> &Stack<()> {
        &self.stack
    }

    fn snapshot(&self) -> MemorySnapshot {
        self.state().recorded.clone()
    }

    fn merge(into: &mut MemorySnapshot, from: &MemorySnapshot) {
        for (action, row) in from {
            into.entry(*action).or_default().merge(row);
        }
    }
}
