//! What end-to-end tests need: building a program of this workspace, running it, and reading what
//! it writes with the tools its users have.
//!
//! Nothing here links a crate of the workspace: programs are tested as users meet them. Only the
//! target `traces` records for itself, since machines that run tests have no GPU.

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

/// The folder of build output that the running test was built in.
pub fn target_directory() -> PathBuf {
    let own = std::env::current_exe().expect("a test knows its own path");
    // <target>/<profile>/deps/<test>
    own.ancestors().nth(3).expect("a test lies three folders deep").to_owned()
}
