//! End-to-end tests of the example `candle-digits`.

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

/// Name of the package and of its main program.
const PACKAGE: &str = "candle-digits";

/// Name of the program with a hand-written loop.
const LOOP: &str = "candle-hand-written-loop";

/// `true` if the framework reports ops without instrumentation by `mlprof run`.
#[cfg(target_os = "linux")]
const TELLS_OF_OPS: bool = false;

fn program() -> std::path::PathBuf {
    tests::program::build(PACKAGE, PACKAGE)
}
