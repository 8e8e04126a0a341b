//! A module outside the package.

/// Returns two.
pub(crate) fn far() -> u32 {
    2
}
