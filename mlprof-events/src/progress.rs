//! How far a training has come, as trainers say it to whoever looks in from outside.

use std::sync::atomic::{AtomicU64, Ordering};

/// One more than the epoch that runs, counted from 0; 0 if nobody has said it.
static EPOCH: AtomicU64 = AtomicU64::new(0);
/// How many there will be; 0 if that is not known.
static EPOCHS: AtomicU64 = AtomicU64::new(0);
/// How many steps the epoch has; 0 if that is not known.
static STEPS: AtomicU64 = AtomicU64::new(0);

/// The bits of the loss that was read last.
static LOSS: AtomicU64 = AtomicU64::new(NO_LOSS);
/// Those of a NaN that no computation makes: nobody has said a loss.
const NO_LOSS: u64 = 0x7ff8_6d6c_7072_6f66;

/// How many samples training steps have worked on.
static SAMPLES: AtomicU64 = AtomicU64::new(0);

/// The training step that runs works on so many samples, which a trainer says before the step ends. *Cost*: an addition.
pub fn samples_processed(samples: u64) {
    SAMPLES.fetch_add(samples, Ordering::Relaxed);
}

/// How many samples all training steps of the process have worked on, as far as trainers say it.
pub fn samples() -> u64 {
    SAMPLES.load(Ordering::Relaxed)
}

/// The loss that the trainer has read just now, which may be NaN. Of the process, as epochs are. *Cost*: a store.
pub fn loss_is(loss: f64) {
    LOSS.store(loss.to_bits(), Ordering::Relaxed);
}

/// The loss that was read last, while an epoch runs.
pub fn loss() -> Option<f64> {
    let bits = LOSS.load(Ordering::Relaxed);
    (bits != NO_LOSS && epoch().0.is_some()).then(|| f64::from_bits(bits))
}

/// An epoch begins, counted from 0, of so many, and with so many steps, if that is known. Of the process: where two
/// trainings run at once, that of the one that said it last. *Cost*: three stores.
pub fn epoch_begins(epoch: u64, of: Option<u64>, steps: Option<u64>) {
    STEPS.store(steps.unwrap_or(0), Ordering::Relaxed);
    EPOCHS.store(of.unwrap_or(0), Ordering::Relaxed);
    EPOCH.store(epoch + 1, Ordering::Relaxed);
}

/// No epoch runs any more.
pub fn epochs_end() {
    EPOCH.store(0, Ordering::Relaxed);
    LOSS.store(NO_LOSS, Ordering::Relaxed);
}

/// The epoch that runs, counted from 0, and how many there will be, as far as that is known.
pub fn epoch() -> (Option<u64>, Option<u64>) {
    let epoch = EPOCH.load(Ordering::Relaxed).checked_sub(1);
    let epochs = Some(EPOCHS.load(Ordering::Relaxed)).filter(|epochs| *epochs > 0);
    (epoch, epoch.and(epochs))
}

/// How many steps the epoch has that runs, if that is known.
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
