//! Interned action names: what is measured, as a 4-byte handle.
//!
//! Hot paths carry an [`Action`], never a string. A name is looked up once: at its callsite
//! ([`Callsite`], used by [`profile!`](crate::profile!) and `#[profile]`), through a small
//! table keyed by the literal's address (`"name".into()`), or through the interner
//! ([`Action::new`]) for names made at run time.
//!
//! *Memory*: names are kept for the life of the process, each once, so it depends on the number of
//! different names and not on the number of calls. A name that contains a counter
//! (`format!("step {i}")`) is a new name every time: keep counters out of names.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{LazyLock, PoisonError, RwLock};

use serde::{Deserialize, Serialize};

use crate::forking::apart_from_forks;

/// What an [`Action`] stands for. Decides which profilers want it (see
/// [`Interest`](crate::Interest)) and how reports show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ActionKind {
    /// Something a training loop or a user does: `optimizer_step`, `run_training_batch`, …
    Action,
    /// A function or method that carries `#[profile]`.
    Function,
    /// A `tracing` span seen through the layer of the `tracing` feature.
    Span,
    /// The forward of a layer of a model, named by [`names::module`](crate::names::module).
    Module,
    /// A tensor op of a framework: `aten::matmul`, `conv2d`, …
    Op,
    /// The call that hands a kernel or a copy to a device: `cudaLaunchKernel`, …
    Launch,
    /// What runs on a device: a kernel, a copy, a fill.
    Kernel,
    /// A training step of a [schedule](crate::tensor::Schedule): `ProfilerStep#3`.
    Step,
}

impl ActionKind {
    /// Whether training loops and users start it, as opposed to the code below: what has a table of
    /// its own in the Advanced report.
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

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Entry<'name> {
    kind: ActionKind,
    name: &'name str,
    location: Option<SourceLocation>,
}

#[derive(Default)]
struct Interner {
    entries: Vec<Entry<'static>>,
    actions: HashMap<Entry<'static>, Action>,
}

static INTERNER: LazyLock<RwLock<Interner>> = LazyLock::new(RwLock::default);

impl Interner {
    fn insert(&mut self, entry: Entry<'_>) -> Action {
        if let Some(action) = self.actions.get(&entry) {
            return *action;
        }
        let name: &'static str = Box::leak(entry.name.into());
        let entry = Entry { name, ..entry };
        self.entries.push(entry);
        let number = u32::try_from(self.entries.len()).ok().and_then(NonZeroU32::new);
        // 4 billion leaked names are out of memory long before.
        let action = Action(number.unwrap_or(NonZeroU32::MAX));
        self.actions.insert(entry, action);
        action
    }
}

impl Action {
    /// The action with this name, without a source location.
    ///
    /// *Cost*: a hash look-up under a read lock (some 50 ns); a name seen for the first time is
    /// copied. Keep the handle where that is too much.
    pub fn new(name: &str) -> Self {
        Self::intern(Entry { kind: ActionKind::Action, name, location: None })
    }

    /// The tensor op with this name, as its framework calls it. *Cost*: as [`new`](Self::new).
    pub fn op(name: &str) -> Self {
        Self::of_kind(ActionKind::Op, name, None)
    }

    /// The layer of a model of this type at this path; see [`names::module`](crate::names::module).
    /// *Cost*: as [`new`](Self::new).
    pub fn module(type_name: &str, path: &str) -> Self {
        Self::of_kind(ActionKind::Module, &crate::names::module(type_name, path), None)
    }

    /// The action with this kind, name and location. *Cost*: as [`new`](Self::new).
    pub fn with_location(kind: ActionKind, name: &str, location: SourceLocation) -> Self {
        Self::intern(Entry { kind, name, location: Some(location) })
    }

    /// The action with this kind and name, and a location if the hook knows one. *Cost*: as
    /// [`new`](Self::new).
    pub fn of_kind(kind: ActionKind, name: &str, location: Option<SourceLocation>) -> Self {
        Self::intern(Entry { kind, name, location })
    }

