//! Shapes and types of an op's inputs.
//!
//! Each distinct list of shapes is stored once, and an event contains a 4-byte [`ShapeList`].

mod cache;
mod details;
mod dtype;

pub use cache::ShapeCache;
pub use details::{InputDetail, InputDetails, Number};
pub use dtype::DType;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, PoisonError, RwLock};

use serde::{Deserialize, Serialize};

use crate::forking::apart_from_forks;

/// Shape and type of one input.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TensorShape {
    /// A tensor with these dimensions, which are empty for a scalar.
    Tensor(DType, Vec<i64>),
    /// A list of tensors.
    List(Vec<TensorShape>),
    /// Integers that determine an op's work, such as a convolution's stride.
    Integers(Vec<i64>),
    /// An input that is not a tensor.
    NotATensor,
}

/// Code for a list in encoded inputs. Each input is one word `(code << 32) | rank`, followed by its
/// dimensions. Code 0 stands for a non-tensor. The rank of a list is the number of following inputs
/// that belong to it. For [`INTEGERS`], the rank is the number of words that follow.
const LIST: i64 = 0xff;
const INTEGERS: i64 = 0xfe;

/// Collects the shapes and types of one op's inputs. If it is reused, it allocates only for lists
/// that are longer than any before.
#[derive(Debug, Default)]
pub struct InputsBuilder {
    /// Encoded inputs. They are borrowed only in [`with_words`](Self::with_words).
    words: Cow<'static, [i64]>,
}

impl Clone for InputsBuilder {
    /// Returns a builder that owns its words.
    fn clone(&self) -> Self {
        Self { words: Cow::Owned(self.words().to_vec()) }
    }
}

impl InputsBuilder {
    /// Creates a builder without inputs.
    #[doc(hidden)]
    pub const fn new() -> Self {
        Self { words: Cow::Owned(Vec::new()) }
    }

    fn own_words(&mut self) -> &mut Vec<i64> {
        self.words.to_mut()
    }

    /// Removes all inputs.
    #[doc(hidden)]
    #[inline]
    pub fn clear(&mut self) {
        self.own_words().clear();
    }

    /// Adds a tensor as the next input.
    #[doc(hidden)]
    #[inline]
    pub fn tensor(&mut self, dtype: DType, dimensions: &[i64]) {
        self.own_words().push(((dtype as i64) << 32) | dimensions.len() as i64);
        self.own_words().extend_from_slice(dimensions);
    }

    /// Adds an input that is not a tensor, such as a number or an absent option.
    #[doc(hidden)]
    #[inline]
    pub fn not_a_tensor(&mut self) {
        self.own_words().push(0);
    }

    /// Adds an input of one or more integers. It is only for ops whose number of operations depends
    /// on them.
    #[doc(hidden)]
    #[inline]
    pub fn integers(&mut self, values: &[i64]) {
        self.own_words().push((INTEGERS << 32) | values.len() as i64);
        self.own_words().extend_from_slice(values);
    }

    /// Begins a list of `length` tensors, which consists of the inputs that follow.
    #[doc(hidden)]
    #[inline]
    pub fn list(&mut self, length: usize) {
        self.own_words().push((LIST << 32) | length as i64);
    }

    /// Replaces the inputs by encoded ones, for code in other languages. Each input is one word
    /// `(code << 32) | rank`, followed by its dimensions. The code is that of [`DType`], or one of
    /// these:
    ///
    /// - 0 for a non-tensor
    /// - 255 for a list; its rank is the length of the list
    /// - 254 for integers
    ///
    /// If the profiler requests them ([`Interest::INPUTS`](crate::Interest::INPUTS)), further
    /// details may precede the inputs: see the source of [`InputDetails`].
    #[doc(hidden)]
    #[inline]
    pub fn set_words(&mut self, words: &[i64]) {
        self.own_words().clear();
        self.own_words().extend_from_slice(words);
    }

    /// Runs `work` with a builder that borrows the encoded inputs. It avoids a copy: reading words
    /// that were just copied with another word width costs more than the copy itself.
    #[doc(hidden)]
    #[inline(always)]
    pub fn with_words<T>(words: &[i64], work: impl FnOnce(&Self) -> T) -> T {
        // SAFETY: the pointer and length come from a valid slice, which outlives the call of
        // `work`. The `'static` lifetime does not escape: `work` receives the builder only by
        // reference, `words` ties its result to that reference, and a clone owns its words.
        let words: &'static [i64] =
            unsafe { std::slice::from_raw_parts(words.as_ptr(), words.len()) };
        work(&Self { words: Cow::Borrowed(words) })
    }

