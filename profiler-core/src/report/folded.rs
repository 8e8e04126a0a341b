//! Folded stacks, as flame graphs are made of.

use super::label::is_mark;

/// A name as a frame of folded stacks: see [`trace::flame`](crate::trace::flame). Blanks at its ends would be lost to
/// readers.
pub fn frame_name(name: &str) -> String {
    let safe = name.chars().map(|character| match character {
        ';' => ',',
        // Neither line breaks nor what XML does not allow.
        character if character.is_control() || matches!(character, '\u{fffe}' | '\u{ffff}') => ' ',
        character if is_mark(character) => ' ',
        character => character,
    });
    let safe = safe.collect::<String>();
    match safe.trim() {
        "" => "(no name)".to_owned(),
        frame => frame.to_owned(),
    }
}
