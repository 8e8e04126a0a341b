//! Says where it is.

/// The place of the caller.
#[track_caller]
pub fn where_am_i() -> String {
    let caller = std::panic::Location::caller();
    format!("{}:{}:{}", caller.file(), caller.line(), caller.column())
}

/// Panics at a known place.
pub fn panic_here() -> ! {
    panic!("on purpose")
}

/// ```
/// assert_eq!(tools::documented(1), 2);
/// ```
pub fn documented(n: u32) -> u32 {
    n + 1
}

/// A library may have the allocator of all programs that use it.
#[global_allocator]
static ALLOCATOR: std::alloc::System = std::alloc::System;
