//! What was open around ops, as torch's traces write stacks: `file(line): function;…`, the innermost
//! first.

use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::json::push_escaped;
use crate::profile::place;
use mlprof_events::{Action, ActionKind};

/// What is open, by its number; 0 for nothing.
pub(super) type StackId = u32;

/// All stacks that were seen, each once. Their number depends on the program, not on its length.
#[derive(Debug, Default)]
pub(super) struct Stacks {
    /// What is around each, and the innermost.
    frames: Vec<(StackId, Action)>,
    known: FxHashMap<(StackId, Action), StackId>,
    texts: FxHashMap<StackId, Range<usize>>,
    text: Vec<u8>,
}

/// Stacks that never come again shall not fill the memory.
const MOST_STACKS: usize = 1 << 20;
const MOST_TEXT: usize = 16 << 20;
/// The innermost so many are shown.
const MOST_FRAMES: usize = 128;

impl Stacks {
    /// The stack when `action` is opened inside of `around`; that itself if it is none that stacks show.
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

    /// `,"Call stack":"…"`; nothing if nothing is open.
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
