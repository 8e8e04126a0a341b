//! The root file of a crate: where what all hooks need is put.

use proc_macro2::TokenTree;
use syn::spanned::Spanned;
use syn::{AttrStyle, File, Meta};

use super::edit::Edits;

/// The text with blanks where a byte order mark and a `#!` line were, so that all places stay.
pub(super) fn without_beginning(text: &str) -> String {
    let mark = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let line = &text[mark..];
    let is_script = line.strip_prefix("#!").is_some_and(|rest| !rest.trim_start().starts_with('['));
    let end = if is_script { mark + line.find('\n').unwrap_or(line.len()) } else { mark };
    format!("{}{}", " ".repeat(end), &text[end..])
}

/// The place before the first item, on its line; behind all attributes of the file. `None` of a file
/// without items.
pub(super) fn place(text: &str, file: &File) -> Option<usize> {
    let first = file.items.first()?;
    let place = first.span().byte_range().start;
    text.is_char_boundary(place).then_some(place)
}

/// Makes `deny` of each `forbid` at the root, which would not let the module of the hooks allow what
/// it needs.
pub(super) fn allow_unsafe(file: &File, edits: &mut Edits) {
    let inner = file.attrs.iter().filter(|one| matches!(one.style, AttrStyle::Inner(_)));
    for attribute in inner {
        let Meta::List(list) = &attribute.meta else { continue };
        if list.path.is_ident("forbid") {
            replace(list.path.span().byte_range(), "deny", edits);
        } else if list.path.is_ident("cfg_attr") {
            for token in list.tokens.clone() {
                if let TokenTree::Ident(word) = &token
                    && word == "forbid"
                {
                    replace(word.span().byte_range(), "deny", edits);
                }
            }
        }
    }
}

/// Insertions are all that there is: what is replaced becomes a comment.
fn replace(range: std::ops::Range<usize>, by: &str, edits: &mut Edits) {
    edits.insert(range.start, "/*");
    edits.insert(range.end, format!("*/{by}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_and_script_lines_become_blanks() {
        assert_eq!(without_beginning("\u{feff}fn f() {}"), "   fn f() {}");
        assert_eq!(without_beginning("#!/usr/bin/x\r\nfn f() {}"), "             \nfn f() {}");
        assert_eq!(without_beginning("#![allow(x)]\nfn f() {}"), "#![allow(x)]\nfn f() {}");
        assert_eq!(without_beginning("#! [allow(x)]"), "#! [allow(x)]");
    }

    #[test]
    fn forbidding_becomes_denying() {
        let text = "#![forbid(unsafe_code, warnings)]\n#![cfg_attr(a, forbid(x))]\nfn f() {}";
        let file: File = syn::parse_str(text).expect("a file");
        let mut edits = Edits::default();
        allow_unsafe(&file, &mut edits);
        let expected = "#![/*forbid*/deny(unsafe_code, warnings)]\n#![cfg_attr(a, /*forbid*/deny(x))]\nfn f() {}";
        assert_eq!(edits.apply(text), expected);
        assert_eq!(place(text, &file), text.find("fn f"));
        let text = "//! Of the file.\n\n/// Of the item.\n#[inline] fn f() {}";
        let file: File = syn::parse_str(text).expect("a file");
        assert_eq!(place(text, &file), text.find("/// Of"));
    }
}
