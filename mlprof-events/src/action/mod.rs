//! Interned action names: what is measured, as a 4-byte handle.
//!
//! Hot paths carry an [`Action`], never a string. A name is looked up once: at its callsite
//! ([`Callsite`], used by `profile!` and `#[profiled]`), through a small
//! table keyed by the literal's address (`"name".into()`), or through the interner
//! ([`Action::new`]) for names made at run time. The last costs about four times as much as all else
//! of a scope together: keep the [`Action`] where a name is used again and again.
//!
//! *Memory*: names are kept for the life of the process, each once, so it depends on the number of
//! different names and not on the number of calls. A name that contains a counter
//! (`format!("step {i}")`) is a new name every time: keep counters out of names.

mod entries;
mod images;
mod literals;

use std::cell::Cell;
use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, PoisonError, RwLock};

use serde::{Deserialize, Serialize};

use crate::forking::apart_from_forks;

/// What an [`Action`] stands for. Decides which profilers want it (see
/// [`Interest`](crate::Interest)) and how reports show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActionKind {
    /// Something a training loop or a user does: `optimizer_step`, `run_training_batch`, …
    Action,
    /// A function or method that carries `#[profiled]`.
    Function,
    /// A `tracing` span seen through the layer of the `tracing` feature.
    Span,
    /// The forward of a layer of a model.
    Module,
    /// A tensor op of a framework: `aten::matmul`, `conv2d`, …
    Op,
    /// The call that hands a kernel or a copy to a device: `cudaLaunchKernel`, …
    Launch,
    /// What runs on a device: a kernel, a copy, a fill.
    Kernel,
    /// A training step of a [schedule](crate::Schedule): `ProfilerStep#3`.
    Step,
}

impl ActionKind {
    /// All of them, in order.
    #[doc(hidden)]
    pub const ALL: [Self; 8] = [
        Self::Action,
        Self::Function,
        Self::Span,
        Self::Module,
        Self::Op,
        Self::Launch,
        Self::Kernel,
        Self::Step,
    ];

    /// The kind with this place among [all](Self::ALL); without a table, which would be one load more.
    #[inline(always)]
    pub(crate) const fn of_number(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::Action,
            1 => Self::Function,
            2 => Self::Span,
            3 => Self::Module,
            4 => Self::Op,
            5 => Self::Launch,
            6 => Self::Kernel,
            7 => Self::Step,
            _ => return None,
        })
    }

    /// Whether training loops and users start it, as opposed to the code below: what has a table of
    /// its own in the Advanced report.
    #[doc(hidden)]
    pub const fn is_action(self) -> bool {
        matches!(self, Self::Action | Self::Module | Self::Step)
    }
}

/// Where in the source an [`Action`] is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SourceLocation {
    /// The file, as `file!()` gives it.
    pub file: &'static str,
    /// The line, counted from 1.
    pub line: u32,
}

/// A named thing that can be started and stopped, as a 4-byte handle.
///
/// Two actions are equal when kind, name and source location are equal. Copying, comparing and
/// hashing cost what they cost for a `u32`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Action(NonZeroU32);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Entry<'name> {
    kind: ActionKind,
    name: &'name str,
    location: Option<SourceLocation>,
    /// Whether it is what goes on of the action, and no call of it.
    is_resumption: bool,
}

impl<'name> Entry<'name> {
    const fn new(kind: ActionKind, name: &'name str, location: Option<SourceLocation>) -> Self {
        Self { kind, name, location, is_resumption: false }
    }
}

/// From names to actions; the other way goes by the [`entries`].
#[derive(Default)]
struct Interner {
    actions: HashMap<Entry<'static>, Action>,
}

static INTERNER: LazyLock<RwLock<Interner>> = LazyLock::new(|| {
    let mut interner = Interner::default();
    interner.insert(WITHIN);
    RwLock::new(interner)
});

/// What is looked up from inside of a look-up.
const WITHIN: Entry<'static> = Entry {
    kind: ActionKind::Action,
    name: "(inside of the profiler)",
    location: None,
    is_resumption: false,
};

