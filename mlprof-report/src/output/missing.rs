//! What is missing in a report, said where it is delivered.

use std::collections::BTreeSet;
use std::sync::PoisonError;

use super::{Output, say};
use crate::missing::Missing;
use mlprof_events::forking::Mutex;
use mlprof_events::uncounted;

/// Says on standard error what is missing in a report that is delivered now. Each reason once in a
/// process, and of several processes of a run only the first one says it.
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
