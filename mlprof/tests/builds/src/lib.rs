//! Functions that the program calls.

/// Returns the sum of some numbers.
///
/// ```
/// assert_eq!(app::in_the_library(0), 0);
/// #[cfg(not(with_flag))]
/// compile_error!("the flag of the user is missing");
/// ```
pub fn in_the_library(n: u64) -> u64 {
    (0..n).fold(0, |sum, one| sum ^ std::hint::black_box(one))
}
