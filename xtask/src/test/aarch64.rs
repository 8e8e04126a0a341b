//! `cargo xtask test aarch64`: runs processor-specific tests under qemu.

use super::translated::Platform;
use crate::steps::Step;
use crate::system::{AARCH64_COMPILER, QEMU};

pub fn steps() -> Vec<Step> {
    platform().steps()
}

pub fn platform() -> Platform {
    Platform {
        title: "tests for aarch64",
        target: "aarch64-unknown-linux-gnu",
        folder: "aarch64",
        tools: [QEMU, AARCH64_COMPILER],
        linker: ("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", AARCH64_COMPILER.name),
        runner: (
            "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER",
            || "qemu-aarch64 -L /usr/aarch64-linux-gnu",
        ),
        tests: "-p mlprof-events -p mlprof-trace -p mlprof-sampler -p mlprof-core \
                  -p mlprof-report -p mlprof-train --lib",
        left_out: &[
            (
                "this_process_was_loaded_after_it_started",
                "qemu tells when the thread began instead",
            ),
            ("this_process_has_code_with_tables_and_a_stack", "qemu maps no vdso"),
            ("advanced::tests::large", "minutes each when translated"),
            ("a_tree_without_end_is_cut_and_told_of", "minutes when translated"),
            ("trees_of_every_depth_are_read_back", "minutes when translated"),
            ("a_page_is_bounded_and_counts_what_it_leaves_out", "minutes when translated"),
        ],
        not_built: &[(
            "mlprof-core's tests/sampler",
            "qemu makes no timers that signal one thread",
        )],
    }
}
