//! Crates are spliced, compiled and run; presets are compared with the frameworks that they are for.

mod fixture;
mod functions;
mod left_out;
mod ops;
mod presets;
mod self_counting;
