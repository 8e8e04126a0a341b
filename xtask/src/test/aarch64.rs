//! `cargo xtask test aarch64`: tests that know the processor, translated by qemu, where the tools are.

use crate::nightly;
use crate::platforms::is_there;
use crate::steps::{Step, target_directory};

const TARGET: &str = "aarch64-unknown-linux-gnu";

/// Programs that it takes, and Debian's packages of them. The C library comes with the compiler's.
const TOOLS: [(&str, &str); 2] =
    [("qemu-aarch64", "qemu-user"), ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu")];

/// Tests that are left out, and why: those of the libraries whose names contain this, and a target that is
/// not built.
const LEFT_OUT: [(&str, &str); 4] = [
    ("this_process_was_loaded_after_it_started", "qemu tells when the thread began instead"),
    ("this_process_has_code_with_tables_and_a_stack", "qemu maps no vdso"),
    ("advanced::tests::large", "minutes each when translated"),
    ("a_tree_without_end_is_cut_and_told_of", "minutes when translated"),
];
const LEFT_OUT_TARGET: (&str, &str) =
    ("profiler-core's tests/sampler", "qemu makes no timers that signal one thread");

/// The steps; none, and a line that says why, where a tool is missing.
pub fn steps() -> Vec<Step> {
    let missing = TOOLS.iter().find(|(program, _)| !is_there(program));
    let reason = match missing {
        _ if !nightly::has_source() => "no nightly with rust-src".to_owned(),
        Some((program, package)) => format!("no {program}, of Debian's {package}"),
        None => return vec![library_tests()],
    };
    println!("tests for aarch64: skipped: {reason}");
    Vec::new()
}

fn library_tests() -> Step {
    let packages = "-p profiler-events -p profiler-trace -p profiler-sampler -p profiler-core -p profiler-train --lib";
    for (test, reason) in LEFT_OUT.iter().chain([&LEFT_OUT_TARGET]) {
        println!("left out for aarch64: {test}: {reason}");
    }
    let step = step(packages).argument("--");
    LEFT_OUT.into_iter().fold(step, |step, (test, _)| step.argument("--skip").argument(test))
}

/// The standard library is compiled from its source, so that nothing is downloaded.
fn step(what: &str) -> Step {
    let arguments = format!("run nightly cargo test -Zbuild-std --target {TARGET} {what}");
    Step::rustup("tests for aarch64", &arguments)
        .env("CARGO_TARGET_DIR", &target_directory().join("aarch64").to_string_lossy())
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", TOOLS[1].0)
        .env(
            "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER",
            "qemu-aarch64 -L /usr/aarch64-linux-gnu",
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_run_where_a_tool_is_missing() {
        let has_all = nightly::has_source() && TOOLS.iter().all(|(program, _)| is_there(program));
        assert_eq!(!steps().is_empty(), has_all);
    }
}
