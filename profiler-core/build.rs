//! Tells the crate how it is optimised, which only Cargo knows.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let level = std::env::var("OPT_LEVEL").unwrap_or_default();
    println!("cargo::rustc-env=MLPROF_OPT_LEVEL={level}");
}
