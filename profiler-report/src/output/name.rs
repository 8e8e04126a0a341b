//! File names: `{stage}-{filename}[-{rank}][-{action}].{extension}`.

use crate::label::is_mark;

/// What file systems allow for one name, in bytes.
const LONGEST: usize = 255;

/// The parts that there are, joined by `-` and made safe for every common file system:
/// `\ / : * ? " < > |`, control characters (line breaks and tabs among them) and marks of direction
/// become `_`, runs of `_` become one, spaces at both ends go. `profile` if nothing is left.
pub(super) fn stem<'part>(parts: impl IntoIterator<Item = &'part str>) -> String {
    let joined = parts.into_iter().collect::<Vec<_>>().join("-");
    let mut stem = String::with_capacity(joined.len());
    for character in joined.chars() {
        let character = if is_unsafe(character) { '_' } else { character };
        if character != '_' || !stem.ends_with('_') {
            stem.push(character);
        }
    }
    match stem.trim() {
        "" => "profile".to_owned(),
        stem => stem.to_owned(),
    }
}

fn is_unsafe(character: char) -> bool {
    character.is_control() || is_mark(character) || r#"\/:*?"<>|"#.contains(character)
}

/// `{stem}[-{copy}].{extension}`, the stem cut so that the name is at most 255 bytes long. `copy`
/// tells apart what would otherwise have one name; the first has none.
pub(super) fn file_name(stem: &str, copy: usize, extension: &str) -> String {
    let copy = if copy > 1 { format!("-{copy}") } else { String::new() };
    let ending = format!("{copy}.{extension}");
    let mut end = stem.len().min(LONGEST.saturating_sub(ending.len()));
    while !stem.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{ending}", &stem[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_joined_as_lightning_does() {
        assert_eq!(stem(["fit", "run"]), "fit-run");
        assert_eq!(stem(["fit", "run", "3", "training_step"]), "fit-run-3-training_step");
        assert_eq!(stem(["fit"]), "fit");
    }

    #[test]
    fn what_file_systems_refuse_becomes_one_underscore() {
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
        assert_eq!(file_name("fit-run", 1, "txt"), "fit-run.txt");
        assert_eq!(file_name("fit-run", 2, "txt"), "fit-run-2.txt");
        let name = file_name(&"x".repeat(10_000), 1, "prof");
        assert_eq!((name.len(), name.ends_with("x.prof")), (255, true));
        let name = file_name(&"x".repeat(10_000), 12, "prof");
        assert_eq!((name.len(), name.ends_with("x-12.prof")), (255, true));
        let name = file_name(&"é".repeat(10_000), 1, "prof");
        assert_eq!(name.len(), 255, "250 bytes are 125 whole characters");
        let name = file_name(&"🔥".repeat(10_000), 1, "prof");
        assert_eq!(name.len(), 253, "no character is cut in two");
    }
}
