//! End-to-end tests of the example `tch-digits`.

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

/// Name of the package and of its main program.
const PACKAGE: &str = "tch-digits";

/// Name of the program with a hand-written loop.
const LOOP: &str = "tch-hand-written-loop";

/// `true` if the framework reports ops without instrumentation by `mlprof run`.
#[cfg(target_os = "linux")]
const TELLS_OF_OPS: bool = true;

fn program() -> std::path::PathBuf {
    tests::program::build(PACKAGE, PACKAGE)
}
