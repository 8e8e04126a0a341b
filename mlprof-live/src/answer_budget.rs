//! Limit on the memory for recordings that clients have not received yet.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Maximum size of pending answers in bytes, summed over all endpoints: 512 MiB.
pub(crate) const MOST_KEPT: u64 = 512 << 20;

/// Minimum rate at which a client must receive an answer, in bytes per second.
const SLOWEST: u64 = 1 << 20;

static KEPT: AtomicU64 = AtomicU64::new(0);

/// RAII guard that counts the bytes of one answer against the limit.
#[derive(Debug)]
pub(crate) struct ReservedBytes {
    of: &'static AtomicU64,
    bytes: u64,
}

impl ReservedBytes {
    /// Reserves `bytes` for an answer.
    ///
    /// # Errors
    ///
    /// Returns an error message if the pending answers leave no room for this one.
    pub(crate) fn begin(bytes: u64) -> Result<Self, String> {
        Self::begin_in(&KEPT, bytes)
    }

    fn begin_in(of: &'static AtomicU64, bytes: u64) -> Result<Self, String> {
        let add = |before: u64| before.checked_add(bytes).filter(|sum| *sum <= MOST_KEPT);
        match of.fetch_update(Ordering::SeqCst, Ordering::SeqCst, add) {
            Ok(_) => Ok(Self { of, bytes }),
            Err(before) => Err(format!(
                "cannot keep the recording of {bytes} bytes: other pending recordings have {before} bytes, \
                 and the limit is {MOST_KEPT}; record a shorter time, or try again later"
            )),
        }
    }

    /// Returns the time within which a client must have received an answer of `bytes`.
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
        assert!(error.contains("other pending recordings have"), "{error}");
        let second = ReservedBytes::begin_in(&OWN, 1).expect("just enough");
        drop((first, second));
        assert!(
            ReservedBytes::begin_in(&OWN, MOST_KEPT).is_ok()
                && ReservedBytes::begin_in(&OWN, u64::MAX).is_err()
        );
        assert_eq!(ReservedBytes::patience(60 << 20).as_secs(), 70);
    }
}
