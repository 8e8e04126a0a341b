//! Lets the built programs find libtorch by themselves, where the one was that they were built
//! with.
//!
//! The build script of torch-sys knows the directory, and cargo passes it on to packages that
//! depend on torch-sys directly. Copy this into a program of your own.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    let Some(directory) = std::env::var_os("DEP_TCH_LIBTORCH_LIB") else { return };
    if matches!(target.as_str(), "linux" | "macos") {
        println!("cargo::rustc-link-arg=-Wl,-rpath,{}", directory.to_string_lossy());
    }
    if target == "linux" {
        // libtorch.so brings in the parts for GPUs, which no symbol asks for.
        println!("cargo::rustc-link-arg=-Wl,--no-as-needed");
        println!("cargo::rustc-link-arg=-ltorch");
    }
}
