//! Collectives in which ranks wait for each other, as named in tables.

use parquet::data_type::ByteArray;
use rustc_hash::FxHashMap;

use crate::classify::Meanings;
use crate::ranks::groups;
use crate::trace::{Category, Trace};

/// Collective of each participating slice, by its index in [`Trace::slices`].
pub(super) struct Waits(FxHashMap<u32, ByteArray>);

impl Waits {
    /// Finds the collectives of a trace. Actions are identified by their name, and kernels by their
    /// operation and group. `names` contains the text of each interned name.
    pub(super) fn of(trace: &Trace, meanings: &Meanings, names: &[ByteArray]) -> Self {
        let correlations = trace.correlations();
        let mut known: FxHashMap<String, ByteArray> = FxHashMap::default();
        let mut found = FxHashMap::default();
        for (place, slice) in (0_u32..).zip(&trace.slices) {
            if meanings.waits_for_ranks(trace, slice) {
                found.insert(place, names[slice.name.0 as usize].clone());
            } else if slice.category == Category::Kernel && meanings.communicates(slice) {
                let calls = correlations.get(&slice.correlation);
                let call = calls.and_then(|of| of.call);
                if let Some(joined) = groups::joined_by_all(trace, meanings, slice, call) {
                    let text = known.entry(joined);
                    let text = text.or_insert_with_key(|joined| ByteArray::from(joined.as_str()));
                    found.insert(place, text.clone());
                }
            }
        }
        Self(found)
    }

    pub(super) fn of_slice(&self, place: usize) -> Option<ByteArray> {
        self.0.get(&u32::try_from(place).ok()?).cloned()
    }
}
