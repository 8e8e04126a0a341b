//! Memory data of one thread: sums per action, and the open call path.

use rustc_hash::FxHashMap;

use crate::allocation::thread::{self, Opened};
use crate::allocation::tracker::tracker;
use crate::recorder::Kind;
use crate::recorder::locked_table::{LockedTable, Measurement};
use mlprof_events::{Action, Tallies, uncounted};

pub(super) type MemoryTable = LockedTable<ScopeMemory>;

/// Memory data of the scopes of one thread.
#[derive(Default)]
pub(super) struct ScopeMemory {
    /// Open scopes, innermost last.
    open: Vec<Frame>,
    /// Open scopes that are detached, because their enclosing scope has ended.
    detached: Vec<Frame>,
    recorded: MemorySnapshot,
    /// Cache of nested paths, by the outer path and the action.
    paths: FxHashMap<(u32, Action), u32>,
}

/// An open scope.
struct Frame {
    number: u64,
    opened: Opened,
    /// Counts of the scopes directly inside.
    children: Tallies,
    /// Counts of scopes of other tables at the start; see [`thread::Thread::elsewhere`].
    elsewhere: Tallies,
    /// Path around the scope.
    outside: u32,
}

pub(super) type MemorySnapshot = FxHashMap<Action, Row>;

/// Sum of the calls of one action.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) calls: u64,
    /// Counts of calls that are not inside another call of the same action.
    pub(super) total: Tallies,
    /// Counts without nested actions.
    pub(super) own: Tallies,
    /// Highest peak of all calls in bytes.
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

impl ScopeMemory {
    fn path_inside(&mut self, path: u32, action: Action) -> u32 {
        let find = || tracker().paths.inside(path, action);
        *self.paths.entry((path, action)).or_insert_with(find)
    }

    /// Removes the frame of scope `number` and detaches the scopes inside it. The flag is `true` if
    /// the scope was itself detached.
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

impl Frame {
    /// Returns the counts of nested scopes, in this table and in others.
    fn inside(&self) -> Tallies {
        let mut inside = thread::with(|thread| thread.elsewhere()).since(&self.elsewhere);
        inside.add(&self.children);
        inside
    }
}

impl ScopeMemory {
    /// Adds the counts of an ended scope to its parent, which is in this table or in the table of
    /// an enclosing stage.
    fn count_in_parent(&mut self, frame: &Frame, total: &Tallies) {
        let mut elsewhere = frame.elsewhere;
        match self.open.last_mut() {
            Some(parent) => parent.children.add(total),
            None => elsewhere.add(total),
        }
        thread::with(|thread| thread.set_elsewhere(elsewhere));
    }
}

impl Measurement for ScopeMemory {
    type Snapshot = MemorySnapshot;
    type End = ();

    const KIND: Kind = Kind::Memory;

    fn open(&mut self, number: u64, action: Action) {
        thread::with(|thread| {
            let outside = thread.path();
            thread.set_path(self.path_inside(outside, action));
            self.open.push(Frame {
                number,
                opened: thread.open(),
                children: Tallies::ZERO,
                elsewhere: thread.elsewhere(),
                outside,
            });
        });
    }

    fn read_end() {}

    fn close(&mut self, number: u64, action: Action, is_outermost: bool, _end: ()) {
        let Some((frame, is_detached)) = self.take(number) else { return };
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
            self.count_in_parent(&frame, &total);
            own
        };
        let row = self.recorded.entry(action).or_default();
        row.calls += 1;
        row.own.add(&own);
        row.peak_bytes = row.peak_bytes.max(peak_bytes);
        if is_outermost {
            row.total.add(&total);
        }
    }

    fn snapshot(&self) -> MemorySnapshot {
        self.recorded.clone()
    }

    fn merge(into: &mut MemorySnapshot, from: &MemorySnapshot) {
        for (action, row) in from {
            into.entry(*action).or_default().merge(row);
        }
    }

    /// Runs the table's own work without counting its allocations.
    fn aside<R>(work: impl FnOnce() -> R) -> R {
        uncounted(work)
    }
}
