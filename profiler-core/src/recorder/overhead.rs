//! Cost of recording one scope on this machine, measured when a report is made.

use std::any::TypeId;
use std::collections::BTreeMap;
use std::sync::PoisonError;

use crate::{Action, Profiler, ProfilerExt};
use mlprof_events::clock::Stopwatch;
use mlprof_events::forking::Mutex;

const ROUNDS: usize = 8;
const SCOPES: u32 = 250;

/// Returns the seconds that one start and stop of a profiler of this type takes with these
/// settings. It is the best of a few short rounds on a profiler made for the measurement, which
/// take about 0.2 ms the first time. The result is cached for the process.
pub(crate) fn seconds_per_scope<P: Profiler + 'static>(
    settings: impl Into<u8>,
    make: impl FnOnce() -> P,
) -> f64 {
    static KNOWN: Mutex<BTreeMap<(TypeId, u8), f64>> = Mutex::new(BTreeMap::new());
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (TypeId::of::<P>(), settings.into());
    if let Some(seconds) = known().get(&key) {
        return *seconds;
    }
    let seconds = measure(&make());
    known().insert(key, seconds);
    seconds
}

fn measure(profiler: &impl Profiler) -> f64 {
    let action: Action = "mlprof_calibration".into();
    let round = || {
        let started = Stopwatch::start();
        for _ in 0..SCOPES {
            let _scope = profiler.profile(action);
        }
        started.elapsed().as_secs_f64() / f64::from(SCOPES)
    };
    (0..ROUNDS).map(|_| round()).fold(f64::INFINITY, f64::min)
}
