//! The training loop, driven with a framework of one number.

mod at_once;
mod counts;
mod learning;
mod order;
mod rerun;
mod resume;
mod saved;
mod steps;
mod toy;
mod trouble;
