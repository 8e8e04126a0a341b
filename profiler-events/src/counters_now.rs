//! What devices show now, for whoever looks in from outside. They are asked as long as somebody wants to know, whatever
//! profilers want, and reports hear nothing of it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{OnceLock, PoisonError};

use crate::forking::{Mutex, MutexGuard};
use crate::{CounterSample, DeviceCounter};

type Shown = BTreeMap<(u32, DeviceCounter), f64>;

/// So many look.
static WATCHERS: AtomicUsize = AtomicUsize::new(0);
/// What was shown last.
static SHOWN: Mutex<Shown> = Mutex::new(BTreeMap::new());
/// Who asks devices.
static ASKER: OnceLock<fn()> = OnceLock::new();

/// Somebody looks, while it lives.
#[must_use = "nobody is asked any more when this is dropped"]
#[derive(Debug)]
pub struct Watching(());

/// Has devices asked from here on, if there is somebody who can.
pub fn watch() -> Watching {
    if WATCHERS.fetch_add(1, Ordering::SeqCst) == 0 {
        tell_asker();
    }
    Watching(())
}

impl Drop for Watching {
    fn drop(&mut self) {
        if WATCHERS.fetch_sub(1, Ordering::SeqCst) == 1 {
            lock().clear();
            tell_asker();
        }
    }
}

/// Whether somebody looks. *Cost*: a load.
pub fn are_watched() -> bool {
    WATCHERS.load(Ordering::SeqCst) > 0
}

/// Has `asker` called whenever somebody begins to look, or nobody does any more. To be called once, by who asks devices.
pub fn asks(asker: fn()) {
    // Whoever came first asks.
    let _ = ASKER.set(asker);
}

/// A device has shown this.
pub fn show(sample: &CounterSample) {
    if are_watched() {
        lock().insert((sample.device, sample.counter), sample.value);
    }
}

/// What each device has shown last of each counter, in their order.
pub fn shown() -> Vec<(u32, DeviceCounter, f64)> {
    lock().iter().map(|((device, counter), value)| (*device, *counter, *value)).collect()
}

/// In a forked child, which has none of those who look at its parent.
pub fn forked() {
    WATCHERS.store(0, Ordering::SeqCst);
}

fn lock() -> MutexGuard<'static, Shown> {
    SHOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn tell_asker() {
    if let Some(asker) = ASKER.get() {
        asker();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timestamp;

    #[test]
    fn what_is_shown_is_known_while_somebody_looks() {
        static CHANGES: AtomicUsize = AtomicUsize::new(0);
        asks(|| {
            CHANGES.fetch_add(1, Ordering::Relaxed);
        });
        let sample = |device, value| CounterSample {
            time: Timestamp::now(),
            device,
            counter: DeviceCounter::Power,
            value,
        };
        show(&sample(0, 100.0));
        assert_eq!(shown(), [], "nobody looks");
        let (one, two) = (watch(), watch());
        show(&sample(1, 200.0));
        show(&sample(0, 100.0));
        show(&sample(0, 101.0));
        let expected = [(0, DeviceCounter::Power, 101.0), (1, DeviceCounter::Power, 200.0)];
        assert_eq!(shown(), expected);
        drop(one);
        assert!(are_watched());
        drop(two);
        assert_eq!((shown(), are_watched()), (Vec::new(), false));
        assert_eq!(CHANGES.load(Ordering::Relaxed), 2);
    }
}
