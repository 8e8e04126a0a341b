//! Passes the optimisation level to the crate, because only Cargo knows it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let level = std::env::var("OPT_LEVEL").unwrap_or_default();
    println!("cargo::rustc-env=MLPROF_OPT_LEVEL={level}");
}
