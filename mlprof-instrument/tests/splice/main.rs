//! Tests that instrument, compile and run crates. Presets are compared with the frameworks that
//! they describe.

mod fixture;
mod functions;
mod left_out;
mod ops;
mod presets;
mod self_counting;
