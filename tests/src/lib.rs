//! Support for end-to-end tests: builds programs of this workspace, runs them, and reads their
//! output with the same tools as users.
//!
//! This package links no crate of the workspace, so that programs are tested as users run them. The
//! target `traces` is an exception: it records traces itself, because test machines have no GPU.

pub mod builds;
#[cfg(unix)]
pub mod collector;
pub mod digits;
pub mod findings;
#[cfg(unix)]
pub mod interruption;
pub mod numerics;
pub mod program;
pub mod python;
pub mod table;
pub mod trace;
pub mod tries;

use std::path::PathBuf;

/// Returns the build folder of the running test.
pub fn target_directory() -> PathBuf {
    let own = std::env::current_exe().expect("a test knows its own path");
    // <target>/<profile>/deps/<test>
    own.ancestors().nth(3).expect("a test lies three folders deep").to_owned()
}
