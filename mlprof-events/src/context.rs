//! Handles for the open actions of a thread, for work that runs on another thread.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::PoisonError;

use crate::Action;
use crate::forking::{Mutex, MutexGuard};

/// The actions that were open on a thread at one moment, as a 4-byte handle. A framework may run
/// its work on its own threads. Its hook then passes the handle along with the work and returns it
/// in [`OpStart::context`](super::OpStart::context). A handle is valid within one recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Context(NonZeroU32);

impl Context {
    /// Returns the handle as a number above 0.
    #[doc(hidden)]
    pub const fn number(self) -> u32 {
        self.0.get()
    }

    /// Returns the handle with this [`number`](Self::number), or `None` for 0.
    #[doc(hidden)]
    pub const fn from_number(number: u32) -> Option<Self> {
        match NonZeroU32::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }
}

/// Open actions of one thread at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OpenActions {
    /// Number of the training step.
    pub step: u64,
    /// Id of the thread.
    pub thread: u64,
    /// Open actions, outermost first.
    pub actions: Box<[Action]>,
}

/// All contexts of one recording.
#[derive(Debug, Default)]
pub struct ContextTable(Mutex<Contexts>);

#[derive(Debug, Default)]
struct Contexts {
    entries: Vec<OpenActions>,
    numbers: HashMap<OpenActions, Context>,
}

impl ContextTable {
    fn lock(&self) -> MutexGuard<'_, Contexts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the handle of these actions, or `None` if there are too many contexts.
    pub fn intern(&self, open: OpenActions) -> Option<Context> {
        let mut contexts = self.lock();
        if let Some(context) = contexts.numbers.get(&open) {
            return Some(*context);
        }
        contexts.entries.push(open.clone());
        let context = Context::from_number(u32::try_from(contexts.entries.len()).ok()?)?;
        contexts.numbers.insert(open, context);
        Some(context)
    }

    /// Returns all contexts in the order of their numbers, starting at number 1.
    pub fn entries(&self) -> Vec<OpenActions> {
        self.lock().entries.clone()
    }
}