    fn intern(entry: Entry<'_>) -> Self {
        apart_from_forks(|| Self::intern_now(entry))
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
            crate::allocation::uncounted(|| {
                INTERNER.write().unwrap_or_else(PoisonError::into_inner).insert(entry)
            })
        })
    }

    fn entry(self) -> Entry<'static> {
        apart_from_forks(|| {
            INTERNER.read().unwrap_or_else(PoisonError::into_inner).entries[self.index()]
        })
    }

    /// The name.
    pub fn name(self) -> &'static str {
        self.entry().name
    }

    /// What the action stands for.
    pub fn kind(self) -> ActionKind {
        self.entry().kind
    }

    /// Where it is written, if it was made at a callsite that knows.
    pub fn location(self) -> Option<SourceLocation> {
        self.entry().location
    }

    /// A small number, dense from 0 over all actions of the process: an index for tables.
    #[inline(always)]
    pub fn index(self) -> usize {
        self.0.get() as usize - 1
    }

    /// The handle as a number that is never 0, for storage in atomics.
    #[inline(always)]
    pub(crate) fn number(self) -> u32 {
        self.0.get()
    }

    /// The action of a [`number`](Self::number); none for 0.
    pub(crate) fn from_number(number: u32) -> Option<Self> {
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

/// Slots for literals that are found without the interner.
const SLOTS: usize = 4096;
/// How many neighbouring slots a literal may be in.
const PROBES: usize = 8;

/// A literal and its action.
///
/// *Invariant*: a slot is filled once, under the interner's lock, and `key` is stored last: who
/// finds a key there finds an action too.
struct LiteralSlot {
    /// [`key_of`] the literal; 0 in an empty slot.
    key: AtomicU64,
    /// [`Action::number`]; 0 in an empty slot.
    action: AtomicU32,
}

static LITERALS: [LiteralSlot; SLOTS] =
    [const { LiteralSlot { key: AtomicU64::new(0), action: AtomicU32::new(0) } }; SLOTS];

/// Address and length in one number: a program's own data lies below 2^48. `None` for a literal of
/// 64 kB or more.
#[inline(always)]
fn key_of(name: &'static str) -> Option<u64> {
    let length = name.len() as u64;
    if length >> 16 == 0 { Some((name.as_ptr() as u64).wrapping_add(length << 48)) } else { None }
}

impl LiteralSlot {
    #[inline(always)]
    fn action_of(&self, key: u64) -> Option<Action> {
        if self.key.load(Ordering::Acquire) != key {
            return None;
        }
        let number = self.action.load(Ordering::Relaxed);
        debug_assert_ne!(number, 0);
        // SAFETY: by the invariant the action was stored before the key, and is never 0. Worth it:
        // the check is a tenth of the look-up.
        Some(Action(unsafe { NonZeroU32::new_unchecked(number) }))
    }
}

/// *Cost*: a compare in a table keyed by the literal's address (under 1 ns); as [`Action::new`] the
/// first time the process sees the literal, and some 5 ns where two literals share a slot.
impl From<&'static str> for Action {
    #[inline(always)]
    fn from(name: &'static str) -> Self {
        // A `'static` string never moves and never changes: address and length stand for its text.
        let slot = &LITERALS[name.as_ptr() as usize % SLOTS];
        match key_of(name).and_then(|key| slot.action_of(key)) {
            Some(action) => action,
            None => find_literal(name),
        }
    }
}

/// Looks in the other slots, and takes an empty one if the literal is in none.
#[cold]
#[inline(never)]
fn find_literal(name: &'static str) -> Action {
    let Some(key) = key_of(name).filter(|key| *key != 0) else { return Action::new(name) };
    let first = name.as_ptr() as usize;
    let mut slots = (0..PROBES).map(|n| &LITERALS[(first + n) % SLOTS]);
    if let Some(action) = slots.clone().find_map(|slot| slot.action_of(key)) {
        return action;
    }
    let action = Action::new(name);
    apart_from_forks(|| {
        // The lock makes this the only writer of any slot.
        let _writer = INTERNER.write().unwrap_or_else(PoisonError::into_inner);
        let is_there = slots.clone().any(|slot| slot.action_of(key).is_some());
        let empty = slots.find(|slot| slot.key.load(Ordering::Relaxed) == 0);
        if let Some(slot) = empty.filter(|_| !is_there) {
            slot.action.store(action.number(), Ordering::Relaxed);
            slot.key.store(key, Ordering::Release);
        }
    });
    action
}

/// A place in the source that starts an action: resolves its name once per process.
///
/// *Cost* of [`action`](Self::action): one relaxed load.
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
        let entry = Entry { kind: self.kind, name: self.name, location: self.location };
        let action = Action::intern(entry);
        self.action.store(action.0.get(), Ordering::Relaxed);
        action
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_name_is_the_same_action_by_every_road() {
        static SITE: Callsite = Callsite::action_named("roads");
        let literal: Action = "roads".into();
        assert_eq!(literal, Action::new("roads"));
        assert_eq!(literal, Action::from(String::from("roads")));
        assert_eq!(literal, SITE.action());
        assert_eq!(literal, SITE.action(), "resolved once, then read");
        assert_eq!(literal.name(), "roads");
        assert_eq!(literal.kind(), ActionKind::Action);
    }

    #[test]
    fn a_prefix_of_a_literal_is_another_action() {
        const LONG: &str = "training_step";
        let long: Action = LONG.into();
        let short: Action = (&LONG[..8]).into();
        assert_ne!(long, short, "same address, other length");
        assert_eq!(short.name(), "training");
        assert_eq!(Action::from(LONG), long, "not confused with its prefix");
    }

    #[test]
    fn location_and_kind_tell_functions_of_one_name_apart() {
        let here = SourceLocation { file: "a.rs", line: 1 };
        let there = SourceLocation { file: "a.rs", line: 2 };
        let first = Action::with_location(ActionKind::Function, "forward", here);
        let second = Action::with_location(ActionKind::Function, "forward", there);
        assert_ne!(first, second);
        assert_ne!(first, Action::new("forward"));
        assert_eq!(second.location(), Some(there));
    }

    #[test]
    fn awkward_names_survive() {
        let long = "x".repeat(10_000);
        for name in ["", "\n", "\t", "🔥 emoji", "nul\0", long.as_str()] {
            assert_eq!(Action::new(name).name(), name);
            assert_eq!(Action::new(name), Action::new(name));
        }
    }

    #[test]
    fn threads_that_intern_at_once_agree() {
        let names: Vec<String> = (0..200).map(|i| format!("interned-{i}")).collect();
        let all: Vec<Vec<Action>> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| names.iter().map(Action::from).collect::<Vec<_>>()))
                .collect();
            workers.into_iter().map(|worker| worker.join().expect("no panic")).collect()
        });
        assert!(all.windows(2).all(|pair| pair[0] == pair[1]));
        assert!(all[0].iter().zip(&names).all(|(action, name)| action.name() == name));
    }
}
