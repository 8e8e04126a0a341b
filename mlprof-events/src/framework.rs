//! The frameworks that a program trains with, as declared by their hooks.

use std::sync::{PoisonError, RwLock};

use serde::{Deserialize, Serialize};

use crate::OrderExt;
use crate::evaluation::{EvaluatedOutputs, EvaluatedOutputsCounter};
use crate::forking::apart_from_forks;

/// Description of a framework that the program uses, as far as its hooks know it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Framework {
    /// Name of the framework's own crate: `burn`, `candle`, `tch`.
    pub name: String,
    /// Version of the framework, or the versions that the hooks support: `0.11`.
    #[serde(default)]
    pub version: Option<String>,
    /// Library that does the computation, if it is not the framework itself: `libtorch 2.13.0`.
    #[serde(default)]
    pub library: Option<String>,
    /// Features that make ops faster and that the framework was built with or found on this
    /// machine: `mkl`, `cuda`, `avx2`. If hooks can detect a feature, its absence from the list
    /// means that it is not available.
    #[serde(default)]
    pub features: Vec<String>,
    /// Number of threads that work on one op.
    #[serde(default)]
    pub threads: Option<u64>,
    /// Devices on which the framework was seen to train: `cpu`, `cuda:0`.
    #[serde(default)]
    pub devices: Vec<String>,
    /// Numbers of tensors that its modules returned in evaluations of this process, in total and
    /// with a graph for a backward pass. `None` if hooks cannot know this, or if no module was
    /// evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[doc(hidden)]
    pub evaluated: Option<EvaluatedOutputs>,
}

impl Framework {
    /// Returns `true` if the framework was built with this feature or found it on the machine.
    #[doc(hidden)]
    pub fn has(&self, feature: &str) -> bool {
        self.features.iter().any(|known| known == feature)
    }
}

/// A declared framework.
struct Declared {
    /// Function that queries the framework.
    read: fn() -> Framework,
    /// Latest result of `read`.
    known: Framework,
}

static DECLARED: RwLock<Vec<Declared>> = RwLock::new(Vec::new());
static DEVICES: RwLock<Vec<(&'static str, String)>> = RwLock::new(Vec::new());
static EVALUATED: RwLock<Vec<Evaluated>> = RwLock::new(Vec::new());

/// Name of a framework and its counter of module outputs during evaluation.
type Evaluated = (&'static str, &'static EvaluatedOutputsCounter);

/// Declares a framework, which reports then describe with the result of `read`. `read` is called at
/// once, unless the framework was already declared. It is called again whenever a profiler becomes
/// active, on the thread that activates it.
pub fn declare_framework(read: fn() -> Framework) {
    let is_declared = apart_from_forks(|| {
        let declared = DECLARED.read().unwrap_or_else(PoisonError::into_inner);
        declared.iter().any(|known| std::ptr::fn_addr_eq(known.read, read))
    });
    if !is_declared {
        keep(read, read());
    }
}

fn keep(read: fn() -> Framework, known: Framework) {
    apart_from_forks(|| {
        let mut declared = DECLARED.write().unwrap_or_else(PoisonError::into_inner);
        // Two crates may hook one framework, or two threads may declare it at once.
        match declared.iter_mut().find(|entry| entry.known.name == known.name) {
            Some(entry) => *entry = Declared { read, known },
            None => declared.push(Declared { read, known }),
        }
    });
}

/// Declares that the framework with this name trains on `device`.
pub fn declare_device(framework: &'static str, device: &str) {
    apart_from_forks(|| {
        let mut devices = DEVICES.write().unwrap_or_else(PoisonError::into_inner);
        let is_known = |known: &(&str, String)| known.0 == framework && known.1 == device;
        if !devices.iter().any(is_known) {
            devices.push((framework, device.to_owned()));
        }
    });
}

/// Declares the counter for module outputs during evaluation, for the framework with this name.
pub fn declare_evaluated_outputs(
    framework: &'static str,
    counter: &'static EvaluatedOutputsCounter,
) {
    apart_from_forks(|| {
        let mut evaluated = EVALUATED.write().unwrap_or_else(PoisonError::into_inner);
        if !evaluated.iter().any(|known| std::ptr::eq(known.1, counter)) {
            evaluated.push((framework, counter));
        }
    });
}

/// Queries all frameworks again, because their number of threads may have changed.
pub fn ask_frameworks() {
    // No lock is held during the calls, because a framework may call back into this module.
    let readers: Vec<fn() -> Framework> = apart_from_forks(|| {
        let declared = DECLARED.read().unwrap_or_else(PoisonError::into_inner);
        declared.iter().map(|entry| entry.read).collect()
    });
    readers.into_iter().for_each(|read| keep(read, read()));
}

/// Returns the descriptions of all frameworks, sorted by name.
pub fn frameworks() -> Vec<Framework> {
    let mut known: Vec<Framework> = apart_from_forks(|| {
        let declared = DECLARED.read().unwrap_or_else(PoisonError::into_inner);
        declared.iter().map(|entry| entry.known.clone()).collect()
    });
    known.order_by(|one, other| one.name.cmp(&other.name));
    apart_from_forks(|| {
        let devices = DEVICES.read().unwrap_or_else(PoisonError::into_inner);
        for (name, device) in devices.iter() {
            if let Some(framework) = known.iter_mut().find(|known| known.name == *name) {
                framework.devices.push(device.clone());
            }
        }
        let evaluated = EVALUATED.read().unwrap_or_else(PoisonError::into_inner);
        for (name, counter) in evaluated.iter() {
            if let Some(framework) = known.iter_mut().find(|known| known.name == *name) {
                framework.evaluated = counter.counted();
            }
        }
    });
    known
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    static THREADS: AtomicU64 = AtomicU64::new(1);

    fn read() -> Framework {
        let threads = Some(THREADS.load(Ordering::Relaxed));
        let features = vec!["mkl".to_owned()];
        Framework { name: "of this test".to_owned(), features, threads, ..Framework::default() }
    }

    #[test]
    fn framework_answers_are_cached_and_refreshed() {
        let own = || frameworks().into_iter().filter(|known| known.name == "of this test");
        assert_eq!(own().count(), 0);
        declare_framework(read);
        assert_eq!(own().map(|known| known.threads).collect::<Vec<_>>(), [Some(1)]);
        THREADS.store(4, Ordering::Relaxed);
        declare_framework(read);
        assert_eq!(
            own().map(|known| known.threads).collect::<Vec<_>>(),
            [Some(1)],
            "not asked again"
        );
        ask_frameworks();
        for _ in 0..2 {
            declare_device("of this test", "cpu");
        }
        declare_device("of no test", "cuda:0");
        static COUNTER: EvaluatedOutputsCounter = EvaluatedOutputsCounter::new();
        declare_evaluated_outputs("of this test", &COUNTER);
        assert!(own().all(|known| known.evaluated.is_none()), "nothing was evaluated");
        COUNTER.count(true);
        let known: Vec<_> = own().collect();
        let [framework] = &known[..] else { panic!("one: {known:?}") };
        assert_eq!(framework.threads, Some(4));
        assert_eq!(framework.devices, ["cpu"]);
        assert!(framework.has("mkl") && !framework.has("cuda"));
        assert_eq!(framework.evaluated, Some(EvaluatedOutputs { outputs: 1, remembered: 1 }));
    }
}
