//! The example `tch-digits` as its users meet it.

mod advanced;
mod counts;
mod files;
mod interruptions;
mod learning;
mod programs;

/// The package, and its program of the same name.
const PACKAGE: &str = "tch-digits";

fn program() -> std::path::PathBuf {
    tests::program::build(PACKAGE, PACKAGE)
}
