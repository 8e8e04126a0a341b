//! Folded stacks, the input format of flame graphs.
//!
//! *Limits*: each frame appears in the lines of all stacks below it, so the text grows with the
//! square of a recursion's depth. Therefore a stack has at most [`MOST_FRAMES`] frames. There are
//! at most [`MOST_STACKS`] stacks with [`MOST_BYTES`] bytes of text. Frames beyond these limits are
//! replaced by one frame, [`CUT`].

#[cfg(feature = "flame")]
use std::io::{self, BufWriter, Write};

use super::label::is_mark;

/// Converts a name into a frame of folded stacks. `;` becomes `,`. Control characters and
/// bidirectional control characters become spaces. Leading and trailing spaces are removed, because
/// readers would lose them.
pub fn frame_name(name: &str) -> String {
    let safe = name.chars().map(|character| match character {
        ';' => ',',
        // Line breaks and characters that XML does not allow are replaced.
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

/// Maximum number of frames of a stack.
pub const MOST_FRAMES: usize = 4096;

/// Maximum number of different stacks. Truncated stacks are not counted.
pub const MOST_STACKS: usize = 1 << 18;

/// Maximum size of all folded stacks of one metric, in bytes. Truncated stacks are not counted.
pub const MOST_BYTES: u64 = 32 << 20;

/// Frame that replaces all frames beyond the [limits](self).
pub const CUT: &str = "[cut]";

/// Size of a stack.
#[derive(Debug, Clone, Copy, Default)]
pub struct Extent {
    frames: usize,
    bytes: u64,
}

impl Extent {
    /// Returns the size with one more inner frame.
    #[must_use]
    pub fn with(self, frame: &str) -> Self {
        Self { frames: self.frames + 1, bytes: self.bytes + frame.len() as u64 + 1 }
    }
}

/// Space that stacks have used of the [limits](self).
#[derive(Debug, Clone, Copy, Default)]
pub struct Room {
    stacks: usize,
    bytes: u64,
}

impl Room {
    /// Reserves space for a new stack. Returns `false` if no space is left.
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

/// Draws folded stacks as an SVG with zoom and search for browsers. Each line has the form
/// `outermost;…;innermost value`. `unit` is the name of one unit of the value.
///
/// # Errors
///
/// Returns an error if there are no lines or if writing to `out` fails.
#[cfg(feature = "flame")]
pub fn draw(lines: &[String], title: &str, unit: &str, out: impl Write) -> io::Result<()> {
    let mut options = inferno::flamegraph::Options::default();
    options.title = title.to_owned();
    options.count_name = unit.to_owned();
    let mut out = BufWriter::new(out);
    inferno::flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), &mut out)?;
    out.flush()
}
