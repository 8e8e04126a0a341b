//! The scenes. Each is the `main` of a process.

mod disturbance;
mod limits;
mod numbers;
mod sessions;

/// Names and functions of the scenes.
pub const ALL: &[(&str, fn())] = &[
    ("shares with tables", numbers::shares_with_tables),
    ("shares by frame pointers", numbers::shares_by_frame_pointers),
    ("waiting and working", numbers::waiting_and_working),
    ("idle threads", numbers::idle_threads),
    ("shared libraries", numbers::shared_libraries),
    ("deep recursion", numbers::deep_recursion),
    ("system calls", disturbance::system_calls),
    ("alternate stacks", disturbance::alternate_stacks),
    ("64 threads", disturbance::many_threads),
    ("threads that come and go", disturbance::threads_that_come_and_go),
    ("forked children", disturbance::fork),
    ("allocation", disturbance::allocation),
    ("start and stop", disturbance::start_and_stop),
    ("small alternate stacks", limits::small_alternate_stacks),
    ("no timers", limits::no_timers),
    ("memory of a high rate", limits::memory_of_a_high_rate),
    ("first stack", limits::first_stack),
    ("refusals", sessions::refusals),
    ("stages", sessions::stages),
    ("two recorders", sessions::two_recorders),
    ("text and json", sessions::text_and_json),
];
