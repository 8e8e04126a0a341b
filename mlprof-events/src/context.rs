//! Which actions were open on one thread, for work that is done on another.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::PoisonError;

use crate::Action;
use crate::forking::{Mutex, MutexGuard};

/// The actions that were open on a thread at one moment, as a 4-byte handle. A hook whose framework
/// works on threads of its own takes it along with the work, and gives it back in
/// [`OpStart::context`](super::OpStart::context). Good within one recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Context(NonZeroU32);

impl Context {
    /// The handle as a number above 0.
    #[doc(hidden)]
    pub const fn number(self) -> u32 {
        self.0.get()
    }

    /// The handle of a [`number`](Self::number); none for 0.
    #[doc(hidden)]
    pub const fn from_number(number: u32) -> Option<Self> {
        match NonZeroU32::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }
}

/// One thread's open actions at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OpenActions {
    /// The number of the step.
    pub step: u64,
    /// The thread.
    pub thread: u64,
    /// The outermost first.
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

    /// The handle of these actions; `None` if there are too many.
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

    /// All of them, in the order of their numbers, from 1.
    pub fn entries(&self) -> Vec<OpenActions> {
        self.lock().entries.clone()
    }
}
