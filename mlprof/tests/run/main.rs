//! `mlprof run` on a program that knows nothing of it.

#[path = "../../../profiler-core/tests/own_numbers/mod.rs"]
mod own_numbers;
mod shop;
// As the examples are tested.
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
