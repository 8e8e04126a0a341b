//! Sets the run path, so that the built programs find the libtorch that they were built with.
//!
//! The build script of torch-sys provides the directory, and cargo passes it to packages that
//! depend on torch-sys directly. You can copy this script into your own program.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    let Some(directory) = std::env::var_os("DEP_TCH_LIBTORCH_LIB") else { return };
    if matches!(target.as_str(), "linux" | "macos") {
        println!("cargo::rustc-link-arg=-Wl,-rpath,{}", directory.to_string_lossy());
    }
    if target == "linux" {
        // libtorch.so loads the GPU libraries, to which no symbol refers.
        println!("cargo::rustc-link-arg=-Wl,--no-as-needed");
        println!("cargo::rustc-link-arg=-ltorch");
    }
}
