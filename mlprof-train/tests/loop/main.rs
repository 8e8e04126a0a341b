//! Tests of the training loop with a toy framework that has a single weight.

mod at_once;
mod callbacks;
mod counts;
mod learning;
mod logging;
mod order;
mod rerun;
mod resume;
mod saved;
mod schedules;
mod settings;
mod skip;
mod stages;
mod steps;
mod stopping;
mod toy;
mod trouble;
