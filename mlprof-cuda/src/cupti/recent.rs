//! Bounded map of the most recent entries.

use rustc_hash::FxHashMap;

/// Minimum number of retained entries. The maximum is twice as many.
const KEPT: usize = 1 << 18;

/// Values of the most recent calls by correlation id. Records of one call arrive close together, so
/// old entries are not needed any more. Memory is therefore bounded for any number of kernels.
pub(super) struct Recent<T> {
    new: FxHashMap<u32, T>,
    old: FxHashMap<u32, T>,
}

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self { new: FxHashMap::default(), old: FxHashMap::default() }
    }
}

impl<T: Copy> Recent<T> {
    pub(super) fn insert(&mut self, correlation: u32, value: T) {
        if self.new.len() >= KEPT {
            self.old = std::mem::take(&mut self.new);
        }
        self.new.insert(correlation, value);
    }

    pub(super) fn get(&self, correlation: u32) -> Option<T> {
        self.new.get(&correlation).or_else(|| self.old.get(&correlation)).copied()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_latest_are_known_and_there_are_never_too_many() {
        let mut recent = Recent::default();
        for number in 0..5 * KEPT as u32 {
            recent.insert(number, number * 2);
            assert!(recent.new.len() + recent.old.len() <= 2 * KEPT);
        }
        let last = 5 * KEPT as u32 - 1;
        assert_eq!(recent.get(last), Some(last * 2));
        assert_eq!(recent.get(last - KEPT as u32 + 1), Some((last - KEPT as u32 + 1) * 2));
        assert_eq!(recent.get(0), None);
    }
}
