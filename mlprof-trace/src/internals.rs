//! Types into which the core records, and aggregated results of many cycles. **Not for users**:
//! they may change in any version.

pub use crate::cycle::event_log::{Budget, Log, LogSnapshot, LogWriter, Pool};
pub use crate::cycle::{
    CycleName, EVENT_WORDS, MEMORY_WORDS, OpenEvent, RecordedCycle, RecordedThread,
};
pub use crate::host::{host_name, worker_name};
pub use crate::profile::{Profile, Totals};
