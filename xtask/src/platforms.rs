//! Whether other platforms compile, as far as types go. The standard library is compiled for them from its
//! source, so that nothing is downloaded.

use crate::libtorch::workspace;
use crate::nightly;
use crate::steps::{Step, target_directory};
use crate::system::is_there;

/// Platforms, and a program that compiling the standard library for them takes.
const TARGETS: [(&str, Option<&str>); 3] = [
    ("aarch64-unknown-linux-gnu", None),
    ("aarch64-apple-darwin", None),
    // Of Debian's package binutils-mingw-w64-x86-64.
    ("x86_64-pc-windows-gnu", Some("x86_64-w64-mingw32-dlltool")),
];

/// What users of these platforms depend on. Not tch, which needs a libtorch of the platform.
const PACKAGES: &str = "-p profiler-core -p profiler-train -p profiler-cuda -p profiler-live -p profiler-macros \
                        -p profiler-cli -p candle-plugin -p burn-plugin --features burn-plugin/train";

/// A step for each platform that can be looked at here; why not, for the others.
pub fn steps() -> Vec<Step> {
    if !nightly::has_source() {
        println!("other platforms: skipped: no nightly with rust-src");
        return Vec::new();
    }
    let can_be = |(target, needs): &(&str, Option<&'static str>)| {
        let missing = needs.filter(|program| !is_there(program));
        if let Some(program) = missing {
            println!("{target}: skipped: there is no {program}");
        }
        missing.is_none()
    };
    TARGETS.into_iter().filter(can_be).map(|(target, _)| step(target)).collect()
}

fn step(target: &'static str) -> Step {
    let arguments =
        format!("run nightly cargo check -Zbuild-std --target {target} {PACKAGES} --target-dir");
    // For types any file does as the library that the command carries with it.
    Step::rustup(target, &arguments)
        .argument(target_directory().join("platforms"))
        .env("RUSTFLAGS", "-D warnings")
        .variables(&vec![("MLPROF_RUNTIME_LIBRARY", Some(workspace().join("Cargo.toml").into()))])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_platform_is_looked_at_where_a_nightly_can() {
        let steps = steps();
        assert_eq!(steps.is_empty(), !nightly::has_source());
        assert!(steps.len() <= TARGETS.len());
    }
}
