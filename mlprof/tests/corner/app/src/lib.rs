//! Functions that are difficult to instrument.
fn first(of: &[u32]) -> u32 { of[1] }
use std::panic::Location;
#[path = "../sibling.rs"]
mod sibling;
#[path = "../../elsewhere/far.rs"]
mod far;
pub mod columns;
pub mod recursion;

/// Returns the sum over both modules outside the source folder.
pub fn everywhere() -> u32 { sibling::beside() + far::far() }

/// Returns the caller's location.
#[track_caller]
pub fn caller() -> String { Location::caller().to_string() }

/// Panics in the first line of the file.
pub fn in_the_first_line() -> u32 { first(&[]) }
