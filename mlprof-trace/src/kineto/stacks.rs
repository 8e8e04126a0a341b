//! Stacks of open scopes around ops in the format of torch's traces: `file(line): function;…`,
//! innermost first.

use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::json::push_escaped;
use crate::profile::place;
use mlprof_events::{Action, ActionKind};

/// Number of a stack of open scopes; 0 for an empty one.
pub(super) type StackId = u32;

/// All distinct stacks. Their number depends on the program and not on its duration.
#[derive(Debug, Default)]
pub(super) struct Stacks {
    /// For each stack, the enclosing stack and the innermost action.
    frames: Vec<(StackId, Action)>,
    known: FxHashMap<(StackId, Action), StackId>,
    texts: FxHashMap<StackId, Range<usize>>,
    text: Vec<u8>,
}

/// Maximum number of stacks, because stacks that never recur must not fill the memory.
const MOST_STACKS: usize = 1 << 20;
const MOST_TEXT: usize = 16 << 20;
/// Maximum number of frames to write, counted from the innermost.
const MOST_FRAMES: usize = 128;

impl Stacks {
    /// Returns the stack inside `action` when it is opened in `around`. Returns `around` itself for
    /// actions that stacks do not show.
    pub(super) fn inside(&mut self, around: StackId, action: Action, kind: ActionKind) -> StackId {
        use ActionKind::{Action as Named, Function, Module, Span};
        if !matches!(kind, Named | Function | Module | Span) {
            return around;
        }
        if let Some(known) = self.known.get(&(around, action)) {
            return *known;
        }
        if self.frames.len() >= MOST_STACKS {
            return around;
        }
        self.frames.push((around, action));
        let stack = self.frames.len() as StackId; // at most MOST_STACKS
        self.known.insert((around, action), stack);
        stack
    }

    /// Returns `,"Call stack":"…"`, or an empty text for an empty stack.
    pub(super) fn arguments(&mut self, stack: StackId) -> &[u8] {
        if stack == 0 {
            return &[];
        }
        if let Some(range) = self.texts.get(&stack) {
            return &self.text[range.clone()];
        }
        if self.text.len() > MOST_TEXT {
            self.text.clear();
            self.texts.clear();
        }
        let start = self.text.len();
        self.text.extend_from_slice(b",\"Call stack\":\"");
        let mut next = stack;
        for _ in 0..MOST_FRAMES {
            let Some((around, action)) = self.frames.get((next as usize).wrapping_sub(1)) else {
                break;
            };
            push_escaped(&mut self.text, &place(*action));
            self.text.push(b';');
            next = *around;
        }
        self.text.push(b'"');
        let range = start..self.text.len();
        self.texts.insert(stack, range.clone());
        &self.text[range]
    }
}
