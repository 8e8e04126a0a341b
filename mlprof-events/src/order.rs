//! Sorting through one function that is compiled once for all types.
//!
//! The standard library's sort compiles to about 2,000 lines of LLVM IR for each type and each
//! order. That was a fifth of the code of mlprof's reports and traces. Here only comparing and
//! moving items depends on the type. Use it for reports. The standard library's sort is faster for
//! millions of numbers that are sorted while a program trains.

use std::cmp::Ordering;

/// Stable sorting of slices.
pub trait OrderExt<T>: sealed::Sealed {
    /// Sorts the slice like [`sort_by`](slice::sort_by).
    ///
    /// *Cost*: an indirect call per comparison, and 8 bytes per item while sorting.
    fn order_by(&mut self, compare: impl FnMut(&T, &T) -> Ordering);

    /// Sorts the slice like [`sort_by_key`](slice::sort_by_key).
    fn order_by_key<K: Ord>(&mut self, mut key: impl FnMut(&T) -> K) {
        self.order_by(|one, other| key(one).cmp(&key(other)));
    }

    /// Sorts the slice like [`sort`](slice::sort).
    fn order(&mut self)
    where
        T: Ord,
    {
        self.order_by(T::cmp);
    }
}

impl<T> OrderExt<T> for [T] {
    fn order_by(&mut self, mut compare: impl FnMut(&T, &T) -> Ordering) {
        let mut sources = sorted(self.len(), &mut |one, other| compare(&self[one], &self[other]));
        // The permutation consists of cycles. Each item is moved along its cycle.
        for start in 0..self.len() {
            let mut place = start;
            loop {
                let source = std::mem::replace(&mut sources[place], place);
                if source == place || source == start {
                    break;
                }
                self.swap(place, source);
                place = source;
            }
        }
    }
}

mod sealed {
    pub trait Sealed {}
    impl<T> Sealed for [T] {}
}

/// Returns the numbers below `count` in sorted order. Equal ones keep their order.
fn sorted(count: usize, compare: &mut dyn FnMut(usize, usize) -> Ordering) -> Vec<usize> {
    let mut numbers: Vec<usize> = (0..count).collect();
    numbers.sort_by(|one, other| compare(*one, *other));
    numbers
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cmp::Reverse;

    use super::*;

    /// Returns pseudorandom numbers, which are the same each time.
    fn numbers(count: usize, below: u64) -> impl Iterator<Item = u64> {
        let mut state = count as u64;
        std::iter::repeat_with(move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        })
        .take(count)
    }

    #[test]
    fn items_are_sorted_as_by_the_standard_library() {
        for count in (0..70).chain([1000, 1003]) {
            for below in [1, 3, 50, 1 << 30] {
                // Strings are not `Copy`, so the test shows that each item is moved and none is
                // lost.
                let items: Vec<(u64, String)> = numbers(count, below)
                    .enumerate()
                    .map(|(at, it)| (it, at.to_string()))
                    .collect();
                let mut expected = items.clone();
                expected.sort_by_key(|(number, _)| *number);
                let mut sorted = items.clone();
                sorted.order_by_key(|(number, _)| *number);
                assert_eq!(sorted, expected, "equal ones stay as they were");
                expected.sort_by_key(|(number, _)| Reverse(*number));
                sorted.order_by(|one, other| other.0.cmp(&one.0));
                assert_eq!(sorted, expected);
                expected.sort();
                sorted.order();
                assert_eq!(sorted, expected);
            }
        }
    }
}
