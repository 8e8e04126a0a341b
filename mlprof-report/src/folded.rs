//! Folded stacks, as flame graphs are made of.
//!
//! *Limits*: every frame of a stack stands in the lines of all stacks below it, so that the text grows
//! with the square of a recursion's depth. A stack has [`MOST_FRAMES`] frames at most, and there are
//! [`MOST_STACKS`] with [`MOST_BYTES`] of text. What is further inside is one frame, [`CUT`].

#[cfg(feature = "flame")]
use std::io::{self, BufWriter, Write};

use super::label::is_mark;

/// A name as a frame of folded stacks: `;` becomes `,`; control characters and marks of direction become
/// spaces. Blanks at its ends would be lost to readers.
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

/// The longest stack, in frames.
pub const MOST_FRAMES: usize = 4096;

/// How many different stacks there are. Those that are cut come on top of it.
pub const MOST_STACKS: usize = 1 << 18;

/// All folded stacks of one metric together, in bytes. Those that are cut come on top of it.
pub const MOST_BYTES: u64 = 32 << 20;

/// The frame that stands for all that is further inside than the [limits](self) let stacks be.
pub const CUT: &str = "[cut]";

/// How long a stack is.
#[derive(Debug, Clone, Copy, Default)]
pub struct Extent {
    frames: usize,
    bytes: u64,
}

impl Extent {
    /// With one more frame, inside of the others.
    #[must_use]
    pub fn with(self, frame: &str) -> Self {
        Self { frames: self.frames + 1, bytes: self.bytes + frame.len() as u64 + 1 }
    }
}

/// What all stacks together may take of the [limits](self).
#[derive(Debug, Clone, Copy, Default)]
pub struct Room {
    stacks: usize,
    bytes: u64,
}

impl Room {
    /// Whether there is room for a new stack, which then is taken.
    #[must_use]
    pub fn take(&mut self, stack: Extent) -> bool {
        let bytes = self.bytes + stack.bytes;
        let is_room =
            stack.frames <= MOST_FRAMES && self.stacks < MOST_STACKS && bytes <= MOST_BYTES;
        if is_room {
            *self = Self { stacks: self.stacks + 1, bytes };
        }
        is_room
    }
}

/// Draws folded stacks, lines of `outermost;…;innermost value`, as an SVG that browsers can zoom and
/// search. `unit` is what one of a value is called.
///
/// # Errors
///
/// If there are no lines, or what `out` says.
#[cfg(feature = "flame")]
pub fn draw(lines: &[String], title: &str, unit: &str, out: impl Write) -> io::Result<()> {
    let mut options = inferno::flamegraph::Options::default();
    options.title = title.to_owned();
    options.count_name = unit.to_owned();
    let mut out = BufWriter::new(out);
    inferno::flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), &mut out)?;
    out.flush()
}
