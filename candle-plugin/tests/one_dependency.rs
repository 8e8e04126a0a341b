//! A package outside of the workspace needs this crate alone for `profile!` and `#[profile]`.

#[path = "../../profiler-macros/tests/one_dependency/mod.rs"]
mod one_dependency;

use std::path::Path;
use std::process::Command;

#[test]
fn a_program_may_name_this_crate_alone() {
    one_dependency::compiles("candle_plugin");
}

/// What the tests of all that uses candle, which are built together, have besides: it lends features to
/// crates that candle stands on. A neighbour of the program asks for the same, or candle would be compiled
/// once more. The program cannot name them: they are no dependencies of its own.
const NEIGHBOUR: &str = r#"
[package]
name = "neighbour"
version = "0.1.0"
edition = "2024"

[dependencies]
candle-nn = "*"
rustix = { version = "1", features = ["time"] }
tracing = "0.1"
"#;

/// Built with the features of this test, and where it was built, where all dependencies are.
#[test]
fn a_package_with_this_dependency_alone_measures_itself() {
    let own = std::env::current_exe().expect("its own path");
    let target = own.ancestors().nth(3).expect("a test lies three folders deep");
    let plugin = Path::new(env!("CARGO_MANIFEST_DIR"));
    let workspace = plugin.parent().expect("the workspace");
    let features = [(cfg!(feature = "cuda"), "cuda"), (cfg!(feature = "tracing"), "tracing")];
    let features: Vec<_> = features.iter().filter(|(is_on, _)| *is_on).map(|it| it.1).collect();
    let folder = tempfile::tempdir().expect("a folder");
    let manifest = format!(
        "[package]\nname = \"one-dependency\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
         [workspace]\nmembers = [\"neighbour\"]\n\n[dependencies]\ncandle-plugin = {{ path = {plugin:?}, features = {features:?} }}\n\n\
         [profile.release]\ncodegen-units = 16\ndebug = \"line-tables-only\"\n\
         [profile.release.package.\"*\"]\ndebug = false\n"
    );
    let write = |file: &str, text: &str| {
        let path = folder.path().join(file);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, text).expect("written");
    };
    write("Cargo.toml", &manifest);
    write("src/main.rs", &one_dependency::program("candle_plugin"));
    write("neighbour/Cargo.toml", NEIGHBOUR);
    write("neighbour/src/lib.rs", "");
    std::fs::copy(workspace.join("Cargo.lock"), folder.path().join("Cargo.lock")).expect("copied");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--workspace"]).current_dir(folder.path()).env("CARGO_TARGET_DIR", target);
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    let output = cargo.output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
    let name = format!("one-dependency{}", std::env::consts::EXE_SUFFIX);
    let output = Command::new(target.join(profile).join(name)).current_dir(folder.path()).output();
    let output = output.expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("all of it was measured"), "{said}");
}
