//! Tests `mlprof run` with programs that do not use mlprof themselves.

#[path = "../../../profiler-core/tests/own_numbers/mod.rs"]
mod own_numbers;
mod shop;
// This helper also runs the tests of the examples.
#[path = "../../../tests/src/tries.rs"]
mod tries;

mod builds;
mod compilers;
mod corners;
mod endings;
mod folders;
mod functions;
mod interrupted;
mod live;
mod measures;
mod mistakes;
mod nothing;
mod own_loops;
mod own_profiler;
mod terminal;
mod unchanged;
mod waste;
