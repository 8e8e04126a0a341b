//! Literals as actions: found by their address, without a look at their text.
//!
//! That is right for text in the read-only part of the program's own files, which never moves and
//! never changes. A `&str` may also point to memory of the heap or of the stack, where another name
//! may come to lie later. So only [text in a file](super::images) is found by its address.

use std::num::NonZeroU32;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::{Action, INTERNER, images, interning};

/// Slots for literals that are found without the interner.
const SLOTS: usize = 4096;
/// How many neighbouring slots a literal may be in.
const PROBES: usize = 8;

/// A literal and its action.
///
/// *Invariant*: a slot is filled once, under the interner's lock, and `key` is stored last: who
/// finds a key there finds an action too.
struct LiteralSlot {
    /// [`key_of`] the literal; 0 in an empty slot.
    key: AtomicU64,
    /// [`Action::number`]; 0 in an empty slot.
    action: AtomicU32,
}

static LITERALS: [LiteralSlot; SLOTS] =
    [const { LiteralSlot { key: AtomicU64::new(0), action: AtomicU32::new(0) } }; SLOTS];

/// Address and length in one number: a program's own data lies below 2^48. `None` for a literal of
/// 64 kB or more.
#[inline(always)]
fn key_of(name: &str) -> Option<u64> {
    let length = name.len() as u64;
    if length >> 16 == 0 { Some((name.as_ptr() as u64).wrapping_add(length << 48)) } else { None }
}

/// Whether the system reports which parts of files are read-only. Elsewhere a `static` that the
/// program changes may be taken for a literal, so a slot's action must also have the text of the
/// name.
const READ_ONLY_IS_KNOWN: bool = cfg!(any(target_os = "linux", target_os = "android"));

impl LiteralSlot {
    /// Returns the slot's action if the slot belongs to `name`, whose key is `key`.
    #[inline(always)]
    fn action_of(&self, key: u64, name: &str) -> Option<Action> {
        if self.key.load(Ordering::Acquire) != key {
            return None;
        }
        let number = self.action.load(Ordering::Relaxed);
        debug_assert_ne!(number, 0);
        // SAFETY: by the invariant the action was stored before the key, and is never 0. Worth it:
        // the check is a tenth of the look-up.
        let action = Action(unsafe { NonZeroU32::new_unchecked(number) });
        (READ_ONLY_IS_KNOWN || action.name() == name).then_some(action)
    }
}

/// Accepts a text of any lifetime: a literal, or a name that was read or computed.
///
/// *Cost*: for a literal, a compare in a table keyed by its address (under 1 ns); as
/// [`Action::new`] the first time the process sees the literal, and some 5 ns where two literals
/// share a slot. A text that is not a literal is looked up by its content every time, which takes
/// some 100 ns: keep the [`Action`] of such a name where it is used often. A library whose literals
/// were used may not be unloaded.
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
        // A literal never moves and never changes: address and length stand for its text.
        let slot = &LITERALS[name.as_ptr() as usize % SLOTS];
        match key_of(name).and_then(|key| slot.action_of(key, name)) {
            Some(action) => action,
            None => find_literal(name),
        }
    }
}

/// Looks in the other slots, and takes an empty one if the literal is in none.
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
        // The lock makes this the only writer of any slot.
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

    /// What was leaked may be taken back; then other names come to lie where it was.
    #[test]
    fn a_name_at_the_place_of_another_is_not_taken_for_it() {
        let mut places = std::collections::HashSet::new();
        for round in 0..1000 {
            let text = format!("leaked and taken back {round:4}");
            let name: &'static str = Box::leak(text.clone().into_boxed_str());
            places.insert(name.as_ptr() as usize);
            assert_eq!(Action::from(name).name(), text);
            assert_eq!(Action::from(name).name(), text, "the second time, too");
            // SAFETY: the box that was leaked; the name is not used any more.
            drop(unsafe { Box::from_raw(std::ptr::from_ref(name).cast_mut()) });
        }
        assert!(cfg!(miri) || places.len() < 1000, "no place was used twice");
    }
}
