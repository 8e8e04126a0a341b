//! Display of names in text: on one line, with limited length, and with the name of a nested stage.

use std::borrow::Cow;

use mlprof_events::Stage;
use unicode_width::UnicodeWidthStr;

use crate::number::grouped;

/// Maximum width of a name in a table, in terminal columns. JSON and `.prof` files keep the full
/// name.
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
/// characters are escaped. The middle of a name wider than 200 columns is replaced by `…`.
pub fn shown(name: &str) -> String {
    escaped(name, LONGEST_SHOWN)
}

/// Escapes `name` for one line with at most `room` terminal columns. The middle of a longer name is
/// replaced by `…`, because names in a table often share their beginning: `aten::_sc…_backward`.
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

fn escaped(name: &str, widest: usize) -> String {
    let is_plain = !name.contains(disturbs_lines);
    if is_plain && name.width() <= widest {
        return name.to_owned();
    }
    let piece = |character: char| -> Cow<'_, str> {
        match disturbs_lines(character) {
            true => character.escape_default().collect(),
            false => character.to_string().into(),
        }
    };
    let pieces: Vec<_> = name.chars().map(piece).collect();
    let whole = pieces.concat();
    if whole.width() <= widest {
        return whole;
    }
    let room = widest.saturating_sub(1);
    let mut beginning = String::new();
    for piece in &pieces {
        let longer = format!("{beginning}{piece}");
        if longer.width() > room.div_ceil(2) {
            break;
        }
        beginning = longer;
    }
    let mut end = String::new();
    for piece in pieces.iter().rev() {
        let longer = format!("{piece}{end}");
        if beginning.width() + longer.width() > room {
            break;
        }
        end = longer;
    }
    format!("{beginning}…{end}")
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
    fn names_keep_their_beginning_and_their_end() {
        let name = "aten::_scaled_dot_product_flash_attention_backward";
        assert_eq!(shown_within(name, 50), name);
        assert_eq!(shown_within(name, 24), "aten::_scale…on_backward");
        assert_eq!(shown_within(name, 2), "a…");
        assert_eq!([0, 1].map(|room| shown_within(name, room)), ["…", "…"]);
        assert_eq!(shown_within("模型的第一层", 8), "模型…层", "wide characters take two columns");
        assert_eq!(shown(&"é".repeat(200)), "é".repeat(200));
        assert_eq!(shown(&"é".repeat(10_000)), "é".repeat(100) + "…" + &"é".repeat(99));
        let with_break = "x".repeat(99) + "\n" + &"y".repeat(200);
        let expected = "x".repeat(99) + "…" + &"y".repeat(100);
        assert_eq!(shown(&with_break), expected, "an escape is not cut in two");
    }

    #[test]
    fn rows_of_another_stage_say_so() {
        assert_eq!(with_stage(None, "step"), "step");
        assert_eq!(with_stage(Some(Stage::SanityCheck), "step"), "[SanityCheck]step");
    }
}
