//! Unpredictable numbers, generated with the standard library.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Returns 64 random bits, which are seeded by the system's random numbers.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
