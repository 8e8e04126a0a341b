//! Look-up of string literals by address, without reading their text.
//!
//! This is correct for text in a read-only segment of a loaded file: such text neither moves nor
//! changes. A `&str` may also point to the heap or the stack, where another name may later have the
//! same address. So only [text in a file](super::images) is looked up by its address.

use std::num::NonZeroU32;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::{Action, INTERNER, images, interning};

/// Number of slots in the table of literals.
const SLOTS: usize = 4096;
/// Number of neighbouring slots in which a literal may be stored.
const PROBES: usize = 8;

/// A literal and its action.
///
/// *Invariant*: a slot is filled once, by a thread that holds the interner's write lock. The thread
/// stores `action` first and then `key` with release ordering. A reader that loads a key with
/// acquire ordering therefore also sees the action.
struct LiteralSlot {
    /// Key of the literal from [`key_of`]; 0 in an empty slot.
    key: AtomicU64,
    /// [`Action::number`] of the literal's action; 0 in an empty slot.
    action: AtomicU32,
}

static LITERALS: [LiteralSlot; SLOTS] =
    [const { LiteralSlot { key: AtomicU64::new(0), action: AtomicU32::new(0) } }; SLOTS];

/// Combines a literal's address and length in one number, because addresses of program data are
/// below 2^48. Returns `None` for a literal of 64 kB or more.
#[inline(always)]
fn key_of(name: &str) -> Option<u64> {
    let length = name.len() as u64;
    if length >> 16 == 0 { Some((name.as_ptr() as u64).wrapping_add(length << 48)) } else { None }
}

/// `true` if the system reports which parts of files are read-only. On other systems the table may
/// contain a `static` that the program changes, so the action's name must also be compared with the
/// text.
const READ_ONLY_IS_KNOWN: bool = cfg!(any(target_os = "linux", target_os = "android"));

impl LiteralSlot {
    /// Returns the slot's action if the slot holds `name`, of which `key` is the key.
    #[inline(always)]
    fn action_of(&self, key: u64, name: &str) -> Option<Action> {
        if self.key.load(Ordering::Acquire) != key {
            return None;
        }
        let number = self.action.load(Ordering::Relaxed);
        debug_assert_ne!(number, 0);
        // SAFETY: by the invariant a thread stored the action before the key, and an action's
        // number is never 0. Checking for 0 would take a tenth of the look-up time.
        let action = Action(unsafe { NonZeroU32::new_unchecked(number) });
        (READ_ONLY_IS_KNOWN || action.name() == name).then_some(action)
    }
}

/// Converts a text of any lifetime: a literal, or a name that was read or computed.
///
/// *Cost*:
///
/// - a literal: one compare in a table keyed by its address (under 1 ns), or about 5 ns if two
///   literals share a slot
/// - a literal that the process sees for the first time: the same as [`Action::new`]
/// - any other text: about 100 ns, because each conversion looks up the content
///
/// Keep the [`Action`] of a computed name if it is used often. A library must not be unloaded after
/// its literals were used.
///
/// # Examples
///
/// ```
/// use mlprof_events::Action;
///
/// fn action_of(layer: &str) -> Action {
///     layer.into()
/// }
///
/// let name = format!("layer {}", 3);
/// assert_eq!(action_of(&name), Action::from("layer 3"));
/// ```
impl From<&str> for Action {
    #[inline(always)]
    fn from(name: &str) -> Self {
        // A literal neither moves nor changes, so its address and length identify its text.
        let slot = &LITERALS[name.as_ptr() as usize % SLOTS];
        match key_of(name).and_then(|key| slot.action_of(key, name)) {
            Some(action) => action,
            None => find_literal(name),
        }
    }
}

/// Searches the neighbouring slots, and fills an empty one if none of them holds the literal.
#[cold]
#[inline(never)]
fn find_literal(name: &str) -> Action {
    let Some(key) = key_of(name).filter(|key| *key != 0) else { return Action::new(name) };
    let first = name.as_ptr() as usize;
    let mut slots = (0..PROBES).map(|n| &LITERALS[(first + n) % SLOTS]);
    if let Some(action) = slots.clone().find_map(|slot| slot.action_of(key, name)) {
        return action;
    }
    let action = Action::new(name);
    if action == Action::WITHIN || !images::hold(name) {
        return action;
    }
    interning(|| {
        // The lock makes this thread the only writer of all slots.
        let _writer = INTERNER.write().unwrap_or_else(PoisonError::into_inner);
        let is_there = slots.clone().any(|slot| slot.action_of(key, name).is_some());
        let empty = slots.find(|slot| slot.key.load(Ordering::Relaxed) == 0);
        if let Some(slot) = empty.filter(|_| !is_there) {
            slot.action.store(action.number(), Ordering::Relaxed);
            slot.key.store(key, Ordering::Release);
        }
    });
    action
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_of_a_literal_is_another_action() {
        const LONG: &str = "training_step";
        let long: Action = LONG.into();
        let short: Action = (&LONG[..8]).into();
        assert_ne!(long, short, "same address, other length");
        assert_eq!(short.name(), "training");
        assert_eq!(Action::from(LONG), long, "not confused with its prefix");
    }

    #[test]
    fn a_borrowed_name_is_found_by_its_text() {
        let mut buffer = *b"layer 0";
        for digit in b'0'..=b'9' {
            buffer[6] = digit;
            let name = std::str::from_utf8(&buffer).expect("ASCII");
            assert_eq!(Action::from(name).name(), name);
            assert_eq!(Action::from(name), Action::new(name));
        }
    }

    /// Frees a leaked text, so that another name can have the same address.
    #[test]
    fn a_name_at_the_place_of_another_is_not_taken_for_it() {
        let mut places = std::collections::HashSet::new();
        for round in 0..1000 {
            let text = format!("leaked and taken back {round:4}");
            let name: &'static str = Box::leak(text.clone().into_boxed_str());
            places.insert(name.as_ptr() as usize);
            assert_eq!(Action::from(name).name(), text);
            assert_eq!(Action::from(name).name(), text, "the second time, too");
            // SAFETY: the pointer comes from `Box::leak` and is freed once. `name` is not used
            // afterwards.
            drop(unsafe { Box::from_raw(std::ptr::from_ref(name).cast_mut()) });
        }
        assert!(cfg!(miri) || places.len() < 1000, "no place was used twice");
    }
}
