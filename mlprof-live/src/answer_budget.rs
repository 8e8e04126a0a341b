//! Bound on the bytes of recordings that clients have yet to take.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Bytes of answers that are kept at once, over all endpoints: 512 MiB.
pub(crate) const MOST_KEPT: u64 = 512 << 20;

/// Slowest rate at which an answer may be taken, in bytes per second.
const SLOWEST: u64 = 1 << 20;

static KEPT: AtomicU64 = AtomicU64::new(0);

/// Bytes that an answer keeps while it lives.
#[derive(Debug)]
pub(crate) struct ReservedBytes {
    of: &'static AtomicU64,
    bytes: u64,
}

impl ReservedBytes {
    /// Counts an answer of so many bytes.
    ///
    /// # Errors
    ///
    /// If others have not taken theirs, and there is no room for this one; in words.
    pub(crate) fn begin(bytes: u64) -> Result<Self, String> {
        Self::begin_in(&KEPT, bytes)
    }

    fn begin_in(of: &'static AtomicU64, bytes: u64) -> Result<Self, String> {
        let add = |before: u64| before.checked_add(bytes).filter(|sum| *sum <= MOST_KEPT);
        match of.fetch_update(Ordering::SeqCst, Ordering::SeqCst, add) {
            Ok(_) => Ok(Self { of, bytes }),
            Err(before) => Err(format!(
                "the recording has {bytes} bytes, and {before} bytes of others have not been taken: {MOST_KEPT} can be \
                 kept; record a shorter time, or try again later"
            )),
        }
    }

    /// Time within which an answer of so many bytes must have been taken.
    pub(crate) fn patience(bytes: u64) -> Duration {
        Duration::from_secs(10 + bytes / SLOWEST)
    }
}

impl Drop for ReservedBytes {
    fn drop(&mut self) {
        self.of.fetch_sub(self.bytes, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_again_once_an_answer_is_taken() {
        static OWN: AtomicU64 = AtomicU64::new(0);
        let first = ReservedBytes::begin_in(&OWN, MOST_KEPT - 1).expect("there is room");
        let error = ReservedBytes::begin_in(&OWN, 2).expect_err("there is not");
        assert!(error.contains("have not been taken"), "{error}");
        let second = ReservedBytes::begin_in(&OWN, 1).expect("just enough");
        drop((first, second));
        assert!(
            ReservedBytes::begin_in(&OWN, MOST_KEPT).is_ok()
                && ReservedBytes::begin_in(&OWN, u64::MAX).is_err()
        );
        assert_eq!(ReservedBytes::patience(60 << 20).as_secs(), 70);
    }
}
