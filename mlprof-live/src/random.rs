//! Numbers that nobody can guess, by the standard library's own means.

use std::hash::{BuildHasher, Hasher, RandomState};

/// One of 64 random bits: the system's own random numbers are behind it.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
