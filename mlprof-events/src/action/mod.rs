//! Interned action names: an action is a 4-byte handle.
//!
//! Hot paths carry an [`Action`], never a string. A name is looked up once, in one of three ways:
//!
//! - at its call site ([`Callsite`], used by `profile!` and `#[profiled]`)
//! - in a small table keyed by the literal's address (`"name".into()`)
//! - in the interner ([`Action::new`]), for names made at run time
//!
//! The last takes about four times as long as the rest of a scope, so keep the [`Action`] if a name
//! is used repeatedly.
//!
//! *Memory*: each name is stored once and kept for the life of the process. Memory therefore grows
//! with the number of different names, not with the number of calls. A name that contains a counter
//! (`format!("step {i}")`) is a new name every time, so keep counters out of names.

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

/// Kind of work that an [`Action`] represents. The kind decides which profilers receive the action
/// (see [`Interest`](crate::Interest)) and how reports show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActionKind {
    /// Work of a training loop or of the user: `optimizer_step`, `run_training_batch`, …
    Action,
    /// A function or method with the attribute `#[profiled]`.
    Function,
    /// A `tracing` span recorded by the layer of the `tracing` feature.
    Span,
    /// The forward of a layer of a model.
    Module,
    /// A tensor op of a framework: `aten::matmul`, `conv2d`, …
    Op,
    /// The driver call that submits a kernel or a copy to a device: `cudaLaunchKernel`, …
    Launch,
    /// Work on a device: a kernel, a copy or a fill.
    Kernel,
    /// A training step of a [schedule](crate::Schedule): `ProfilerStep#3`.
    Step,
}

impl ActionKind {
    /// All kinds, in the order of their numbers.
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

    /// Returns the kind at this index of [`ALL`](Self::ALL). A `match` saves the load that an array
    /// access would need.
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

    /// Returns `true` for kinds that training loops and users start. The Advanced report has a
    /// table of its own for them, separate from lower-level work.
    #[doc(hidden)]
    pub const fn is_action(self) -> bool {
        matches!(self, Self::Action | Self::Module | Self::Step)
    }
}

/// Source location of an [`Action`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SourceLocation {
    /// Path of the file, as returned by `file!()`.
    pub file: &'static str,
    /// Line number, counted from 1.
    pub line: u32,
}

/// A named piece of work that can be started and stopped, as a 4-byte handle.
///
/// Two actions are equal if their kind, name and source location are equal. Copying, comparing and
/// hashing cost as much as for a `u32`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Action(NonZeroU32);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Entry<'name> {
    kind: ActionKind,
    name: &'name str,
    location: Option<SourceLocation>,
    /// Set for the continuation of a function, which is not counted as a call.
    is_resumption: bool,
}

impl<'name> Entry<'name> {
    const fn new(kind: ActionKind, name: &'name str, location: Option<SourceLocation>) -> Self {
        Self { kind, name, location, is_resumption: false }
    }
}

/// Map from names to actions. The opposite direction is the table in [`entries`].
#[derive(Default)]
struct Interner {
    actions: HashMap<Entry<'static>, Action>,
}

static INTERNER: LazyLock<RwLock<Interner>> = LazyLock::new(|| {
    let mut interner = Interner::default();
    interner.insert(WITHIN);
    RwLock::new(interner)
});

/// Entry of every action that is looked up while the same thread is already in a look-up.
const WITHIN: Entry<'static> = Entry {
    kind: ActionKind::Action,
    name: "(inside of the profiler)",
    location: None,
    is_resumption: false,
};

/// Runs `work`, which takes the lock of the names. Returns `None` if this thread is already in such
/// a call, because waiting for the lock would then never end. That happens in a signal handler, or
/// if a profiled allocator provides the memory for the look-up.
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
        // The process runs out of memory long before it has leaked 4 billion names.
        let action = Action(number.unwrap_or(NonZeroU32::MAX));
        entries::set(action.index(), entry);
        self.actions.insert(entry, action);
        action
    }
}

impl Action {
    /// Placeholder for an action that is looked up during another look-up: in a signal handler or
    /// in the program's allocator.
    #[doc(hidden)]
    pub const WITHIN: Self = Self(NonZeroU32::MIN);

    /// Returns the action with this name, without a source location.
    ///
    /// *Cost*: a hash look-up under a read lock, about 50 ns. With a preceding `format!` a scope
    /// costs four times as much as with a literal. A name is copied when it is first seen. Keep the
    /// handle if this cost is too high.
    pub fn new(name: &str) -> Self {
        Self::intern(Entry::new(ActionKind::Action, name, None))
    }

