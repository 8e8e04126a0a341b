//! Tests of the multi-rank analysis: common time line, slow ranks, and merged traces.

mod cases;
mod clocks;
mod one_trace;
mod rank_files;
mod slow;
