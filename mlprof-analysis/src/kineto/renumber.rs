//! Replacement of ids that are unique only within their file.

use rustc_hash::FxHashMap;

/// Replacement ids that are unique among all files.
#[derive(Debug, Default)]
pub(super) struct Renumbered {
    last: u64,
    numbers: FxHashMap<i64, u64>,
    /// Replacements for ids that are not decimal integers, such as `0x7f`.
    texts: FxHashMap<String, u64>,
}

impl Renumbered {
    /// Forgets the ids of the previous file.
    pub(super) fn begin_file(&mut self) {
        self.numbers.clear();
        self.texts.clear();
    }

    /// Returns the replacement for an id of the current file. Replacements start at 1.
    pub(super) fn number(&mut self, text: &str) -> u64 {
        let text = text.trim_matches('"');
        let last = &mut self.last;
        let next = || {
            *last += 1;
            *last
        };
        if let Ok(number) = text.parse() {
            return *self.numbers.entry(number).or_insert_with(next);
        }
        match self.texts.get(text) {
            Some(number) => *number,
            None => *self.texts.entry(text.to_owned()).or_insert_with(next),
        }
    }
}