    /// Returns the tensor op with this name, as its framework spells it. *Cost*: that of
    /// [`new`](Self::new).
    #[doc(hidden)]
    pub fn op(name: &str) -> Self {
        Self::of_kind(ActionKind::Op, name, None)
    }

    /// Returns the model layer of this type at this path; see
    /// [`names::module`](crate::names::module). *Cost*: that of [`new`](Self::new).
    #[doc(hidden)]
    pub fn module(type_name: &str, path: &str) -> Self {
        Self::of_kind(ActionKind::Module, &crate::names::module(type_name, path), None)
    }

    /// Returns the action with this kind, name and location. *Cost*: that of [`new`](Self::new).
    #[doc(hidden)]
    pub fn with_location(kind: ActionKind, name: &str, location: SourceLocation) -> Self {
        Self::intern(Entry::new(kind, name, Some(location)))
    }

    /// Returns the action with this kind and name, and with a location if the hook knows one.
    /// *Cost*: that of [`new`](Self::new).
    #[doc(hidden)]
    pub fn of_kind(kind: ActionKind, name: &str, location: Option<SourceLocation>) -> Self {
        Self::intern(Entry::new(kind, name, location))
    }

    /// Returns the action for the continuation of a call: a poll of an async function after the
    /// first. Its time is added to the function, but it does not count as a call. *Cost*: that of
    /// [`new`](Self::new).
    #[doc(hidden)]
    pub fn resumption(self) -> Self {
        Self::intern(Entry { is_resumption: true, ..*self.entry() })
    }

    /// Returns the action that a [resumption](Self::resumption) continues, or `None` for other
    /// actions. *Cost*: that of [`new`](Self::new) for a resumption, otherwise a few loads.
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
            // Shortening the map's lifetime lets the look-up use a borrowed name without a copy.
            let actions: &HashMap<Entry<'_>, Action> = &interner.actions;
            actions.get(&entry).copied()
        };
        known.unwrap_or_else(|| {
            // The profiler keeps the names, so their memory does not count as an allocation of the
            // program.
            crate::uncounted(|| {
                INTERNER.write().unwrap_or_else(PoisonError::into_inner).insert(entry)
            })
        })
    }

    #[inline]
    fn entry(self) -> &'static Entry<'static> {
        entries::get(self.index()).unwrap_or_else(|| self.entry_as_of_now())
    }

    /// Waits for the interner's lock and reads the entry again. A thread may receive a handle
    /// before it sees the entry that another thread stored for it.
    #[cold]
    fn entry_as_of_now(self) -> &'static Entry<'static> {
        interning(|| drop(INTERNER.write()));
        entries::get(self.index()).unwrap_or(&WITHIN)
    }

    /// Returns the name. *Cost*: a few loads, as for [`kind`](Self::kind) and
    /// [`location`](Self::location).
    pub fn name(self) -> &'static str {
        self.entry().name
    }

    /// Returns the kind of the action.
    #[inline]
    pub fn kind(self) -> ActionKind {
        entries::kind_of_early(self.index()).unwrap_or_else(|| self.entry().kind)
    }

    /// Returns the source location, if the action was made at a call site with a known location.
    pub fn location(self) -> Option<SourceLocation> {
        self.entry().location
    }

    /// Returns a small number that serves as an index for tables. Indices of all actions of the
    /// process are dense from 0.
    #[doc(hidden)]
    #[inline(always)]
    pub fn index(self) -> usize {
        self.0.get() as usize - 1
    }

    /// Returns the handle as a number that is never 0, for storage in atomics.
    #[doc(hidden)]
    #[inline(always)]
    pub fn number(self) -> u32 {
        self.0.get()
    }

    /// Returns the action with this [`number`](Self::number), or `None` for 0.
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

/// A call site in the source that starts an action. Its name is resolved once per process.
///
/// *Cost* of [`action`](Self::action): one relaxed load.
#[derive(Debug)]
pub struct Callsite {
    // 0 while unresolved. Several threads may resolve at the same time: all of them store the same
    // number.
    action: AtomicU32,
    kind: ActionKind,
    name: &'static str,
    location: Option<SourceLocation>,
}

impl Callsite {
    /// Creates a call site of a named action. It has no location, so an action that is started in
    /// two places is one row.
    pub const fn action_named(name: &'static str) -> Self {
        Self { action: AtomicU32::new(0), kind: ActionKind::Action, name, location: None }
    }

    /// Creates a call site for a function written at `file:line`.
    pub const fn function(name: &'static str, file: &'static str, line: u32) -> Self {
        Self {
            action: AtomicU32::new(0),
            kind: ActionKind::Function,
            name,
            location: Some(SourceLocation { file, line }),
        }
    }

    /// Returns the action that starts here.
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
