//! Type-checks the crates for other platforms, and runs a program on a platform without an
//! operating system. The standard library is compiled from source, so that nothing is downloaded.

use std::process::{Command, Stdio};

use crate::libtorch::workspace;
use crate::nightly;
use crate::steps::{Step, target_directory};
use crate::system::is_there;

/// A platform, and the packages that users can use there. mlprof-tch is excluded, because it needs
/// a libtorch for the platform.
struct Platform {
    target: &'static str,
    /// Program that is required to compile the standard library for the platform.
    needs: Option<&'static str>,
    packages: &'static str,
}

const EVERYTHING: &str = "-p mlprof-core -p mlprof-train -p mlprof-cuda -p mlprof-live -p mlprof-macros \
                          -p mlprof -p mlprof-candle -p mlprof-burn --features mlprof-burn/train";
/// Packages without the command and without burn's own training loop.
const LIBRARIES: &str = "-p mlprof-train -p mlprof-cuda -p mlprof-live -p mlprof-candle -p mlprof-burn \
                         --features mlprof-core/tracing";
/// Packages without the plugins. The step for the MSVC target needs no Windows tools.
const SYSTEM_AND_COMMAND: &str = "-p mlprof-train -p mlprof-cuda -p mlprof-live -p mlprof \
                                  --features mlprof-core/tracing";
/// Packages for WebAssembly, which has no threads and processes. The command, burn's own training
/// loop and burn's data loaders need them.
const WITHOUT_THREADS: &str = "-p mlprof-train -p mlprof-candle -p mlprof-burn --no-default-features \
                               --features mlprof-burn/autodiff";
/// Packages for WebAssembly in a browser, which also provides random numbers.
const IN_A_BROWSER: &str = "-p without-a-clock -p mlprof-train -p mlprof-candle -p mlprof-burn --no-default-features \
                            --features mlprof-burn/autodiff,without-a-clock/browser";

const PLATFORMS: [Platform; 10] = [
    Platform::of("aarch64-unknown-linux-gnu", EVERYTHING),
    Platform::of("aarch64-apple-darwin", EVERYTHING),
    Platform {
        target: "x86_64-pc-windows-gnu",
        // The program is part of Debian's package binutils-mingw-w64-x86-64.
        needs: Some("x86_64-w64-mingw32-dlltool"),
        packages: EVERYTHING,
    },
    Platform::of("x86_64-pc-windows-msvc", SYSTEM_AND_COMMAND),
    Platform::of("aarch64-linux-android", LIBRARIES),
    Platform::of("x86_64-unknown-freebsd", LIBRARIES),
    Platform::of("x86_64-unknown-netbsd", LIBRARIES),
    Platform::of("x86_64-unknown-openbsd", LIBRARIES),
    Platform::of("wasm32-unknown-unknown", IN_A_BROWSER),
    Platform::of("wasm32-wasip1", WITHOUT_THREADS),
];

/// Crates that are compiled from source. On WebAssembly, panics abort.
const STANDARD_LIBRARY: &str = "-Zbuild-std=std,panic_abort";

/// Platform without a clock, threads, processes and files.
const WITHOUT_A_CLOCK: &str = "wasm32-unknown-unknown";

impl Platform {
    const fn of(target: &'static str, packages: &'static str) -> Self {
        Self { target, needs: None, packages }
    }

    fn step(&self) -> Step {
        let (target, packages) = (self.target, self.packages);
        let arguments = format!(
            "run nightly cargo check {STANDARD_LIBRARY} --target {target} {packages} --target-dir"
        );
        // For a type check, any file can replace the library that is embedded in the command.
        Step::rustup(target, &arguments)
            .argument(target_directory().join("platforms"))
            .env("RUSTFLAGS", if packages == IN_A_BROWSER { FLAGS } else { "-D warnings" })
            .variables(&vec![(
                "MLPROF_RUNTIME_LIBRARY",
                Some(workspace().join("Cargo.toml").into()),
            )])
    }
}

/// Compiler flags: the usual lints, and the random number backend for [`IN_A_BROWSER`].
const FLAGS: &str = "-D warnings --cfg getrandom_backend=\"wasm_js\"";

/// Returns a step for each platform that this machine can check. For each other platform, prints
/// the reason.
pub fn steps() -> Vec<Step> {
    if !nightly::has_source() {
        println!("other platforms: skipped: no nightly with rust-src");
        return Vec::new();
    }
    let can_be = |platform: &&Platform| {
        let missing = platform.needs.filter(|program| !is_there(program));
        if let Some(program) = missing {
            println!("{}: skipped: {program} is not installed", platform.target);
        }
        missing.is_none()
    };
    let steps = PLATFORMS.iter().filter(can_be).map(Platform::step);
    steps.chain([without_a_clock()]).collect()
}

/// Returns the step that builds and runs a program with scopes and profilers for
/// [`WITHOUT_A_CLOCK`].
fn without_a_clock() -> Step {
    let arguments = format!(
        "run nightly cargo build {STANDARD_LIBRARY} --target {WITHOUT_A_CLOCK} -p without-a-clock --target-dir"
    );
    Step::rustup("a program without a clock", &arguments)
        .argument(target_directory().join("platforms"))
        .env("RUSTFLAGS", "-D warnings")
        .and_then(run_without_a_clock)
}

fn run_without_a_clock() -> Result<(), String> {
    if !is_there("node") {
        println!("a program without a clock: built, but not run: node is not installed");
        return Ok(());
    }
    let program = target_directory().join("platforms").join(WITHOUT_A_CLOCK);
    let mut node = Command::new("node");
    node.arg(workspace().join("tests/without-a-clock/run.mjs"));
    node.arg(program.join("debug/without_a_clock.wasm")).stdin(Stdio::null());
    let status = node.status().map_err(|error| format!("cannot run node: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("a program without a clock ({status})")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_platform_is_looked_at_where_a_nightly_can() {
        let steps = steps();
        assert_eq!(steps.is_empty(), !nightly::has_source());
        assert!(steps.len() <= PLATFORMS.len() + 1);
    }
}
