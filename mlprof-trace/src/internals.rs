//! What the core records into, and what it makes of many cycles. **Not for users**: it may change in any
//! version.

pub use crate::cycle::event_log::{Budget, Log, LogSnapshot, LogWriter, Pool};
pub use crate::cycle::{
    CycleName, EVENT_WORDS, MEMORY_WORDS, OpenEvent, RecordedCycle, RecordedThread,
};
pub use crate::host::{host_name, worker_name};
pub use crate::profile::{Profile, Totals};
