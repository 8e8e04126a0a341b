//! A thread's own short cut to lists of shapes.

use super::{ShapeList, stored};

/// A thread's own short cut to the lists that it used last.
#[derive(Debug)]
pub struct ShapeCache {
    /// A list is at one of two places that its hash says.
    slots: Box<[Slot; SLOTS]>,
}

/// A list, or nothing.
#[derive(Debug, Clone, Copy)]
struct Slot {
    words: &'static [i64],
    /// 0 stands for no list.
    number: u32,
    /// What else is known of the hash: a look at the words themselves is nearly always the last.
    mark: u32,
}

/// A training has some hundred lists; with two places for each hardly one of them displaces another that
/// is still in use.
const SLOTS: usize = 1024;

impl Default for ShapeCache {
    fn default() -> Self {
        Self::new()
    }
}

impl ShapeCache {
    /// With nothing in it.
    pub fn new() -> Self {
        Self { slots: Box::new([Slot { words: &[], number: 0, mark: 0 }; SLOTS]) }
    }

    /// The list of these words, if it is one of the latest.
    #[inline(always)]
    pub fn known(&self, words: &[i64]) -> Option<ShapeList> {
        let (first, mark) = place(words);
        let mut slot = &self.slots[first];
        if slot.mark != mark {
            slot = &self.slots[first ^ 1];
        }
        (slot.number != 0 && is_same(slot.words, words)).then_some(ShapeList(slot.number))
    }

    /// The list of these words.
    pub fn intern(&mut self, words: &[i64]) -> ShapeList {
        if let Some(known) = self.known(words) {
            return known;
        }
        let Some((stored, number)) = stored(words) else { return ShapeList::NONE };
        let (first, mark) = place(words);
        let is_free = |place: usize| self.slots[place].number == 0;
        let mut place = first;
        if !is_free(first) && is_free(first ^ 1) {
            place = first ^ 1;
        } else if !is_free(first) {
            // Of two that are taken the one goes that has been there for longer.
            self.slots[first ^ 1] = self.slots[first];
        }
        self.slots[place] = Slot { words: stored, number, mark };
        ShapeList(number)
    }
}

/// Whether two lists are the same. Without a way out in the middle, so that it becomes a few vector
/// instructions in line; a comparison of slices is a call.
#[inline(always)]
fn is_same(one: &[i64], other: &[i64]) -> bool {
    one.len() == other.len()
        && one.iter().zip(other).fold(0, |differs, (one, other)| differs | (one ^ other)) == 0
}

/// The first place of a list and its mark: a sum of products, none of which has to wait for another. Of
/// each both halves are taken, since sums of the lower ones alone are the same for the same sizes in another
/// order; what is no tensor has its place in it, too.
#[inline(always)]
fn place(words: &[i64]) -> (usize, u32) {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    let mut place = FACTOR;
    let mut hash = words.len() as u64;
    for word in words {
        let product = u128::from(word.cast_unsigned() ^ place) * u128::from(FACTOR);
        hash = hash.wrapping_add(product as u64 ^ (product >> 64) as u64);
        place = place.wrapping_add(0x3C6E_F372_FE94_F82A);
    }
    let mixed = (hash ^ (hash >> 32)).wrapping_mul(FACTOR);
    ((mixed >> (u64::BITS - SLOTS.ilog2())) as usize, (mixed >> 16) as u32)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{DType, InputsBuilder};

    /// Inputs as a training of many small layers has them, each unlike all others.
    fn lists() -> Vec<Vec<i64>> {
        let mut inputs = InputsBuilder::new();
        let widths = [1, 3, 8, 16, 32, 64, 128, 256, 512, 1024];
        let mut lists = Vec::new();
        for rows in widths {
            for columns in widths {
                inputs.clear();
                inputs.tensor(DType::Float32, &[rows, columns]);
                if columns > 16 {
                    inputs.tensor(DType::Float32, &[columns, rows]);
                    inputs.not_a_tensor();
                }
                lists.push(inputs.words().to_vec());
            }
        }
        // Ops that make tensors have inputs that are none.
        for count in 0..12 {
            inputs.clear();
            (0..count).for_each(|_| inputs.not_a_tensor());
            lists.push(inputs.words().to_vec());
        }
        lists
    }

    #[test]
    fn lists_in_use_do_not_displace_each_other() {
        let lists = lists();
        let mut cache = ShapeCache::new();
        let numbers: Vec<_> = lists.iter().map(|list| cache.intern(list)).collect();
        let known = lists.iter().map(|list| cache.known(list));
        let missing = known.clone().filter(Option::is_none).count();
        assert!(missing <= lists.len() / 50, "{missing} of {} are gone", lists.len());
        for (known, number) in known.zip(&numbers) {
            assert_eq!(known.unwrap_or(*number), *number);
        }
    }

    #[test]
    fn the_list_that_was_used_last_stays() {
        let mut cache = ShapeCache::new();
        for length in 0..5000_i64 {
            let words = [length, -length];
            let list = cache.intern(&words);
            assert_eq!([cache.known(&words), Some(cache.intern(&words))], [Some(list); 2]);
        }
    }
}
