//! What a program trains with, as its hooks say.

use std::sync::{PoisonError, RwLock};

use serde::{Deserialize, Serialize};

use crate::OrderExt;
use crate::evaluation::{EvaluatedOutputs, EvaluatedOutputsCounter};
use crate::forking::apart_from_forks;

/// A framework that a program trains with, as far as its hooks know it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Framework {
    /// As its own crate is called: `burn`, `candle`, `tch`.
    pub name: String,
    /// Its version, or those that the hooks were made for: `0.11`.
    #[serde(default)]
    pub version: Option<String>,
    /// The library that does the work, where it is another one: `libtorch 2.13.0`.
    #[serde(default)]
    pub library: Option<String>,
    /// What it was built with, or has found on this machine, of what makes ops faster: `mkl`, `cuda`,
    /// `avx2`. What is not here is not there, where hooks can know it.
    #[serde(default)]
    pub features: Vec<String>,
    /// So many threads work on one op.
    #[serde(default)]
    pub threads: Option<u64>,
    /// What it was seen to train on: `cpu`, `cuda:0`.
    #[serde(default)]
    pub devices: Vec<String>,
    /// What its modules have returned in evaluations of this process, and how much of it was remembered for a
    /// backward pass; `None` where hooks cannot know, or nothing was evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[doc(hidden)]
    pub evaluated: Option<EvaluatedOutputs>,
}

impl Framework {
    /// Whether it was built with this, or has found it.
    #[doc(hidden)]
    pub fn has(&self, feature: &str) -> bool {
        self.features.iter().any(|known| known == feature)
    }
}

/// What hooks have declared.
struct Declared {
    /// Asks the framework.
    read: fn() -> Framework,
    /// What it has answered last.
    known: Framework,
}

static DECLARED: RwLock<Vec<Declared>> = RwLock::new(Vec::new());
static DEVICES: RwLock<Vec<(&'static str, String)>> = RwLock::new(Vec::new());
static EVALUATED: RwLock<Vec<Evaluated>> = RwLock::new(Vec::new());

/// Where a framework's hooks count what modules return in evaluations.
type Evaluated = (&'static str, &'static EvaluatedOutputsCounter);

/// For hooks: reports say what `read` answers. It is asked now, and again whenever a profiler becomes the
/// active one, on the thread that makes it so. A framework that was declared before is not asked here.
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
        // Two crates may hook one framework, or two threads declare it at once.
        match declared.iter_mut().find(|entry| entry.known.name == known.name) {
            Some(entry) => *entry = Declared { read, known },
            None => declared.push(Declared { read, known }),
        }
    });
}

/// For hooks: the framework of that name trains on this device.
pub fn declare_device(framework: &'static str, device: &str) {
    apart_from_forks(|| {
        let mut devices = DEVICES.write().unwrap_or_else(PoisonError::into_inner);
        let is_known = |known: &(&str, String)| known.0 == framework && known.1 == device;
        if !devices.iter().any(is_known) {
            devices.push((framework, device.to_owned()));
        }
    });
}

/// For hooks: what modules of the framework of that name return in evaluations is counted there.
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

/// Asks all frameworks again: how many threads they use may have changed.
pub fn ask_frameworks() {
    // Asked without a lock: a framework may do what it likes.
    let readers: Vec<fn() -> Framework> = apart_from_forks(|| {
        let declared = DECLARED.read().unwrap_or_else(PoisonError::into_inner);
        declared.iter().map(|entry| entry.read).collect()
    });
    readers.into_iter().for_each(|read| keep(read, read()));
}

/// What is known of all frameworks, in the order of their names.
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
    fn what_a_framework_answers_is_known_and_asked_again() {
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
