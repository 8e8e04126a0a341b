//! The training loop, driven with a framework of one number.

mod at_once;
mod callbacks;
mod counts;
mod learning;
mod order;
mod rerun;
mod resume;
mod saved;
mod skip;
mod steps;
mod toy;
mod trouble;
