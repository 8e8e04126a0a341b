//! `cargo xtask test windows`: runs tests of file access, waiting and process exit on Windows under
//! wine.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::translated::Platform;
use crate::steps::{Step, target_directory};
use crate::system::{WINDOWS_COMPILER, WINE, wine};

/// A Windows library that Rust's standard library uses for random numbers. wine has it since
/// version 9, but Debian's wine is older.
const RANDOM_NUMBERS: &str = "\
#include <stddef.h>
unsigned char __stdcall SystemFunction036(void *buffer, unsigned long size);
__declspec(dllexport) int __stdcall ProcessPrng(unsigned char *buffer, size_t size) {
    return SystemFunction036(buffer, (unsigned long)size) != 0;
}
";

const ASKS_PYTHON: &str = "wine has no Python";

const LEFT_OUT: [(&str, &str); 12] = [
    ("advanced::tests::large", "minutes on wine's heap"),
    ("number::any_number_is_formatted_as_python_does", ASKS_PYTHON),
    ("number::numbers_at_the_borders_of_a_notation", ASKS_PYTHON),
    ("prof::a_function_that_appears_twice_is_added_up", ASKS_PYTHON),
    ("prof::pstats_opens_it", ASKS_PYTHON),
    ("prof::python_reads_every_number_and_name", ASKS_PYTHON),
    ("prof::python_reads_whatever_a_profile_holds", ASKS_PYTHON),
    ("pstats::a_report_is_every_action_in_turn", ASKS_PYTHON),
    ("pstats::every_order_is_pythons_own", ASKS_PYTHON),
    ("pstats::restrictions_follow_one_another_as_in_python", ASKS_PYTHON),
    ("pstats::tables_are_pstats_own_byte_for_byte", ASKS_PYTHON),
    ("names::python_reads_the_strangest_names", ASKS_PYTHON),
];

pub fn steps() -> Vec<Step> {
    let libraries = folder().join("libraries").to_string_lossy().replace('/', "\\");
    let variables = vec![
        ("WINEPREFIX", Some(folder().join("wine").into_os_string())),
        // The value is the folder's path as seen by Windows programs.
        ("WINEPATH", Some(format!("Z:{libraries}").into())),
        ("WINEDEBUG", Some("-all".into())),
    ];
    let steps = platform().steps().into_iter();
    steps.map(|step| step.variables(&variables).after(make_random_numbers)).collect()
}

pub fn platform() -> Platform {
    Platform {
        title: "tests for Windows",
        target: "x86_64-pc-windows-gnu",
        folder: "windows",
        tools: [WINE, WINDOWS_COMPILER],
        linker: ("CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER", WINDOWS_COMPILER.name),
        runner: ("CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER", || wine().unwrap_or("wine")),
        tests: "-p mlprof-events -p mlprof-report -p mlprof-trace -p mlprof-core \
                  -p mlprof-train --tests",
        left_out: &LEFT_OUT,
        not_built: &[],
    }
}

fn folder() -> PathBuf {
    target_directory().join("windows")
}

/// Builds the library. A wine version with its own library ignores it.
fn make_random_numbers() -> Result<(), String> {
    let folder = folder().join("libraries");
    let source = folder.join("random_numbers.c");
    let explain = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::create_dir_all(&folder).map_err(explain)?;
    fs::write(&source, RANDOM_NUMBERS).map_err(explain)?;
    let mut compiler = Command::new(WINDOWS_COMPILER.name);
    compiler.args(["-shared", "-o"]).arg(folder.join("bcryptprimitives.dll")).arg(&source);
    let status = compiler.arg("-ladvapi32").stdin(Stdio::null()).status();
    let status = status.map_err(|error| format!("cannot run {compiler:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{compiler:?} failed ({status})")) }
}
