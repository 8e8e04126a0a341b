//! Access to an op's inputs by position.

use crate::TensorShape;

/// Inputs of an op, accessed by position.
#[derive(Clone, Copy)]
pub(super) struct Inputs<'op>(pub(super) &'op [TensorShape]);

impl<'op> Inputs<'op> {
    pub(super) fn dimensions(self, place: usize) -> Option<&'op [i64]> {
        match self.0.get(place)? {
            TensorShape::Tensor(_, dimensions) => Some(dimensions),
            _ => None,
        }
    }

    pub(super) fn integers(self, place: usize) -> Option<&'op [i64]> {
        match self.0.get(place)? {
            TensorShape::Integers(values) => Some(values),
            _ => None,
        }
    }
}

/// Returns the product, or `None` if it overflows or a size is negative.
pub(super) fn multiply<'size>(sizes: impl IntoIterator<Item = &'size i64>) -> Option<u64> {
    sizes
        .into_iter()
        .try_fold(1_u64, |product, size| product.checked_mul(u64::try_from(*size).ok()?))
}
