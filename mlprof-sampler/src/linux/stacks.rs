//! Stack of each thread at its last sample.

use super::process_layout::Libraries;
use super::summarize::CUT;
use super::symbols::Symbols;
use super::tree::{Key, NodeId, Tree};
use mlprof_events::live::{StackFrame, ThreadStack};

/// Last place of each thread, with its id and name; `None` for a thread that was not sampled.
pub(super) struct LastPlaces {
    pub(super) threads: Vec<(i32, String, Option<NodeId>)>,
    pub(super) tree: Tree,
    pub(super) libraries: Libraries,
}

/// Returns the stacks sorted by thread id, which is usually the order in which the threads began.
pub(super) fn stacks(mut last: LastPlaces) -> Vec<ThreadStack> {
    last.threads.sort_unstable_by_key(|(number, ..)| *number);
    let mut symbols = Symbols::new(&last.libraries);
    let stack = |(number, thread, place): (i32, String, Option<NodeId>)| ThreadStack {
        thread,
        number: number.cast_unsigned(),
        frames: place.map_or_else(Vec::new, |place| frames(&last.tree, place, &mut symbols)),
    };
    last.threads.into_iter().map(stack).collect()
}

/// Returns the frames of a place, innermost first.
fn frames(tree: &Tree, place: NodeId, symbols: &mut Symbols<'_>) -> Vec<StackFrame> {
    let mut frames = Vec::new();
    for node in tree.way_up(place) {
        match node.key {
            Key::Code(address) => {
                for frame in symbols.frames(address) {
                    let function = &symbols.functions[frame.function as usize];
                    frames.push(StackFrame {
                        function: function.name.clone(),
                        library: function.library.clone(),
                        file: function.file.clone(),
                        line: frame.line,
                    });
                }
            }
            Key::Cut => frames.push(StackFrame {
                function: CUT.to_owned(),
                library: String::new(),
                file: None,
                line: None,
            }),
            Key::Scope(_) | Key::Session { .. } => {}
        }
    }
    frames
}