    /// Returns the encoded inputs.
    #[doc(hidden)]
    #[inline(always)]
    pub fn words(&self) -> &[i64] {
        &self.words
    }
}

/// An interned list of shapes, as a 4-byte handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShapeList(u32);

/// Maximum number of distinct lists. Further ones have no handle of their own, so that shapes that
/// never repeat cannot fill the memory.
const MOST_LISTS: usize = 1 << 20;

/// Maximum number of lists with details, because the numbers passed to an op may never repeat.
/// Further lists are stored without their details.
const MOST_DETAILED: usize = 1 << 18;

#[derive(Default)]
struct Lists {
    entries: Vec<&'static [i64]>,
    numbers: HashMap<&'static [i64], u32>,
    /// Map from the number of a list with details to the number of the same list without them.
    without_details: HashMap<u32, u32>,
}

/// Set if any list has details. Otherwise a look-up is unnecessary.
static ARE_ANY_DETAILED: AtomicBool = AtomicBool::new(false);

static LISTS: LazyLock<RwLock<Lists>> = LazyLock::new(RwLock::default);

impl ShapeList {
    /// Handle for unknown shapes.
    #[doc(hidden)]
    pub const NONE: Self = Self(0);

    /// Returns the list of these inputs. *Cost*: a hash look-up under a read lock.
    pub fn intern(inputs: &InputsBuilder) -> Self {
        intern(inputs.words())
    }

    /// Returns the inputs, or `None` if shapes were not recorded.
    pub fn inputs(self) -> Option<Vec<TensorShape>> {
        let mut rest = details::split(self.words()?).1;
        let mut inputs = Vec::new();
        while let Some(input) = decode(&mut rest) {
            inputs.push(input);
        }
        Some(inputs)
    }

    /// Returns the details of the inputs, or `None` if they were not recorded.
    #[doc(hidden)]
    pub fn details(self) -> Option<InputDetails> {
        details::split(self.words()?).0.map(details::decode)
    }

    /// Returns the list of the same inputs without their details.
    #[doc(hidden)]
    pub fn without_details(self) -> Self {
        if !ARE_ANY_DETAILED.load(Ordering::Relaxed) {
            return self;
        }
        let lists = LISTS.read().unwrap_or_else(PoisonError::into_inner);
        lists.without_details.get(&self.0).map_or(self, |number| Self(*number))
    }

    /// Returns `true` if the maximum number of lists is reached, so that further ones are
    /// [`NONE`](Self::NONE).
    #[doc(hidden)]
    pub fn are_full() -> bool {
        LISTS.read().unwrap_or_else(PoisonError::into_inner).entries.len() >= MOST_LISTS
    }

    /// Returns `true` if all lists have their details. Returns `false` after the limit for lists
    /// with details is reached.
    #[doc(hidden)]
    pub fn have_all_details() -> bool {
        let lists = LISTS.read().unwrap_or_else(PoisonError::into_inner);
        lists.without_details.len() < MOST_DETAILED
    }

    fn words(self) -> Option<&'static [i64]> {
        let index = (self.0 as usize).checked_sub(1)?;
        LISTS.read().unwrap_or_else(PoisonError::into_inner).entries.get(index).copied()
    }

    /// Returns the handle as a number, which is 0 for [`NONE`](Self::NONE).
    #[doc(hidden)]
    #[inline(always)]
    pub const fn number(self) -> u32 {
        self.0
    }

    /// Returns the handle with this [`number`](Self::number).
    #[doc(hidden)]
    pub const fn from_number(number: u32) -> Self {
        Self(number)
    }
}

fn decode(rest: &mut &[i64]) -> Option<TensorShape> {
    let (head, tail) = rest.split_first()?;
    *rest = tail;
    let (code, count) = (head >> 32, (head & 0xffff_ffff) as usize);
    Some(match code {
        0 => TensorShape::NotATensor,
        LIST => TensorShape::List((0..count).map_while(|_| decode(rest)).collect()),
        code => {
            let (values, tail) = rest.split_at(count.min(rest.len()));
            *rest = tail;
            match code {
                INTEGERS => TensorShape::Integers(values.to_vec()),
                code => TensorShape::Tensor(DType::from_code(code), values.to_vec()),
            }
        }
    })
}

