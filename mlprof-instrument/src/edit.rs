//! Insertions into a source text.

use std::ops::Range;

use super::insertion_points::{Move, Places};

/// Insertions into one source text at byte offsets, and replacements of the same length. They
/// contain no line breaks, so every line keeps its number.
#[derive(Debug, Default)]
pub struct Edits {
    insertions: Vec<Insertion>,
    replacements: Vec<(Range<usize>, &'static str)>,
}

#[derive(Debug)]
struct Insertion {
    offset: usize,
    is_closing: bool,
    text: String,
}

impl Edits {
    /// Inserts `text` before the text at `offset`. Insertions at the same offset keep their order,
    /// so the outer of two brackets must be inserted first.
    pub fn insert(&mut self, offset: usize, text: impl Into<String>) {
        self.push(offset, false, text.into());
    }

    /// Inserts a closing `text` after the text that ends at `offset`, and before everything
    /// [inserted](Self::insert) there. Closing texts at the same offset appear in reverse order.
    /// The outer of two brackets is closed first in the program, and is last in the text.
    pub fn close(&mut self, offset: usize, text: impl Into<String>) {
        self.push(offset, true, text.into());
    }

    /// Replaces the text in `range` with `text`, padded with blanks. `text` must not be longer than
    /// the range.
    pub fn replace(&mut self, range: Range<usize>, text: &'static str) {
        debug_assert!(text.len() <= range.len(), "{text} takes more room");
        self.replacements.push((range, text));
    }

    fn push(&mut self, offset: usize, is_closing: bool, text: String) {
        debug_assert!(!text.contains('\n'), "lines keep their numbers: {text}");
        self.insertions.push(Insertion { offset, is_closing, text });
    }

    /// Returns `true` if there are no insertions and no replacements.
    pub fn is_empty(&self) -> bool {
        self.insertions.is_empty() && self.replacements.is_empty()
    }

    /// Returns `source` with all insertions and replacements. Offsets outside `source` are ignored.
    pub fn apply(self, source: &str) -> String {
        self.apply_to(source, &[])
    }

    /// Returns `source` with all insertions. Expressions with an observable position keep their
    /// column, as far as there is [room](Places) before them.
    pub(super) fn apply_in_place(self, source: &str, places: &Places) -> String {
        let offsets = self.insertions.iter().map(|insertion| insertion.offset);
        let mut offsets: Vec<usize> =
            offsets.filter(|offset| source.is_char_boundary(*offset)).collect();
        offsets.sort_unstable();
        let mut moves = Vec::new();
        let mut rest = &offsets[..];
        while let Some(first) = rest.first() {
            let start = source[..*first].rfind('\n').map_or(0, |end| end + 1);
            let end = source[*first..].find('\n').map_or(source.len() + 1, |end| first + end + 1);
            let (here, after) = rest.split_at(rest.partition_point(|offset| *offset < end));
            moves.extend(places.moved(source, &(start..end), here));
            rest = after;
        }
        self.apply_to(source, &moves)
    }

    fn apply_to(self, source: &str, moves: &[Move]) -> String {
        let mut source = source.to_owned();
        for (range, text) in self.replacements {
            if source.get(range.clone()).is_some_and(|before| before.len() >= text.len()) {
                source.replace_range(range.clone(), &format!("{text:<0$}", range.len()));
            }
        }
        let mut insertions: Vec<_> = self.insertions.into_iter().enumerate().collect();
        insertions.retain(|(_, insertion)| source.is_char_boundary(insertion.offset));
        insertions.sort_by_key(|(number, insertion)| {
            let order = *number as i64;
            let order = if insertion.is_closing { -order } else { order };
            (insertion.offset, !insertion.is_closing, order)
        });
        let insertions: Vec<_> = insertions.into_iter().map(|(_, insertion)| insertion).collect();
        let mut writer = Writer { source: &source, insertions: &insertions, at: 0 };
        let mut text = String::with_capacity(source.len() * 2);
        for Move { from, to, behind_comment } in moves {
            match behind_comment {
                None => text += &writer.until(*to),
                Some(comment) => {
                    text += &writer.until(comment.start);
                    text += &attribute_of(&source[comment.clone()]);
                    writer.at = *to;
                }
            }
            writer.at = from.start;
            text += &format!(" {} ", writer.until(from.end));
            text += &source[*to..from.start];
            text.extend(source[from.clone()].chars().map(|_| ' '));
        }
        text += &writer.until(source.len());
        text
    }
}

/// Writes a text with insertions.
struct Writer<'a> {
    source: &'a str,
    /// Insertions not yet written, in order.
    insertions: &'a [Insertion],
    /// Offset up to which the source has been written.
    at: usize,
}

