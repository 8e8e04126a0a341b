//! Analysis of processes that train together: the stages that delay all ranks in each step, and the
//! ranks that cause the delays.
//!
//! ```
//! use mlprof_core::report::ranks::{Stage, StageTable, stragglers};
//!
//! let stage = |name: &str, waits| Stage { name: name.to_owned(), waits_for_others: waits };
//! let stages = vec![stage("forward", false), stage("all_reduce", true)];
//! let mut table = StageTable::new(stages, vec![0, 1]);
//! for step in 0..5 {
//!     // Rank 1 needs twice as long, and rank 0 waits for it.
//!     table.push(step, &[10, 11, 20, 1]);
//! }
//! assert_eq!(table.exposed()[0].exposed_ns, 100);
//! assert_eq!(stragglers(&table)[0].rank, 1);
//! ```

mod frontier;
mod of_reports;
mod stragglers;
pub(crate) mod text;

pub use crate::quantile::{median, quantile};
pub use frontier::{Exposed, Stage, StageTable};
#[cfg(feature = "html")]
pub(crate) use of_reports::stages_of_ranks;
pub use of_reports::{stages_of_reports, step_stages};
pub use stragglers::{FEWEST_STEPS, Straggler, stragglers};
#[cfg(feature = "html")]
pub(crate) use text::stages_table;
pub use text::{held_up, numbers, slow_in_words, slow_ranks};
