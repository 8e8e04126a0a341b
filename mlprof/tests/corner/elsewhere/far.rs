//! Outside of the package.

/// Two.
pub(crate) fn far() -> u32 {
    2
}
