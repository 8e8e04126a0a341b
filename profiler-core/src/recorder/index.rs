//! Index from actions to the records of one thread. Most lookups cost one load and one comparison,
//! independent of the number of actions.

use std::ptr;
// Loom's atomics are not needed here, because only one thread ever accesses the index.
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use mlprof_events::Action;

/// Number of slots that an index with one record has.
const FIRST: usize = 4;
/// Limits for slots per record. The index doubles its slots until a new action gets the slot of its
/// own number, up to `MOST` slots per record. It never has fewer than [`LEAST`] slots per record.
const MOST: usize = 8;
const LEAST: usize = 2;

/// Record that an [`ActionIndex`] can look up by its action.
pub(crate) trait Named {
    /// Returns the [number](Action::number) of the record's action.
    fn number(&self) -> u32;
}

/// Hash table that uses the action number as the hash. Action numbers are dense, so most actions
/// get a slot of their own. The index does not own the records.
///
/// *Invariant*: only the owning thread uses the index. `slots` points to `mask + 1` slots, a power
/// of two, or to [`EMPTY`] with a mask of 0. At least one slot is always empty. Records outlive the
/// index.
pub(crate) struct ActionIndex<R> {
    slots: AtomicPtr<AtomicPtr<R>>,
    mask: AtomicU32,
    length: AtomicU32,
}

/// Slot shared by all indexes without a record. It lets lookups skip the check for an empty index.
static EMPTY: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

impl<R: Named> ActionIndex<R> {
    pub(crate) fn new() -> Self {
        // An `AtomicPtr` has the same layout for every pointee type, and the shared slot is never
        // written.
        let slots = AtomicPtr::new((&raw const EMPTY).cast_mut().cast());
        Self { slots, mask: AtomicU32::new(0), length: AtomicU32::new(0) }
    }

    fn len(&self) -> usize {
        self.length.load(Ordering::Relaxed) as usize
    }

    /// Returns the number of allocated slots, without the shared empty slot.
    fn capacity(&self) -> usize {
        match self.mask.load(Ordering::Relaxed) {
            0 => 0,
            mask => mask as usize + 1,
        }
    }

    #[inline(always)]
    fn slot(&self, number: u32) -> &AtomicPtr<R> {
        let place = number & self.mask.load(Ordering::Relaxed);
        // SAFETY: `place` is at most `mask`, and by the invariant `slots` points to `mask + 1`
        // initialised slots.
        unsafe { &*self.slots.load(Ordering::Relaxed).add(place as usize) }
    }

    #[inline(always)]
    fn record(&self, number: u32) -> Option<&R> {
        // SAFETY: a slot holds null or a pointer to a record, and records outlive the index.
        unsafe { self.slot(number).load(Ordering::Relaxed).as_ref() }
    }

    /// Returns the record in the slot of the number of `action`. It may belong to another action.
    #[inline(always)]
    pub(crate) fn get_slot(&self, action: Action) -> Option<&R> {
        self.record(action.number())
    }

    /// Returns the record of `action` if it is in the slot of the action's own number.
    #[inline(always)]
    pub(crate) fn get_near(&self, action: Action) -> Option<&R> {
        self.get_slot(action).filter(|record| record.number() == action.number())
    }

    /// Returns the record of `action`.
    pub(crate) fn get(&self, action: Action) -> Option<&R> {
        let mut number = action.number();
        loop {
            let record = self.record(number)?;
            if record.number() == action.number() {
                return Some(record);
            }
            number = number.wrapping_add(1);
        }
    }

    /// Adds a record for an action that has none yet.
    ///
    /// # Safety
    ///
    /// The record must outlive the index.
    pub(crate) unsafe fn insert(&self, record: &R) {
        let length = self.len() + 1;
        let number = record.number();
        let mut slots = self.capacity().max(FIRST / 2);
        while slots < LEAST * length {
            slots *= 2;
        }
        if slots < FIRST {
            slots = FIRST;
        }
        if slots > self.capacity() {
            self.grow_to(slots);
        }
        while self.record(number).is_some() && 2 * self.capacity() <= MOST * length {
            self.grow_to(2 * self.capacity());
        }
        self.put(record);
        self.length.store(length as u32, Ordering::Relaxed);
    }

    fn put(&self, record: &R) {
        let mut number = record.number();
        while self.record(number).is_some() {
            number = number.wrapping_add(1);
        }
        self.slot(number).store(ptr::from_ref(record).cast_mut(), Ordering::Relaxed);
    }

