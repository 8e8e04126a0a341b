//! New numbers for numbers that are unique in their file only.

use rustc_hash::FxHashMap;

/// Numbers of several files, each of which is unique among all of them.
#[derive(Debug, Default)]
pub(super) struct Renumbered {
    last: u64,
    numbers: FxHashMap<i64, u64>,
    /// Of what is not a whole number: `0x7f`.
    texts: FxHashMap<String, u64>,
}

impl Renumbered {
    /// Forgets the numbers of the file before.
    pub(super) fn begin_file(&mut self) {
        self.numbers.clear();
        self.texts.clear();
    }

    /// Returns the new number of what stands in the file, from 1.
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
