//! The example `candle-digits` as its users meet it.

mod advanced;
#[cfg(target_os = "linux")]
mod capture;
mod comparison;
mod counts;
#[cfg(target_os = "linux")]
mod dynolog;
mod faults;
mod files;
mod findings;
mod interruptions;
mod learning;
#[cfg(target_os = "linux")]
mod live;
#[cfg(target_os = "linux")]
mod long_training;
#[cfg(target_os = "linux")]
mod metrics;
mod numerics;
mod programs;
mod resume;
mod tensor;
mod traces_compared;

/// The package, and its program of the same name.
const PACKAGE: &str = "candle-digits";

/// The program with a loop of its own.
const LOOP: &str = "candle-hand-written-loop";

/// Whether its framework tells of ops where `mlprof run` has not built the program.
#[cfg(target_os = "linux")]
const TELLS_OF_OPS: bool = false;

fn program() -> std::path::PathBuf {
    tests::program::build(PACKAGE, PACKAGE)
}