fn intern(words: &[i64]) -> ShapeList {
    stored(words).map_or(ShapeList::NONE, |(_, number)| ShapeList(number))
}

/// Returns the stored list with these words and its number, or `None` if there are too many lists.
fn stored(words: &[i64]) -> Option<(&'static [i64], u32)> {
    apart_from_forks(|| stored_now(words))
}

fn stored_now(words: &[i64]) -> Option<(&'static [i64], u32)> {
    let known = find_of(&LISTS.read().unwrap_or_else(PoisonError::into_inner), words);
    if known.is_some() {
        return known;
    }
    let mut lists = LISTS.write().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = find_of(&lists, words) {
        return Some(known);
    }
    let (details, inputs) = details::split(words);
    if details.is_none() {
        return lists.add(words);
    }
    let without = find_of(&lists, inputs).or_else(|| lists.add(inputs))?;
    if lists.without_details.len() >= MOST_DETAILED {
        return Some(without);
    }
    let detailed = lists.add(words)?;
    lists.without_details.insert(detailed.1, without.1);
    ARE_ANY_DETAILED.store(true, Ordering::Relaxed);
    Some(detailed)
}

/// Returns a stored list and its number.
fn find_of(lists: &Lists, words: &[i64]) -> Option<(&'static [i64], u32)> {
    lists.numbers.get_key_value(words).map(|(words, number)| (*words, *number))
}

impl Lists {
    /// Stores a new list.
    fn add(&mut self, words: &[i64]) -> Option<(&'static [i64], u32)> {
        if self.entries.len() >= MOST_LISTS {
            return None;
        }
        let words: &'static [i64] = Box::leak(words.into());
        self.entries.push(words);
        let number = self.entries.len() as u32; // at most MOST_LISTS
        self.numbers.insert(words, number);
        Some((words, number))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn inputs_of_all_kinds_are_read_as_they_were_given() {
        let mut inputs = InputsBuilder::new();
        inputs.tensor(DType::Float32, &[]);
        inputs.tensor(DType::BFloat16, &[2; 12]);
        inputs.not_a_tensor();
        inputs.list(2);
        inputs.tensor(DType::Int64, &[0]);
        inputs.tensor(DType::Other, &[i64::MAX, -1]);
        inputs.integers(&[1, -2]);
        let list = ShapeList::intern(&inputs);
        let expected = vec![
            TensorShape::Tensor(DType::Float32, vec![]),
            TensorShape::Tensor(DType::BFloat16, vec![2; 12]),
            TensorShape::NotATensor,
            TensorShape::List(vec![
                TensorShape::Tensor(DType::Int64, vec![0]),
                TensorShape::Tensor(DType::Other, vec![i64::MAX, -1]),
            ]),
            TensorShape::Integers(vec![1, -2]),
        ];
        assert_eq!(list.inputs(), Some(expected));
        assert_eq!(ShapeList::NONE.inputs(), None);
        let mut cache = ShapeCache::new();
        assert_eq!([cache.intern(inputs.words()), cache.intern(inputs.words())], [list; 2]);
        assert_eq!(ShapeList::intern(&InputsBuilder::new()).inputs(), Some(vec![]));
    }

    #[test]
    fn words_are_lent_without_a_copy_and_a_clone_outlives_them() {
        let mut words = vec![(2 << 32) | 1, 7];
        let mut copy = InputsBuilder::with_words(&words, |inputs| {
            assert!(std::ptr::eq(inputs.words(), words.as_slice()));
            inputs.clone()
        });
        words.fill(0);
        copy.not_a_tensor();
        assert_eq!(copy.words(), [(2 << 32) | 1, 7, 0]);
    }

    #[test]
    fn words_that_make_no_sense_do_no_harm() {
        let mut inputs = InputsBuilder::new();
        inputs.set_words(&[(2 << 32) | 9, 1, 2]);
        let cut = vec![TensorShape::Tensor(DType::Float32, vec![1, 2])];
        assert_eq!(ShapeList::intern(&inputs).inputs(), Some(cut));
        inputs.set_words(&[(255 << 32) | 0xffff_ffff]);
        assert_eq!(ShapeList::intern(&inputs).inputs(), Some(vec![TensorShape::List(vec![])]));
        inputs.set_words(&[77 << 32, -1, 5]);
        assert_eq!(ShapeList::intern(&inputs).inputs().map(|inputs| inputs.len()), Some(2));
    }
}