/// Does what takes the lock of the names; `None` if that is what this thread is doing already. Then a
/// signal handler has interrupted it, or its memory comes from an allocator that is measured: waiting
/// for the lock would never end.
fn interning<T>(work: impl FnOnce() -> T) -> Option<T> {
    thread_local!(static IS_INTERNING: Cell<bool> = const { Cell::new(false) });
    struct Done;
    impl Drop for Done {
        fn drop(&mut self) {
            IS_INTERNING.set(false);
        }
    }
    if IS_INTERNING.replace(true) {
        return None;
    }
    let _done = Done;
    Some(apart_from_forks(work))
}

impl Interner {
    fn insert(&mut self, entry: Entry<'_>) -> Action {
        if let Some(action) = self.actions.get(&entry) {
            return *action;
        }
        let name: &'static str = Box::leak(entry.name.into());
        let entry = Entry { name, ..entry };
        let number = u32::try_from(self.actions.len() + 1).ok().and_then(NonZeroU32::new);
        // 4 billion leaked names are out of memory long before.
        let action = Action(number.unwrap_or(NonZeroU32::MAX));
        entries::set(action.index(), entry);
        self.actions.insert(entry, action);
        action
    }
}

impl Action {
    /// Stands for any action that is looked up from inside of a look-up: in a signal handler, or in the
    /// program's allocator.
    #[doc(hidden)]
    pub const WITHIN: Self = Self(NonZeroU32::MIN);

    /// The action with this name, without a source location.
    ///
    /// *Cost*: a hash look-up under a read lock (some 50 ns; with `format!` before it a scope costs four
    /// times what one by a literal does); a name seen for the first time is copied. Keep the handle
    /// where that is too much.
    pub fn new(name: &str) -> Self {
        Self::intern(Entry::new(ActionKind::Action, name, None))
    }

    /// The tensor op with this name, as its framework calls it. *Cost*: as [`new`](Self::new).
    #[doc(hidden)]
    pub fn op(name: &str) -> Self {
        Self::of_kind(ActionKind::Op, name, None)
    }

    /// The layer of a model of this type at this path; see [`names::module`](crate::names::module).
    /// *Cost*: as [`new`](Self::new).
    #[doc(hidden)]
    pub fn module(type_name: &str, path: &str) -> Self {
        Self::of_kind(ActionKind::Module, &crate::names::module(type_name, path), None)
    }

    /// The action with this kind, name and location. *Cost*: as [`new`](Self::new).
    #[doc(hidden)]
    pub fn with_location(kind: ActionKind, name: &str, location: SourceLocation) -> Self {
        Self::intern(Entry::new(kind, name, Some(location)))
    }

    /// The action with this kind and name, and a location if the hook knows one. *Cost*: as
    /// [`new`](Self::new).
    #[doc(hidden)]
    pub fn of_kind(kind: ActionKind, name: &str, location: Option<SourceLocation>) -> Self {
        Self::intern(Entry::new(kind, name, location))
    }

    /// What goes on of a call of it: a poll of an async function after the first. Its time is the
    /// function's; it is no call. *Cost*: as [`new`](Self::new).
    #[doc(hidden)]
    pub fn resumption(self) -> Self {
        Self::intern(Entry { is_resumption: true, ..*self.entry() })
    }

    /// What goes on, of a [resumption](Self::resumption). *Cost*: as [`new`](Self::new) of one, else a few
    /// loads.
    #[doc(hidden)]
    pub fn resumed(self) -> Option<Self> {
        let entry = self.entry();
        let resumed = Entry { is_resumption: false, ..*entry };
        entry.is_resumption.then(|| Self::intern(resumed))
    }

    fn intern(entry: Entry<'_>) -> Self {
        interning(|| Self::intern_now(entry)).unwrap_or(Self::WITHIN)
    }

