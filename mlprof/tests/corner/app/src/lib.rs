//! Functions that are hard to put hooks into.
fn first(of: &[u32]) -> u32 { of[1] }
use std::panic::Location;
#[path = "../beside.rs"]
mod beside;
#[path = "../../elsewhere/far.rs"]
mod far;
pub mod columns;
pub mod recursion;

/// Of all files.
pub fn everywhere() -> u32 { beside::beside() + far::far() }

/// Where it is called.
#[track_caller]
pub fn caller() -> String { Location::caller().to_string() }

/// Panics in the first line of the file.
pub fn in_the_first_line() -> u32 { first(&[]) }
