//! Table from an action's index to its kind, name and location.
//!
//! With several profilers attached, every start and stop of an action reads this table. Reads
//! therefore take no lock: entries are stored in chunks and never move. Each chunk is twice as
//! large as the one before it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use super::{ActionKind, Entry};

/// Number of entries in the first chunk, a power of two.
const FIRST: usize = 64;
/// Number of chunks needed to index every 32-bit number.
const CHUNKS: usize = (u32::BITS - FIRST.ilog2()) as usize + 1;

type Chunk = Box<[OnceLock<Entry<'static>>]>;

static ENTRIES: [OnceLock<Chunk>; CHUNKS] = [const { OnceLock::new() }; CHUNKS];

/// Returns the chunk of an entry and the entry's position in that chunk.
#[inline(always)]
fn place_of(index: usize) -> (usize, usize) {
    let place = index + FIRST;
    let chunk = (place / FIRST).ilog2();
    (chunk as usize, place - (FIRST << chunk))
}

/// Returns the entry with this [index](super::Action::index), or `None` if there is no such entry.
#[inline(always)]
pub(super) fn get(index: usize) -> Option<&'static Entry<'static>> {
    let (chunk, place) = place_of(index);
    ENTRIES.get(chunk)?.get()?.get(place)?.get()
}

/// Kinds of the first 4096 entries, so that one load returns the kind of an action. Each value is
/// the number of the kind plus 1; 0 means that the entry does not exist yet.
static EARLY_KINDS: [AtomicU8; 4096] = [const { AtomicU8::new(0) }; 4096];

/// Returns the kind of an entry below 4096, or `None` if the entry does not exist yet.
#[inline(always)]
pub(super) fn kind_of_early(index: usize) -> Option<ActionKind> {
    let kind = EARLY_KINDS.get(index)?.load(Ordering::Relaxed);
    ActionKind::of_number(kind.wrapping_sub(1))
}

/// Adds an entry. The caller must hold the interner's write lock, and may call this only once for
/// each index.
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

    /// Checks that early and later entries return their kinds through the same function.
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
