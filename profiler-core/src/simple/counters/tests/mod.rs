//! Tests of the counters against the same system counters read by the tests.

mod cpu;
mod io;

use super::*;
use crate::{Profiler, ProfilerExt, RunContext, SimpleProfiler};

fn row<'rows>(rows: &'rows [ActionStatistics], action: &str) -> &'rows ActionStatistics {
    let row = rows.iter().find(|row| row.action == action);
    row.unwrap_or_else(|| panic!("no row {action} in {rows:?}"))
}