    fn intern_now(entry: Entry<'_>) -> Self {
        let known = {
            let interner = INTERNER.read().unwrap_or_else(PoisonError::into_inner);
            // Shortening the map's lifetime lets a borrowed name be looked up without a copy.
            let actions: &HashMap<Entry<'_>, Action> = &interner.actions;
            actions.get(&entry).copied()
        };
        known.unwrap_or_else(|| {
            // Names are kept by the profiler: not what the program allocated.
            crate::uncounted(|| {
                INTERNER.write().unwrap_or_else(PoisonError::into_inner).insert(entry)
            })
        })
    }

    #[inline]
    fn entry(self) -> &'static Entry<'static> {
        entries::get(self.index()).unwrap_or_else(|| self.entry_as_of_now())
    }

    /// A thread may come to know the handle before it sees what the one that made it has stored.
    #[cold]
    fn entry_as_of_now(self) -> &'static Entry<'static> {
        interning(|| drop(INTERNER.write()));
        entries::get(self.index()).unwrap_or(&WITHIN)
    }

    /// The name. *Cost*: a few loads, as for [`kind`](Self::kind) and [`location`](Self::location).
    pub fn name(self) -> &'static str {
        self.entry().name
    }

    /// What the action stands for.
    #[inline]
    pub fn kind(self) -> ActionKind {
        entries::kind_of_early(self.index()).unwrap_or_else(|| self.entry().kind)
    }

    /// Where it is written, if it was made at a callsite that knows.
    pub fn location(self) -> Option<SourceLocation> {
        self.entry().location
    }

    /// A small number, dense from 0 over all actions of the process: an index for tables.
    #[doc(hidden)]
    #[inline(always)]
    pub fn index(self) -> usize {
        self.0.get() as usize - 1
    }

    /// The handle as a number that is never 0, for storage in atomics.
    #[doc(hidden)]
    #[inline(always)]
    pub fn number(self) -> u32 {
        self.0.get()
    }

    /// The action of a [`number`](Self::number); none for 0.
    #[doc(hidden)]
    pub fn from_number(number: u32) -> Option<Self> {
        NonZeroU32::new(number).map(Self)
    }
}

impl std::fmt::Debug for Action {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Action({:?})", self.name())
    }
}

impl From<&String> for Action {
    fn from(name: &String) -> Self {
        Self::new(name)
    }
}

impl From<String> for Action {
    fn from(name: String) -> Self {
        Self::new(&name)
    }
}

impl From<std::borrow::Cow<'static, str>> for Action {
    fn from(name: std::borrow::Cow<'static, str>) -> Self {
        match name {
            std::borrow::Cow::Borrowed(name) => name.into(),
            std::borrow::Cow::Owned(name) => name.into(),
        }
    }
}

/// A place in the source that starts an action: resolves its name once per process.
///
/// *Cost* of [`action`](Self::action): one relaxed load.
#[derive(Debug)]
pub struct Callsite {
    // 0 while unresolved. Several threads may resolve at once: they all store the same number.
    action: AtomicU32,
    kind: ActionKind,
    name: &'static str,
    location: Option<SourceLocation>,
}

impl Callsite {
    /// A callsite of a named action. Its location is left out, so that an action started in two
    /// places is one row.
    pub const fn action_named(name: &'static str) -> Self {
        Self { action: AtomicU32::new(0), kind: ActionKind::Action, name, location: None }
    }

    /// A callsite of a function written at `file:line`.
    pub const fn function(name: &'static str, file: &'static str, line: u32) -> Self {
        Self {
            action: AtomicU32::new(0),
            kind: ActionKind::Function,
            name,
            location: Some(SourceLocation { file, line }),
        }
    }

    /// The action started here.
    #[inline(always)]
    pub fn action(&self) -> Action {
        match NonZeroU32::new(self.action.load(Ordering::Relaxed)) {
            Some(number) => Action(number),
            None => self.resolve(),
        }
    }

    #[cold]
    #[inline(never)]
    fn resolve(&self) -> Action {
        let entry = Entry::new(self.kind, self.name, self.location);
        let action = Action::intern(entry);
        if action != Action::WITHIN {
            self.action.store(action.0.get(), Ordering::Relaxed);
        }
        action
    }
}

#[cfg(test)]
mod tests;
