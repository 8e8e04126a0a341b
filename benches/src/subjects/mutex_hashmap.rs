//! A naive Rust port of Lightning's SimpleProfiler.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use crate::harness::{Subject, time, work};

/// Names are strings, and a single lock protects the maps of running and completed actions.
#[derive(Default)]
pub struct MutexHashMap(Mutex<Maps>);

#[derive(Default)]
struct Maps {
    running: HashMap<(ThreadId, String), Instant>,
    ended: HashMap<String, (u64, Duration)>,
}

impl MutexHashMap {
    fn maps(&self) -> MutexGuard<'_, Maps> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self, name: &str) {
        let key = (std::thread::current().id(), name.to_owned());
        self.maps().running.insert(key, Instant::now());
    }

    fn stop(&self, name: &str) {
        let now = Instant::now();
        let key = (std::thread::current().id(), name.to_owned());
        let mut maps = self.maps();
        if let Some(start) = maps.running.remove(&key) {
            let (calls, total) = maps.ended.entry(key.1).or_default();
            *calls += 1;
            *total += now - start;
        }
    }
}

impl Subject for MutexHashMap {
    fn name(&self) -> &'static str {
        "mutex_hashmap"
    }

    fn slice(&self, scopes: usize) -> Duration {
        time(scopes, |call| {
            self.start("training_step");
            work(call);
            self.stop("training_step");
        })
    }
}
