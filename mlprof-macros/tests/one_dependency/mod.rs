//! Helpers for the plugins' tests: a program with a plugin as its only dependency.

#![allow(dead_code, reason = "not every plugin needs all of it")]

use std::cmp::Reverse;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// Returns the program with the name of a plugin inserted.
pub fn program(plugin: &str) -> String {
    include_str!("program.rs").replace("PLUGIN", plugin)
}

/// Checks the program with the compiler. Only the plugin's library is available to it.
pub fn compiles(plugin: &str) {
    compile(plugin, "metadata", tempfile::tempdir().expect("a folder").path());
}

/// Compiles and runs the program, and returns its output.
pub fn runs(plugin: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    compile(plugin, "link", folder.path());
    let program = folder.path().join(format!("one_dependency{}", std::env::consts::EXE_SUFFIX));
    let output = Command::new(program).current_dir(folder.path()).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn compile(plugin: &str, emit: &str, scratch: &Path) {
    let own = std::env::current_exe().expect("a test knows its own path");
    let folder = own.parent().expect("a test lies in a folder");
    let source = scratch.join("main.rs");
    std::fs::write(&source, program(plugin)).expect("written");
    let mut said = Vec::new();
    // Libraries with other sets of features may be left over from an earlier build, in which case
    // they do not match the other libraries.
    for library in libraries(folder, plugin) {
        let mut named = plugin.to_owned();
        named.push('=');
        named.push_str(library.to_str().expect("text"));
        let output = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
            .args(["--edition=2024", "--crate-name=one_dependency", "--emit", emit])
            .args([
                OsStr::new("-L"),
                &dependencies(folder),
                OsStr::new("--extern"),
                OsStr::new(&named),
            ])
            .arg("--out-dir")
            .args([scratch, &source])
            .output()
            .expect("a compiler");
        if output.status.success() {
            return;
        }
        said.push(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    panic!("{plugin}, in {}: {}", folder.display(), said.join("\n"));
}

fn dependencies(folder: &Path) -> std::ffi::OsString {
    let mut search = std::ffi::OsString::from("dependency=");
    search.push(folder);
    search
}

/// Returns the libraries, newest first.
fn libraries(folder: &Path, name: &str) -> Vec<PathBuf> {
    let beginning = format!("lib{name}-");
    let entries = std::fs::read_dir(folder).expect("the folder").flatten();
    let libraries = entries.filter(|entry| {
        let name = entry.file_name();
        let name = name.to_str().unwrap_or_default();
        name.starts_with(&beginning) && name.ends_with(".rlib")
    });
    let built = |entry: &std::fs::DirEntry| entry.metadata().and_then(|it| it.modified());
    let mut libraries: Vec<(SystemTime, PathBuf)> =
        libraries.map(|one| (built(&one).expect("a time"), one.path())).collect();
    libraries.sort_by_key(|(built, _)| Reverse(*built));
    libraries.into_iter().map(|(_, path)| path).collect()
}
