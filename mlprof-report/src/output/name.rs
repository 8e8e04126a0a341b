//! File names of the form `{stage}-{filename}[-{rank}][-{action}].{extension}`.

use std::hash::Hasher;

use crate::label::is_mark;
use mlprof_events::OrderExt;

/// Maximum length of a file name, in bytes.
const LONGEST: usize = 255;

/// A part of a file name.
#[derive(Debug, Clone, Copy)]
pub(super) enum Part<'text> {
    /// Part that is never shortened: a stage, a rank or the word for a profiler.
    Fixed(&'text str),
    /// Name chosen by the user, which is truncated if the file name would be too long.
    Free(&'text str),
}

/// Returns `{parts}[-{copy}].{extension}`, with the parts joined by `-` and made safe for every
/// common file system. The first copy has no number. The name is changed as follows:
///
/// - The characters `\ / : * ? " < > |`, control characters and bidirectional control characters
///   become `_`.
/// - Consecutive `_` become one.
/// - Spaces at both ends are removed.
/// - An empty name becomes `profile`.
///
/// The name has at most 255 bytes. To achieve this, the longest [`Part::Free`] parts are
/// [`shortened`].
pub(super) fn file_name(parts: &[Part<'_>], copy: usize, extension: &str) -> String {
    let copy = if copy > 1 { format!("-{copy}") } else { String::new() };
    let ending = format!("{copy}.{extension}");
    let safe = parts.iter().map(|part| match part {
        Part::Fixed(text) | Part::Free(text) => safe(text),
    });
    let safe: Vec<String> = safe.collect();
    let joined = safe.join("-");
    let stem = match joined.trim() {
        "" => "profile",
        stem => stem,
    };
    if stem.len() + ending.len() <= LONGEST {
        return format!("{stem}{ending}");
    }
    let is_free = |index: &usize| matches!(parts[*index], Part::Free(_));
    let free: usize = (0..parts.len()).filter(is_free).map(|index| safe[index].len()).sum();
    let room = LONGEST.saturating_sub(joined.len() - free + ending.len());
    let mut free: Vec<usize> = (0..parts.len()).filter(is_free).collect();
    // The shortest part comes first, so that the longer parts can use its remaining space.
    free.order_by_key(|index| safe[*index].len());
    let (mut short, mut room, mut left) = (safe.clone(), room, free.len());
    for index in free {
        short[index] = shortened(&safe[index], room / left);
        room = room.saturating_sub(short[index].len());
        left -= 1;
    }
    format!("{}{ending}", short.join("-").trim())
}

fn safe(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        let character = if is_unsafe(character) { '_' } else { character };
        if character != '_' || !safe.ends_with('_') {
            safe.push(character);
        }
    }
    safe
}

fn is_unsafe(character: char) -> bool {
    character.is_control() || is_mark(character) || r#"\/:*?"<>|"#.contains(character)
}

/// Returns `text` if it has at most `most` bytes. Otherwise returns its beginning and a hash of the
/// full text, so that different texts stay different.
pub fn shortened(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let mut hasher = rustc_hash::FxHasher::default();
    hasher.write(text.as_bytes());
    let hash = format!("{:016x}", hasher.finish());
    let mut end = most.saturating_sub(hash.len() + 1);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    if end == 0 { hash } else { format!("{}-{hash}", &text[..end]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stem<'part>(parts: impl IntoIterator<Item = &'part str>) -> String {
        let parts: Vec<_> = parts.into_iter().map(Part::Free).collect();
        let name = file_name(&parts, 1, "x");
        name.strip_suffix(".x").expect("the extension").to_owned()
    }

    #[test]
    fn parts_are_joined_as_lightning_does() {
        assert_eq!(stem(["fit", "run"]), "fit-run");
        assert_eq!(stem(["fit", "run", "3", "training_step"]), "fit-run-3-training_step");
        assert_eq!(stem(["fit"]), "fit");
    }

    #[test]
    fn invalid_file_name_characters_become_one_underscore() {
        for character in r#"\/:*?"<>|"#.chars().chain("\n\r\t\0\u{7f}\u{202e}".chars()) {
            assert_eq!(stem([format!("a{character}b").as_str()]), "a_b", "{character:?}");
        }
        assert_eq!(stem(["a\\/:*?b"]), "a_b", "a run of different ones");
        assert_eq!(stem(["a___b_/_c"]), "a_b_c", "underscores that were there are part of a run");
        assert_eq!(stem(["../../etc/passwd"]), ".._.._etc_passwd", "no way out of the directory");
        assert_eq!(stem(["[Strategy]Flex.backward été 🔥"]), "[Strategy]Flex.backward été 🔥");
    }

    #[test]
    fn nothing_is_called_profile() {
        assert_eq!(stem([]), "profile");
        assert_eq!(stem([""]), "profile");
        assert_eq!(stem(["  "]), "profile");
        assert_eq!(stem([" a b "]), "a b");
        assert_eq!(stem(["///"]), "_");
    }

    #[test]
    fn names_fit_into_255_bytes() {
        let name = |text: &str, copy| file_name(&[Part::Free(text)], copy, "prof");
        assert_eq!(name("fit-run", 1), "fit-run.prof");
        assert_eq!(name("fit-run", 2), "fit-run-2.prof");
        assert_eq!(name(&"x".repeat(250), 1), format!("{}.prof", "x".repeat(250)));
        let long = name(&"x".repeat(10_000), 1);
        assert_eq!(
            (long.len(), long.starts_with("xxx"), long.ends_with(".prof")),
            (255, true, true)
        );
        let copy = name(&"x".repeat(10_000), 12);
        assert_eq!((copy.len(), copy.ends_with("-12.prof")), (255, true));
        for character in ["é", "🔥"] {
            let long = name(&character.repeat(10_000), 1);
            assert!(
                (252..=255).contains(&long.len()),
                "{}: no character is cut in two",
                long.len()
            );
        }
    }

    #[test]
    fn rank_and_profiler_survive_long_names_and_different_names_stay_different() {
        for length in [230, 240, 245, 250, 251, 255, 260, 10_000] {
            let filename = "lr=0.1,".repeat(length / 7 + 1);
            let name = |filename: &str, rank: &str, action: &str| {
                let parts = [
                    Part::Fixed("fit"),
                    Part::Free(filename),
                    Part::Fixed("simple"),
                    Part::Fixed(rank),
                    Part::Free(action),
                ];
                file_name(&parts, 1, "json")
            };
            let names = [
                name(&filename, "0", "a"),
                name(&filename, "17", "a"),
                name(&format!("{filename}b"), "0", "a"),
                name(&filename, "0", &filename),
                name(&filename, "0", &format!("{filename}b")),
            ];
            for (name, rank) in names.iter().zip(["0", "17", "0", "0", "0"]) {
                assert!(name.len() <= 255 && name.contains(&format!("-simple-{rank}-")), "{name}");
                assert!(name.starts_with("fit-lr=0.1"), "{name}");
            }
            let different: std::collections::HashSet<_> = names.iter().collect();
            assert_eq!(different.len(), names.len(), "{length}: {names:?}");
        }
    }
}
