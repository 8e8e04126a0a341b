//! Tree of nested slice names. Its size depends on the program, not on the length of the trace.

use rustc_hash::FxHashMap;

use crate::trace::{Name, Trace};

/// Maximum number of names in a path.
const LONGEST: usize = 16;

/// Node of the tree.
pub(super) struct Stack {
    pub(super) parent: Option<u32>,
    pub(super) name: Name,
    pub(super) depth: i64,
}

/// All stacks, and the stack of each slice.
pub(super) struct Stacks {
    pub(super) all: Vec<Stack>,
    pub(super) of: Vec<u32>,
}

impl Stacks {
    pub(super) fn of(trace: &Trace) -> Self {
        let mut numbers: FxHashMap<(Option<u32>, Name), u32> = FxHashMap::default();
        let mut stacks = Self { all: Vec::new(), of: vec![0; trace.slices.len()] };
        for place in trace.parents_first() {
            let slice = &trace.slices[place];
            let parent = slice.parent().map(|parent| stacks.of[parent]);
            let next = stacks.all.len() as u32; // fewer than slices
            let number = *numbers.entry((parent, slice.name)).or_insert(next);
            if number == next {
                let depth = parent.map_or(0, |parent| stacks.all[parent as usize].depth + 1);
                stacks.all.push(Stack { parent, name: slice.name, depth });
            }
            stacks.of[place] = number;
        }
        stacks
    }

    /// Returns a path such as `outer;inner`. Of longer paths, it keeps the innermost names after
    /// `…`.
    pub(super) fn path(&self, trace: &Trace, stack: usize) -> String {
        let mut names = Vec::new();
        let mut next = Some(stack as u32);
        while let Some(stack) = next {
            if names.len() == LONGEST {
                names.push("…");
                break;
            }
            let stack = &self.all[stack as usize];
            names.push(trace.names.text(stack.name));
            next = stack.parent;
        }
        names.reverse();
        names.join(";")
    }
}
