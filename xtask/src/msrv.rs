//! Checks that the workspace compiles with the minimum supported Rust version.
//!
//! clippy rejects newer items of the standard library (`incompatible_msrv`, part of `clippy::all`).
//! Everything else needs that compiler.

use std::process::Command;

use crate::steps::Step;

/// The minimum version that all packages declare, including this one.
const CLAIMED: &str = env!("CARGO_PKG_RUST_VERSION");

/// Returns a check with that compiler. If it is the current compiler or is not installed, prints
/// the reason and returns `None`.
pub fn step() -> Option<Step> {
    let used = answer(Command::new("rustc").arg("--version"));
    if used.as_deref().is_some_and(|used| is_of(used, CLAIMED)) {
        println!("oldest Rust: {CLAIMED}, the current compiler");
        return None;
    }
    let toolchain = format!("{CLAIMED}.0");
    let there = answer(Command::new("rustup").args(["run", &toolchain, "rustc", "--version"]));
    if there.is_none() {
        println!("oldest Rust: skipped: the toolchain {toolchain} is not installed");
        return None;
    }
    let arguments = "cargo check -p mlprof-core -p mlprof-train -p mlprof-cuda -p mlprof-live -p mlprof \
                     -p mlprof-burn -p mlprof-candle --features mlprof-burn/train";
    Some(Step::rustup("oldest Rust", &format!("run {toolchain} {arguments}")))
}

/// Returns `true` if `answer` is the version output of a compiler with that minor version.
fn is_of(answer: &str, claimed: &str) -> bool {
    let version = answer.strip_prefix("rustc ").unwrap_or(answer);
    version.strip_prefix(claimed).is_some_and(|rest| rest.starts_with('.'))
}

fn answer(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::libtorch::workspace;

    #[test]
    fn a_compiler_is_known_by_its_answer() {
        assert!(is_of("rustc 1.95.0 (59807616e 2026-04-14)", "1.95"));
        assert!(!is_of("rustc 1.96.0 (59807616e 2026-04-14)", "1.95"));
        assert!(!is_of("rustc 1.950.0", "1.95"));
        assert!(!is_of("rustc 1.99.0-nightly (a 2026-11-01)", "1.95"));
    }

    #[test]
    fn newer_items_of_the_standard_library_are_denied() {
        let manifest = fs::read_to_string(workspace().join("Cargo.toml")).expect("a manifest");
        assert!(manifest.lines().any(|line| line.starts_with("incompatible_msrv = \"deny\"")));
        assert!(CLAIMED.starts_with("1."), "{CLAIMED}");
    }
}
