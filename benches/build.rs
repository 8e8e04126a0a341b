//! Passes the compiler version and the build settings to the programs.

use std::env;
use std::process::Command;

fn main() {
    let rustc = env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let version = Command::new(rustc)
        .arg("--version")
        .output()
        .ok()
        .and_then(|output| String::from_utf8(output.stdout).ok());
    let version = version.map_or_else(|| "unknown".to_owned(), |text| text.trim().to_owned());
    let opt_level = env::var("OPT_LEVEL").unwrap_or_default();
    println!("cargo::rustc-env=BENCH_RUSTC={version}");
    println!("cargo::rustc-env=BENCH_OPT_LEVEL={opt_level}");
    println!("cargo::rerun-if-changed=build.rs");
}
