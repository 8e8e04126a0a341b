//! Builds the C++ code that libtorch calls, against the libtorch version that tch uses.

use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    for file in [
        "build.rs",
        "src/ops/inputs.h",
        "src/ops/op_names.h",
        "src/ops/outputs.h",
        "src/ops/record.cpp",
        "src/ops/record.h",
        "src/saved/state.cpp",
        "oracle/floor.cpp",
        "oracle/kineto.cpp",
    ] {
        println!("cargo::rerun-if-changed={file}");
    }
    for variable in ["LIBTORCH_INCLUDE", "LIBTORCH_CXX11_ABI"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    println!("cargo::rustc-check-cfg=cfg(records_ops)");
    // torch-sys sets this variable on Linux and macOS, except in documentation builds.
    let Some(library) = env::var_os("DEP_TCH_LIBTORCH_LIB").map(PathBuf::from) else { return };
    let root = include_root(&library);
    if !root.join("ATen/record_function.h").is_file() {
        println!("cargo::warning=mlprof cannot record ops: {root:?} has no libtorch headers");
        return;
    }
    compile("mlprof_tch_record", "src/ops/record.cpp", &root, &library);
    compile("mlprof_tch_saved", "src/saved/state.cpp", &root, &library);
    println!("cargo::rustc-cfg=records_ops");
    if env::var_os("CARGO_FEATURE_KINETO_ORACLE").is_some() {
        compile("mlprof_tch_floor", "oracle/floor.cpp", &root, &library);
        compile("mlprof_tch_kineto", "oracle/kineto.cpp", &root, &library);
    }
}

fn compile(name: &str, file: &str, include: &Path, library: &Path) {
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .include(include)
        .include(include.join("torch/csrc/api/include"))
        // Warnings in libtorch's headers cannot be fixed here.
        .warnings(false)
        // Both settings must match the build of libtorch, because the layout of its types depends
        // on them.
        .define("NDEBUG", None)
        .define("_GLIBCXX_USE_CXX11_ABI", if uses_cxx11_abi(library) { "1" } else { "0" })
        .define("GLOG_USE_GLOG_EXPORT", None)
        // The code is optimised even in debug builds, because every op runs it.
        .opt_level(2)
        .file(file)
        .compile(name);
}

/// Returns the include directory that torch-sys uses.
fn include_root(library: &Path) -> PathBuf {
    let root = env::var_os("LIBTORCH_INCLUDE").map(PathBuf::from);
    let root = root.filter(|root| root.join("include/ATen").is_dir());
    root.or_else(|| library.parent().map(PathBuf::from)).unwrap_or_default().join("include")
}

/// Returns `true` if libtorch uses libstdc++'s C++11 string ABI, which is visible in its symbol
/// names.
fn uses_cxx11_abi(library: &Path) -> bool {
    if let Ok(answer) = env::var("LIBTORCH_CXX11_ABI") {
        return answer != "0";
    }
    match fs::read(library.join("libc10.so")) {
        Ok(content) => content.windows(7).any(|part| part == b"__cxx11"),
        Err(_) => true,
    }
}
