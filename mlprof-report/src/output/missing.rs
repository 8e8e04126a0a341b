//! Warnings about missing data when a report is delivered.

use std::collections::BTreeSet;
use std::sync::PoisonError;

use super::{Output, say};
use crate::missing::Missing;
use mlprof_events::forking::Mutex;
use mlprof_events::uncounted;

/// Prints warnings about the missing data of a report on standard error. Each reason appears once
/// per process, and only on rank 0.
pub fn tell_missing(output: &Output, missing: &[Missing]) {
    static TOLD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if missing.is_empty() || output.run().rank != 0 {
        return;
    }
    uncounted(|| {
        let told = missing.iter().filter(|missing| **missing != Missing::AnyStepOfProgram);
        for text in told.map(Missing::to_string) {
            let is_new = TOLD.lock().unwrap_or_else(PoisonError::into_inner).insert(text.clone());
            if is_new {
                say(format_args!("warning: {text}."));
            }
        }
    });
}
