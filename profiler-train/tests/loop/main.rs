//! The training loop, driven with a framework of one number.

mod at_once;
mod counts;
mod learning;
mod logging;
mod order;
mod rerun;
mod schedules;
mod settings;
mod stages;
mod steps;
mod stopping;
mod toy;
mod trouble;
