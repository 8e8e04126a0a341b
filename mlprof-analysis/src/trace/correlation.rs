//! Correlation ids, which link calls and device work.

use rustc_hash::FxHashMap;

use super::Trace;

impl Trace {
    /// Returns the call and the device slices of each correlation id.
    pub(crate) fn correlations(&self) -> FxHashMap<u32, Correlated> {
        let mut found: FxHashMap<u32, Correlated> = FxHashMap::default();
        for (place, slice) in (0_u32..).zip(&self.slices) {
            if slice.correlation == 0 {
                continue;
            }
            let of = found.entry(slice.correlation).or_default();
            if slice.category.is_runtime() {
                of.call.get_or_insert(place);
            } else if slice.category.is_on_device() {
                of.device.push(place);
            }
        }
        found
    }
}

/// Slices that share a correlation id.
#[derive(Debug, Default)]
pub(crate) struct Correlated {
    /// Index of the call.
    pub(crate) call: Option<u32>,
    /// Indices of kernels, copies, fills and waits.
    pub(crate) device: SmallList,
}

/// List of slice indices. The common case of one index needs no allocation.
#[derive(Debug, Default)]
pub(crate) enum SmallList {
    #[default]
    None,
    One([u32; 1]),
    Several(Vec<u32>),
}

impl SmallList {
    fn push(&mut self, place: u32) {
        *self = match std::mem::take(self) {
            Self::None => Self::One([place]),
            Self::One([first]) => Self::Several(vec![first, place]),
            Self::Several(mut places) => {
                places.push(place);
                Self::Several(places)
            }
        };
    }
}

impl std::ops::Deref for SmallList {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        match self {
            Self::None => &[],
            Self::One(place) => place,
            Self::Several(places) => places,
        }
    }
}
