//! Display of names in text: on one line, with limited length, and with the name of a nested stage.

use mlprof_events::Stage;

use crate::number::grouped;

/// Maximum length of a name in a table, in characters. JSON and `.prof` files keep the full name.
const LONGEST_SHOWN: usize = 200;

/// Prepends the nested stage to the name of an action, as in `[SanityCheck]validation_step`.
pub(super) fn with_stage(sub_stage: Option<Stage>, action: &str) -> String {
    match sub_stage {
        Some(stage) => format!("[{stage:?}]{action}"),
        None => action.to_owned(),
    }
}

/// Returns the JSON name of an enum value.
pub(crate) fn word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}

/// Escapes `name` for a line of text. Control characters, line breaks and bidirectional control
/// characters are escaped. The end of a name that is too long is replaced by `…`.
pub fn shown(name: &str) -> String {
    escaped(name, LONGEST_SHOWN)
}

/// Escapes `name` for one line with at most `room` characters. The end of a longer name is replaced
/// by `…`.
pub fn shown_within(name: &str, room: usize) -> String {
    escaped(name, room)
}

/// Escapes a whole sentence for one line, without a length limit.
pub(super) fn one_line(sentence: &str) -> String {
    escaped(sentence, usize::MAX)
}

/// Returns the suffix for the name of an async function that was polled several times. The number
/// of calls alone would not explain its times.
pub(super) fn polls(polls: u64) -> String {
    match polls {
        0 => String::new(),
        1 => " (polled 1 time)".to_owned(),
        polls => format!(" (polled {polls} times)"),
    }
}

/// Lists the first `named` names and counts the others: `a, b, c and 5 more`.
pub(crate) fn first_of(names: impl Iterator<Item = String>, named: usize) -> String {
    let mut names = names;
    let first: Vec<String> = names.by_ref().take(named).collect();
    match names.count() {
        0 => first.join(", "),
        more => format!("{} and {} more", first.join(", "), grouped(more as u64)),
    }
}

/// Formats the notes below a report, one line each.
pub fn notes(notes: &[String]) -> String {
    notes.iter().map(|note| format!("Note: {}\n", one_line(note))).collect()
}

fn escaped(name: &str, longest: usize) -> String {
    let mut shown = String::new();
    let mut characters = 0;
    let mut cut = 0; // length in bytes to cut to, so that `…` still fits
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

/// Returns `true` for invisible Unicode characters that change the direction of the surrounding
/// text. A terminal would show the numbers of a row in another order.
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
