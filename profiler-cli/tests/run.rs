//! `mlprof run` on a program that knows nothing of it.

#[path = "run/shop.rs"]
mod shop;

#[path = "run/functions.rs"]
mod functions;
#[path = "run/measures.rs"]
mod measures;
#[path = "run/mistakes.rs"]
mod mistakes;
#[path = "run/own_profiler.rs"]
mod own_profiler;
#[path = "run/unchanged.rs"]
mod unchanged;
