//! Several ranks: one time line, slow ranks, one trace of all.

mod cases;
mod clocks;
mod made;
mod one_trace;
mod slow;
