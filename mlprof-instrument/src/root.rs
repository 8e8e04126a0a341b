//! Handles the beginning of a root file, and lint levels that would reject hooks.

use proc_macro2::TokenTree;
use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::{Attribute, File, Meta};

use super::edit::Edits;

/// Returns the offset after a byte order mark and a `#!` line.
pub(super) fn beginning(text: &str) -> usize {
    let mark = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let line = &text[mark..];
    let is_script = line.strip_prefix("#!").is_some_and(|rest| !rest.trim_start().starts_with('['));
    if is_script { mark + line.find('\n').unwrap_or(line.len()) } else { mark }
}

/// Replaces a byte order mark and a `#!` line with blanks, so that all offsets stay the same.
pub(super) fn without_beginning(text: &str) -> String {
    let end = beginning(text);
    format!("{}{}", " ".repeat(end), &text[end..])
}

/// Replaces each `forbid` with `deny`, because hooks must be able to allow lints.
pub(super) fn allow_unsafe(file: &File, edits: &mut Edits) {
    Forbidding(edits).visit_file(file);
}

struct Forbidding<'edits>(&'edits mut Edits);

impl<'ast> Visit<'ast> for Forbidding<'_> {
    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        let Meta::List(list) = &attribute.meta else { return };
        if list.path.is_ident("forbid") {
            self.0.replace(list.path.span().byte_range(), "deny");
        } else if list.path.is_ident("cfg_attr") {
            for token in list.tokens.clone() {
                if let TokenTree::Ident(word) = &token
                    && word == "forbid"
                {
                    self.0.replace(word.span().byte_range(), "deny");
                }
            }
        }
    }
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
        let expected = "#![deny  (unsafe_code, warnings)]\n#![cfg_attr(a, deny  (x))]\nfn f() {}";
        assert_eq!(edits.apply(text), expected);
        let text = "mod m { #![forbid(unsafe_code)] #[forbid(x)] fn f() {} }";
        let mut edits = Edits::default();
        allow_unsafe(&syn::parse_str(text).expect("a file"), &mut edits);
        assert_eq!(edits.apply(text), text.replace("forbid", "deny  "));
    }
}
