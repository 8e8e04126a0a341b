//! How names are shown in text: on one line, of bounded length, with the stage they belong to, and in
//! the order in which they are written.

use mlprof_events::Stage;

use crate::number::grouped;

/// The longest name that a table shows, in characters; JSON and `.prof` files keep all of it.
const LONGEST_SHOWN: usize = 200;

/// The name of an action with the stage inside the reported one that it belongs to, as in
/// `[SanityCheck]validation_step`.
pub(super) fn with_stage(sub_stage: Option<Stage>, action: &str) -> String {
    match sub_stage {
        Some(stage) => format!("[{stage:?}]{action}"),
        None => action.to_owned(),
    }
}

/// Returns a value of an enum as JSON has it.
pub(crate) fn word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}

/// `name` fit for a line of text: control characters, line breaks and marks that change the direction
/// of writing escaped, the end of an overlong name replaced by `…`.
pub fn shown(name: &str) -> String {
    escaped(name, LONGEST_SHOWN)
}

/// `name` on one line, in at most `room` characters: the end of a longer name is replaced by `…`.
pub fn shown_within(name: &str, room: usize) -> String {
    escaped(name, room)
}

/// A whole sentence on one line, escaped in the same way.
pub(super) fn one_line(sentence: &str) -> String {
    escaped(sentence, usize::MAX)
}

/// Behind the name of an async function that waited: calls alone would not tell what its times are made
/// of.
pub(super) fn polls(polls: u64) -> String {
    match polls {
        0 => String::new(),
        1 => " (polled 1 time)".to_owned(),
        polls => format!(" (polled {polls} times)"),
    }
}

/// `a, b, c and 5 more`: so many of them by name.
pub(crate) fn first_of(names: impl Iterator<Item = String>, named: usize) -> String {
    let mut names = names;
    let first: Vec<String> = names.by_ref().take(named).collect();
    match names.count() {
        0 => first.join(", "),
        more => format!("{} and {} more", first.join(", "), grouped(more as u64)),
    }
}

/// Notes below a report.
pub fn notes(notes: &[String]) -> String {
    notes.iter().map(|note| format!("Note: {}\n", one_line(note))).collect()
}

fn escaped(name: &str, longest: usize) -> String {
    let mut shown = String::new();
    let mut characters = 0;
    let mut cut = 0; // where to cut so that `…` still fits
    for character in name.chars() {
        let escaped = disturbs_lines(character);
        characters += if escaped { character.escape_default().count() } else { 1 };
        if characters > longest {
            shown.truncate(cut);
            shown.push('…');
            return shown;
        }
        if escaped {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
        if characters < longest {
            cut = shown.len();
        }
    }
    shown
}

fn disturbs_lines(character: char) -> bool {
    character.is_control() || matches!(character, '\u{2028}' | '\u{2029}') || is_mark(character)
}

/// Marks of Unicode that are not seen, but turn what stands beside them around: a terminal would show
/// numbers of a row in another order.
pub(crate) fn is_mark(character: char) -> bool {
    matches!(
        character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_on_one_line() {
        assert_eq!(shown("a\nb\tc\r\u{1b}[31m\0"), r"a\nb\tc\r\u{1b}[31m\u{0}");
        assert_eq!(shown("plain 'quoted' \\ 🔥"), "plain 'quoted' \\ 🔥", "nothing else changes");
        assert_eq!(shown(""), "");
    }

    #[test]
    fn some_are_named_and_the_others_counted() {
        let first_of = |count: u32| first_of((0..count).map(|it| it.to_string()), 3);
        assert_eq!([1, 3, 1004].map(first_of), ["0", "0, 1, 2", "0, 1, 2 and 1,001 more"]);
    }

    #[test]
    fn marks_of_direction_are_shown_and_not_obeyed() {
        for mark in "\u{61c}\u{200e}\u{200f}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}".chars() {
            assert_eq!(shown(&format!("a{mark}b")), format!("a\\u{{{:x}}}b", u32::from(mark)));
        }
        assert_eq!(one_line("\u{2066}x\u{2069}"), r"\u{2066}x\u{2069}");
        let words = "שלום مرحبا 👩\u{200d}🔬";
        assert_eq!(shown(words), words, "letters of any direction are what they are");
    }

    #[test]
    fn long_names_are_cut_to_200_characters() {
        assert_eq!(shown(&"é".repeat(200)), "é".repeat(200));
        assert_eq!(shown(&"é".repeat(10_000)), "é".repeat(199) + "…");
        let with_break = "x".repeat(198) + "\n tail";
        assert_eq!(shown(&with_break), "x".repeat(198) + r"…", "an escape is not cut in two");
    }

    #[test]
    fn rows_of_another_stage_say_so() {
        assert_eq!(with_stage(None, "step"), "step");
        assert_eq!(with_stage(Some(Stage::SanityCheck), "step"), "[SanityCheck]step");
    }
}
