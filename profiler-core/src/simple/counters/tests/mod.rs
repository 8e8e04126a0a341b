//! What is counted, beside the same counters read by the tests around it.

mod cpu;
mod io;

use super::*;
use crate::ProfilerExt;

fn row<'rows>(rows: &'rows [ActionStatistics], action: &str) -> &'rows ActionStatistics {
    let row = rows.iter().find(|row| row.action == action);
    row.unwrap_or_else(|| panic!("no row {action} in {rows:?}"))
}