impl Writer<'_> {
    /// Returns the source up to `end`, with its insertions.
    fn until(&mut self, end: usize) -> String {
        let mut text = String::new();
        while let Some((first, rest)) =
            self.insertions.split_first().filter(|(first, _)| first.offset <= end)
        {
            text.push_str(self.source.get(self.at..first.offset).unwrap_or_default());
            text.push_str(&first.text);
            self.at = self.at.max(first.offset);
            self.insertions = rest;
        }
        text.push_str(self.source.get(self.at..end).unwrap_or_default());
        self.at = self.at.max(end);
        text
    }
}

/// Converts a documentation comment to an attribute, because a comment would extend to the end of
/// the new line.
fn attribute_of(comment: &str) -> String {
    let text = comment.trim_end_matches('\r');
    match text.strip_prefix("//!") {
        Some(text) => format!("#![doc = {text:?}]"),
        None => format!("#[doc = {:?}]", text.strip_prefix("///").unwrap_or(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_nest_in_the_order_they_were_inserted() {
        let mut edits = Edits::default();
        edits.insert(0, "outer(");
        edits.close(1, ")");
        edits.insert(0, "inner[");
        edits.close(1, "]");
        edits.insert(1, "+");
        assert_eq!(edits.apply("ab"), "outer(inner[a])+b");
    }

    #[test]
    fn an_offset_outside_of_the_text_does_no_harm() {
        let mut edits = Edits::default();
        edits.insert(1, "x");
        edits.insert(99, "y");
        edits.insert(3, "z");
        assert_eq!(edits.apply("aé"), "axéz");
        assert!(Edits::default().is_empty());
    }

    #[test]
    fn replacements_keep_the_length() {
        let mut edits = Edits::default();
        edits.replace(2..8, "deny");
        edits.insert(8, "!");
        assert_eq!(edits.apply("#[forbid(x)]"), "#[deny  !(x)]");
    }

    /// Returns `text` with `<+>` inserted before each of `marks`.
    fn marked(text: &str, marks: &[&str]) -> String {
        let tokens: proc_macro2::TokenStream = text.parse().expect("tokens");
        let file: syn::File = syn::parse2(tokens.clone()).expect("a file");
        let places = Places::new(text, tokens, &file, 0);
        let mut edits = Edits::default();
        for mark in marks {
            edits.insert(text.find(mark).expect("it is there"), "<+>");
        }
        edits.apply_in_place(text, &places)
    }

    #[test]
    fn heads_of_functions_make_room_for_what_is_inserted_behind_them() {
        // No text has to move if the insertion ends its line.
        let text = "fn f() {\n    a[1]\n}\n";
        assert_eq!(marked(text, &["\n    a"]), "fn f() {<+>\n    a[1]\n}\n");
        // The insertion goes after the last token and before a comment.
        let text = "use x; // why\n  fn é() { a[1] }\n";
        let expected = "use x; fn é() {<+>  // why\n           a[1] }\n";
        assert_eq!(marked(text, &[" a["]), expected);
        // A documentation comment would extend to the end of its line, so it becomes an attribute.
        let text = "/// \"How\".\nfn f() { a[1] }\n";
        let expected = "#[doc = \" \\\"How\\\".\"] fn f() {<+> \n         a[1] }\n";
        assert_eq!(marked(text, &[" a["]), expected);
        let text = "//! Of all.\nfn f() { a[1] }";
        assert_eq!(
            marked(text, &["fn"]),
            "#![doc = \" Of all.\"] <+>fn f() { a[1] }".replace("<+>fn f() { ", "<+> \nfn f() { ")
        );
    }

    #[test]
    fn panicking_code_does_not_move_for_later_functions() {
        // The second function follows the first one on the same line.
        let text = "\nfn f() { a[1] } fn g() { b[2] }\n";
        let expected = " fn f() {<+> \n         a[1] } fn g() {<+> b[2] }\n";
        assert_eq!(marked(text, &[" a[", " b["]), expected);
        // There is no line before the first one.
        let text = "fn f() { a[1] }";
        assert_eq!(marked(text, &[" a["]), "fn f() {<+> a[1] }");
        // The line begins inside a multi-line string, so there is no room before it either.
        let text = "const C: &str = \"\n\"; fn f() { a[1] }";
        assert_eq!(marked(text, &[" a["]), "const C: &str = \"\n\"; fn f() {<+> a[1] }");
        // Only the insertions of statements move up.
        let text = "fn f() {\n    a[1];\n    b(2);\n}\n";
        let expected = "fn f() { <+> \n    a[1]; <+> \n    b(2);\n}\n";
        assert_eq!(marked(text, &["a[", "b("]), expected);
    }
}
