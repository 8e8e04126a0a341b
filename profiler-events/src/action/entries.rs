//! What actions stand for, by their number. Looked at for each start and stop where several profilers
//! listen, so reading takes no lock: entries never move, in chunks of which each has room for as many as
//! all before it.

use std::sync::OnceLock;

use super::Entry;

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

/// Adds an entry. Only whoever holds the interner's lock may call this, once for each index.
pub(super) fn set(index: usize, entry: Entry<'static>) {
    let (chunk, place) = place_of(index);
    let made = || (0..FIRST << chunk).map(|_| OnceLock::new()).collect();
    let chunk = ENTRIES.get(chunk).map(|entries| entries.get_or_init(made));
    let entry_is_new = chunk.and_then(|chunk| chunk.get(place)?.set(entry).ok());
    debug_assert!(entry_is_new.is_some(), "index {index}");
}

#[cfg(test)]
mod tests {
    use super::*;

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
