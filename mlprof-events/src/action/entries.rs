//! What actions stand for, by their number. Looked at for each start and stop where several profilers
//! listen, so reading takes no lock: entries never move, in chunks of which each has room for as many as
//! all before it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use super::{ActionKind, Entry};

/// Entries of the first chunk, a power of two.
const FIRST: usize = 64;
/// Enough for all numbers of 32 bits.
const CHUNKS: usize = (u32::BITS - FIRST.ilog2()) as usize + 1;

type Chunk = Box<[OnceLock<Entry<'static>>]>;

static ENTRIES: [OnceLock<Chunk>; CHUNKS] = [const { OnceLock::new() }; CHUNKS];

/// The chunk of an entry, and its place there.
#[inline(always)]
fn place_of(index: usize) -> (usize, usize) {
    let place = index + FIRST;
    let chunk = (place / FIRST).ilog2();
    (chunk as usize, place - (FIRST << chunk))
}

/// The entry of an [index](super::Action::index), if it is there.
#[inline(always)]
pub(super) fn get(index: usize) -> Option<&'static Entry<'static>> {
    let (chunk, place) = place_of(index);
    ENTRIES.get(chunk)?.get()?.get(place)?.get()
}

/// The kinds of the first entries again, for a look that takes one load: 1 more than the number of the
/// kind, 0 before there is an entry.
static EARLY_KINDS: [AtomicU8; 4096] = [const { AtomicU8::new(0) }; 4096];

/// The kind of one of the first entries, if it is there.
#[inline(always)]
pub(super) fn kind_of_early(index: usize) -> Option<ActionKind> {
    let kind = EARLY_KINDS.get(index)?.load(Ordering::Relaxed);
    ActionKind::of_number(kind.wrapping_sub(1))
}

/// Adds an entry. Only whoever holds the interner's lock may call this, once for each index.
pub(super) fn set(index: usize, entry: Entry<'static>) {
    let (chunk, place) = place_of(index);
    if let Some(early) = EARLY_KINDS.get(index) {
        early.store(entry.kind as u8 + 1, Ordering::Relaxed);
    }
    let made = || (0..FIRST << chunk).map(|_| OnceLock::new()).collect();
    let chunk = ENTRIES.get(chunk).map(|entries| entries.get_or_init(made));
    let entry_is_new = chunk.and_then(|chunk| chunk.get(place)?.set(entry).ok());
    debug_assert!(entry_is_new.is_some(), "index {index}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Action;

    #[test]
    fn a_kind_has_its_place_among_all() {
        for (number, kind) in ActionKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, number);
            assert_eq!(ActionKind::of_number(number as u8), Some(kind));
        }
        assert_eq!(ActionKind::of_number(ActionKind::ALL.len() as u8), None);
    }

    /// Early and later ones, told by the same function.
    #[test]
    #[cfg_attr(miri, ignore = "thousands of actions")]
    fn every_action_has_the_kind_that_it_was_made_with() {
        let name = |number: usize| format!("kind-{number}");
        let kind = |number: usize| ActionKind::ALL[number % 8];
        let actions: Vec<_> = (0..EARLY_KINDS.len() + 100)
            .map(|number| Action::of_kind(kind(number), &name(number), None))
            .collect();
        for (number, action) in actions.iter().enumerate() {
            assert_eq!((action.kind(), action.name()), (kind(number), &*name(number)));
        }
        assert!(actions.last().is_some_and(|last| last.index() >= EARLY_KINDS.len()));
    }

    #[test]
    fn places_are_one_after_the_other_and_reach_to_the_last_number() {
        let mut expected = (0, 0);
        for index in 0..10_000 {
            assert_eq!(place_of(index), expected);
            let is_last = expected.1 + 1 == FIRST << expected.0;
            expected = if is_last { (expected.0 + 1, 0) } else { (expected.0, expected.1 + 1) };
        }
        assert!(place_of(u32::MAX as usize - 1).0 < CHUNKS);
    }
}
