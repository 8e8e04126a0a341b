//! `mlprof run` on a program that knows nothing of it.

#[path = "run/shop.rs"]
mod shop;

#[path = "run/corners.rs"]
mod corners;
#[path = "run/endings.rs"]
mod endings;
#[path = "run/functions.rs"]
mod functions;
#[path = "run/interrupted.rs"]
mod interrupted;
#[path = "run/measures.rs"]
mod measures;
#[path = "run/mistakes.rs"]
mod mistakes;
#[path = "run/nothing.rs"]
mod nothing;
#[path = "run/own_profiler.rs"]
mod own_profiler;
#[path = "run/terminal.rs"]
mod terminal;
#[path = "run/unchanged.rs"]
mod unchanged;
