//! Thread-local cache of interned shape lists.

use std::hint::cold_path;

use super::{ShapeList, stored};

/// Cache of the shape lists that a thread used recently.
#[derive(Debug)]
pub struct ShapeCache {
    /// Groups of lists. The hash of a list selects its group.
    groups: Box<[Group]>,
}

/// A few lists, most recent first.
#[derive(Debug, Clone, Copy)]
struct Group {
    /// Further bits of the lists' hashes. They find the right list in almost all cases, so that
    /// words are compared only once.
    marks: [u32; LISTS_OF_A_GROUP],
    /// Numbers of the lists; 0 for an empty place.
    numbers: [u32; LISTS_OF_A_GROUP],
    words: [&'static [i64]; LISTS_OF_A_GROUP],
}

/// Number of groups. A training run has some hundred lists, so a list rarely displaces one that is
/// still in use.
const GROUPS: usize = 512;
const LISTS_OF_A_GROUP: usize = 4;

impl Group {
    /// Returns the place of a list with this mark, if it is not the first.
    #[inline(always)]
    fn further(&self, mark: u32) -> usize {
        // The loop has no early exit, which would be an unpredictable branch.
        let mut found = 0;
        for place in (1..LISTS_OF_A_GROUP).rev() {
            found = if self.marks[place] == mark { place } else { found };
        }
        found
    }

    /// Returns the list at a place if it consists of these words.
    #[inline(always)]
    fn list(&self, place: usize, words: &[i64]) -> Option<ShapeList> {
        let number = self.numbers[place];
        (number != 0 && is_same(self.words[place], words)).then_some(ShapeList(number))
    }
}

impl Default for ShapeCache {
    fn default() -> Self {
        Self::new()
    }
}

impl ShapeCache {
    /// Creates an empty cache.
    pub fn new() -> Self {
        const EMPTY: Group = Group {
            marks: [0; LISTS_OF_A_GROUP],
            numbers: [0; LISTS_OF_A_GROUP],
            words: [&[]; LISTS_OF_A_GROUP],
        };
        // The groups are allocated directly on the heap, so that they do not pass through the
        // thread's stack.
        Self { groups: vec![EMPTY; GROUPS].into_boxed_slice() }
    }

    /// Returns the list of these words if it is cached.
    #[inline(always)]
    pub fn known(&self, words: &[i64]) -> Option<ShapeList> {
        let (group, mark) = place(words);
        let group = self.groups.get(group)?;
        // Nearly every list is the only one of its group. Branch prediction then saves the
        // comparison of the other marks.
        if group.marks[0] == mark {
            return group.list(0, words);
        }
        cold_path();
        group.list(group.further(mark), words)
    }

    /// Returns the list of these words and caches it.
    pub fn intern(&mut self, words: &[i64]) -> ShapeList {
        if let Some(known) = self.known(words) {
            return known;
        }
        let Some((stored, number)) = stored(words) else { return ShapeList::NONE };
        let (group, mark) = place(words);
        let group = &mut self.groups[group];
        // The oldest list is evicted.
        group.marks.rotate_right(1);
        group.numbers.rotate_right(1);
        group.words.rotate_right(1);
        (group.marks[0], group.numbers[0], group.words[0]) = (mark, number, stored);
        ShapeList(number)
    }
}

/// Returns `true` if two lists are equal. The comparison reads one word at a time. The list to find
/// has just been written word by word, and a wider read would stall until these writes reach the
/// cache.
#[inline(always)]
fn is_same(one: &[i64], other: &[i64]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one == other)
}

/// Odd factors by which the words of a list are multiplied, one for each position. With equal
/// factors, lists with the same sizes in another order would have the same sum.
const FACTORS: [u64; 32] = {
    let (mut factors, mut number, mut state) = ([0; 32], 0, 0_u64);
    while number < factors.len() {
        // These are the constants of SplitMix64.
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        factors[number] = (mixed ^ (mixed >> 31)) | 1;
        number += 1;
    }
    factors
};

/// Returns the group of a list and its mark. The hash is a sum of products that the processor can
/// compute independently.
#[inline(always)]
fn place(words: &[i64]) -> (usize, u32) {
    // The length distinguishes lists of non-tensor inputs, whose words are all zero.
    let mut hash = (words.len() as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    hash = add_products(hash, words, 0);
    if let Some(rest) = words.get(FACTORS.len()..) {
        hash = add_further_products(hash, rest);
    }
    // The upper bits depend on all bits of all words.
    ((hash >> (u64::BITS - GROUPS.ilog2())) as usize, (hash >> 16) as u32)
}

/// Adds the products of up to 32 words with the factors, which are rotated by `rotation` bits.
#[inline(always)]
fn add_products(mut hash: u64, words: &[i64], rotation: u32) -> u64 {
    for (word, factor) in words.iter().zip(FACTORS) {
        let product = word.cast_unsigned().wrapping_mul(factor.rotate_left(rotation));
        hash = hash.wrapping_add(product);
    }
    hash
}

/// Adds the products of the words after the first 32. Only lists of tensors have that many.
#[cold]
#[inline(never)]
fn add_further_products(hash: u64, words: &[i64]) -> u64 {
    let parts = words.chunks(FACTORS.len()).zip(1..);
    parts.fold(hash, |hash, (words, rotation)| add_products(hash, words, rotation))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{DType, InputsBuilder};

    /// Returns distinct inputs, like those of a training run with many small layers.
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
        // Ops that create tensors have inputs that are not tensors.
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

    /// Checks lists of an op that joins many tensors, which differ in only one size.
    #[test]
    fn long_lists_are_told_apart_by_each_of_their_words() {
        let words = 3 * FACTORS.len();
        let list = |place: usize| (0..words).map(|word| i64::from(word == place)).collect();
        let lists: Vec<Vec<i64>> = (0..words).map(list).collect();
        let places: std::collections::HashSet<_> = lists.iter().map(|list| place(list)).collect();
        assert_eq!(places.len(), words);
        let mut cache = ShapeCache::new();
        let numbers: Vec<_> = lists.iter().map(|list| cache.intern(list)).collect();
        let known = lists.iter().zip(&numbers).filter(|(list, number)| {
            cache.known(list).inspect(|known| assert_eq!(known, *number)).is_some()
        });
        let missing = words - known.count();
        assert!(missing <= words / 50, "{missing} of {words} are gone");
    }

    /// Checks that each list of a full group is found at any place.
    #[test]
    fn all_lists_of_a_group_are_found() {
        let of_one_group = || (0..).map(|size| [size, -size]).filter(|list| place(list).0 == 7);
        let mut cache = ShapeCache::new();
        let lists = of_one_group().take(LISTS_OF_A_GROUP);
        let numbers: Vec<_> = lists.clone().map(|list| cache.intern(&list)).collect();
        let known: Vec<_> = lists.map(|list| cache.known(&list)).collect();
        assert_eq!(known, numbers.into_iter().map(Some).collect::<Vec<_>>());
        let another = of_one_group().nth(LISTS_OF_A_GROUP);
        assert_eq!(another.and_then(|list| cache.known(&list)), None);
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
