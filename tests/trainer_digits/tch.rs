//! The example `tch-digits` as its users meet it.

mod advanced;
#[cfg(target_os = "linux")]
mod capture;
mod counts;
mod faults_tch;
mod faults_tch_waits;
mod files;
mod findings;
mod interruptions;
mod learning;
mod numerics;
mod numerics_tch;
mod numerics_twins;
mod programs;
#[cfg(target_os = "linux")]
mod pushed;
mod resume;
mod tensor;
mod tensor_tch;

/// The package, and its program of the same name.
const PACKAGE: &str = "tch-digits";

/// The program with a loop of its own.
const LOOP: &str = "tch-hand-written-loop";

/// Whether its framework tells of ops where `mlprof run` has not built the program.
#[cfg(target_os = "linux")]
const TELLS_OF_OPS: bool = true;

fn program() -> std::path::PathBuf {
    tests::program::build(PACKAGE, PACKAGE)
}
