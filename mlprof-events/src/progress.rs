//! Progress of a training run, as reported by trainers for observers outside of the process.

use std::sync::atomic::{AtomicU64, Ordering};

/// Current epoch, counted from 0, plus 1; 0 if no trainer reports it.
static EPOCH: AtomicU64 = AtomicU64::new(0);
/// Planned number of epochs; 0 if unknown.
static EPOCHS: AtomicU64 = AtomicU64::new(0);
/// Number of steps in the current epoch; 0 if unknown.
static STEPS: AtomicU64 = AtomicU64::new(0);

/// Bits of the latest loss as an `f64`.
static LOSS: AtomicU64 = AtomicU64::new(NO_LOSS);
/// Bits of a NaN that no computation produces. It means that no loss was reported.
const NO_LOSS: u64 = 0x7ff8_6d6c_7072_6f66;

/// Number of samples processed by training steps.
static SAMPLES: AtomicU64 = AtomicU64::new(0);

/// Counts the samples of the running training step. Trainers call it before the step ends. *Cost*:
/// an addition.
pub fn samples_processed(samples: u64) {
    SAMPLES.fetch_add(samples, Ordering::Relaxed);
}

/// Returns the number of samples processed by all training steps of the process, as far as trainers
/// report it.
pub fn samples() -> u64 {
    SAMPLES.load(Ordering::Relaxed)
}

/// Stores the loss that the trainer has just read, which may be NaN. Like the epoch, it is stored
/// per process. *Cost*: a store.
pub fn loss_is(loss: f64) {
    LOSS.store(loss.to_bits(), Ordering::Relaxed);
}

/// Returns the latest loss while an epoch is running.
pub fn loss() -> Option<f64> {
    let bits = LOSS.load(Ordering::Relaxed);
    (bits != NO_LOSS && epoch().0.is_some()).then(|| f64::from_bits(bits))
}

/// Stores that epoch `epoch`, counted from 0, has begun, with the number of epochs and steps if
/// known. The values are stored per process. If two training runs overlap, the values of the latest
/// call count. *Cost*: three stores.
pub fn epoch_begins(epoch: u64, of: Option<u64>, steps: Option<u64>) {
    STEPS.store(steps.unwrap_or(0), Ordering::Relaxed);
    EPOCHS.store(of.unwrap_or(0), Ordering::Relaxed);
    EPOCH.store(epoch + 1, Ordering::Relaxed);
}

/// Stores that no epoch is running any more.
pub fn epochs_end() {
    EPOCH.store(0, Ordering::Relaxed);
    LOSS.store(NO_LOSS, Ordering::Relaxed);
}

/// Returns the current epoch, counted from 0, and the planned number of epochs, as far as they are
/// known.
pub fn epoch() -> (Option<u64>, Option<u64>) {
    let epoch = EPOCH.load(Ordering::Relaxed).checked_sub(1);
    let epochs = Some(EPOCHS.load(Ordering::Relaxed)).filter(|epochs| *epochs > 0);
    (epoch, epoch.and(epochs))
}

/// Returns the number of steps in the current epoch, if known.
pub fn steps_of_epoch() -> Option<u64> {
    Some(STEPS.load(Ordering::Relaxed)).filter(|steps| *steps > 0 && epoch().0.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_add_up() {
        let before = samples();
        samples_processed(32);
        samples_processed(7);
        assert_eq!(samples() - before, 39);
    }

    #[test]
    fn an_epoch_is_known_while_it_runs() {
        assert_eq!(epoch(), (None, None));
        epoch_begins(0, Some(3), Some(20));
        assert_eq!((epoch(), steps_of_epoch()), ((Some(0), Some(3)), Some(20)));
        assert_eq!(loss(), None);
        loss_is(0.5);
        assert_eq!(loss(), Some(0.5));
        loss_is(f64::NAN);
        assert!(loss().is_some_and(f64::is_nan), "that is one, too");
        epoch_begins(1, None, None);
        assert_eq!((epoch(), steps_of_epoch()), ((Some(1), None), None));
        epoch_begins(2, None, Some(20));
        epochs_end();
        assert_eq!(loss(), None);
        assert_eq!((epoch(), steps_of_epoch()), ((None, None), None));
    }
}
