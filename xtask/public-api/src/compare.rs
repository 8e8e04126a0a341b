//! Compares two lists of public items.

use std::collections::BTreeSet;

/// Returns one line for each added (`+`) or removed (`-`) item below the crate's name, or `None`
/// without differences.
pub fn difference(name: &str, kept: &str, found: &str) -> Option<String> {
    if kept == found {
        return None;
    }
    let lines = |page: &str| page.lines().map(str::to_owned).collect::<BTreeSet<_>>();
    let (kept, found) = (lines(kept), lines(found));
    let mut text = format!("{name}\n");
    for line in kept.difference(&found) {
        text += &format!("- {line}\n");
    }
    for line in found.difference(&kept) {
        text += &format!("+ {line}\n");
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_and_removed_items_are_named() {
        let difference = difference("a", "x\npub fn a::old()\n", "x\npub fn a::new()\n");
        assert_eq!(difference.as_deref(), Some("a\n- pub fn a::old()\n+ pub fn a::new()\n"));
    }

    #[test]
    fn equal_lists_have_none_and_another_order_is_one() {
        assert_eq!(difference("a", "x\ny\n", "x\ny\n"), None);
        assert!(difference("a", "x\ny\n", "y\nx\n").is_some());
    }
}
