//! Functions that depend on source locations.

/// Returns the location of the caller.
#[track_caller]
pub fn where_am_i() -> String {
    let caller = std::panic::Location::caller();
    format!("{}:{}:{}", caller.file(), caller.line(), caller.column())
}

/// Panics at a fixed location.
pub fn panic_here() -> ! {
    panic!("on purpose")
}

/// ```
/// assert_eq!(tools::documented(1), 2);
/// ```
pub fn documented(n: u32) -> u32 {
    n + 1
}

/// The global allocator, which a library may define for all programs that use it.
#[global_allocator]
static ALLOCATOR: std::alloc::System = std::alloc::System;