    fn grow_to(&self, slots: usize) {
        let new: Box<[AtomicPtr<R>]> =
            (0..slots).map(|_| AtomicPtr::new(ptr::null_mut())).collect();
        let (old, capacity) = (self.slots.load(Ordering::Relaxed), self.capacity());
        self.slots.store(Box::into_raw(new).cast(), Ordering::Relaxed);
        self.mask.store(slots as u32 - 1, Ordering::Relaxed);
        if capacity == 0 {
            return;
        }
        // SAFETY: `old` comes from `Box::into_raw` in an earlier call, with this length. `slots` no
        // longer points to it.
        let old = unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(old, capacity)) };
        for slot in &old {
            // SAFETY: a slot holds null or a pointer to a record, and records outlive the index.
            if let Some(record) = unsafe { slot.load(Ordering::Relaxed).as_ref() } {
                self.put(record);
            }
        }
    }
}

impl<R> Drop for ActionIndex<R> {
    fn drop(&mut self) {
        let mask = *self.mask.get_mut() as usize;
        if mask > 0 {
            let slots = ptr::slice_from_raw_parts_mut(*self.slots.get_mut(), mask + 1);
            // SAFETY: `grow_to` made the slots with `Box::into_raw` and this length, and `&mut
            // self` rules out other users.
            drop(unsafe { Box::from_raw(slots) });
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    struct Record(Action);

    impl Named for Record {
        fn number(&self) -> u32 {
            self.0.number()
        }
    }

    fn records(count: usize) -> Vec<Record> {
        let name = |number| format!("index-{number}");
        (0..count).map(|number| Record(Action::new(&name(number)))).collect()
    }

    fn index_of<'records>(
        records: impl IntoIterator<Item = &'records Record>,
    ) -> ActionIndex<Record> {
        let index = ActionIndex::new();
        for record in records {
            // SAFETY: the caller's records outlive the index.
            unsafe { index.insert(record) };
        }
        index
    }

    #[test]
    fn every_record_is_found_again_and_no_other() {
        let count = if cfg!(miri) { 60 } else { 5_000 };
        let (records, other) = (records(count), Action::new("index-other"));
        let index = index_of(records.iter().rev().step_by(3));
        for (number, record) in records.iter().rev().enumerate() {
            let found = index.get(record.0).map(ptr::from_ref);
            assert_eq!(found, (number % 3 == 0).then_some(ptr::from_ref(record)));
        }
        assert!(index.get(other).is_none() && index_of([]).get(other).is_none());
        assert!(index.capacity() <= MOST * index.len());
    }

    /// Checks that nearly all lookups succeed at the first slot, which makes ten thousand actions
    /// as cheap as a few.
    #[test]
    #[cfg_attr(miri, ignore = "a count over ten thousand")]
    fn most_records_are_at_the_slot_of_their_number() {
        let records = records(10_000);
        let near = |index: &ActionIndex<Record>| {
            records.iter().filter(|record| index.get_near(record.0).is_some()).count()
        };
        let dense = index_of(&records);
        assert!(near(&dense) >= 9_900, "{} of 10,000", near(&dense));
        // Sparse numbers, as in a program that interns many other names in between.
        let mut state = 1_u64;
        let sparse: Vec<_> = records
            .iter()
            .filter(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                state >> 62 == 0
            })
            .collect();
        let index = index_of(sparse.iter().copied());
        assert!(near(&index) * 100 >= 90 * sparse.len(), "{} of {}", near(&index), sparse.len());
    }

    #[test]
    fn few_records_that_share_low_bits_get_slots_of_their_own() {
        let records = records(57);
        let same_low_bits: Vec<&Record> = records.iter().step_by(8).take(8).collect();
        let index = index_of(same_low_bits.iter().copied());
        assert!(same_low_bits.iter().all(|record| index.get_near(record.0).is_some()));
        assert!(index.capacity() <= 64);
    }

    /// Limits the slots of sparse numbers. A slot per number would take a thousand times the
    /// memory.
    #[test]
    fn records_whose_numbers_are_far_apart_share_slots() {
        let (count, apart) = if cfg!(miri) { (128, 32) } else { (4_096, 128) };
        let records = records(count);
        let far_apart: Vec<&Record> = records.iter().step_by(apart).collect();
        let index = index_of(far_apart.iter().copied());
        assert!(index.capacity() <= MOST * far_apart.len(), "{} slots", index.capacity());
        for record in far_apart {
            assert_eq!(index.get(record.0).map(ptr::from_ref), Some(ptr::from_ref(record)));
        }
    }
}
