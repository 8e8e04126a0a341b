//! Type-checks the crates for other platforms, and runs a program on one without a system. The
//! standard library is compiled from its source, so that nothing is downloaded.

use std::process::{Command, Stdio};

use crate::libtorch::workspace;
use crate::nightly;
use crate::steps::{Step, target_directory};
use crate::system::is_there;

/// A platform, and the packages that users depend on there. Never mlprof-tch, which needs a
/// libtorch of the platform.
struct Platform {
    target: &'static str,
    /// Program that compiling the standard library for the platform needs.
    needs: Option<&'static str>,
    packages: &'static str,
}

const EVERYTHING: &str = "-p mlprof-core -p mlprof-train -p mlprof-cuda -p mlprof-live -p mlprof-macros \
                          -p mlprof -p mlprof-candle -p mlprof-burn --features mlprof-burn/train";
/// Without the command and burn's own training loop.
const LIBRARIES: &str = "-p mlprof-train -p mlprof-cuda -p mlprof-live -p mlprof-candle -p mlprof-burn \
                         --features mlprof-core/tracing";
/// Without the plugins. A step for the MSVC target needs no tool of Windows.
const SYSTEM_AND_COMMAND: &str = "-p mlprof-train -p mlprof-cuda -p mlprof-live -p mlprof \
                                  --features mlprof-core/tracing";
/// WebAssembly has no threads and no processes: the command, burn's own training loop and the
/// data loaders of burn need them.
const WITHOUT_THREADS: &str = "-p mlprof-train -p mlprof-candle -p mlprof-burn --no-default-features \
                               --features mlprof-burn/autodiff";
/// In addition, a browser's random numbers.
const IN_A_BROWSER: &str = "-p without-a-clock -p mlprof-train -p mlprof-candle -p mlprof-burn --no-default-features \
                            --features mlprof-burn/autodiff,without-a-clock/browser";

const PLATFORMS: [Platform; 10] = [
    Platform::of("aarch64-unknown-linux-gnu", EVERYTHING),
    Platform::of("aarch64-apple-darwin", EVERYTHING),
    Platform {
        target: "x86_64-pc-windows-gnu",
        // Of Debian's package binutils-mingw-w64-x86-64.
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

/// Crates that are compiled from source. On WebAssembly panics abort.
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
        // For types any file does as the library that the command carries with it.
        Step::rustup(target, &arguments)
            .argument(target_directory().join("platforms"))
            .env("RUSTFLAGS", if packages == IN_A_BROWSER { FLAGS } else { "-D warnings" })
            .variables(&vec![(
                "MLPROF_RUNTIME_LIBRARY",
                Some(workspace().join("Cargo.toml").into()),
            )])
    }
}

/// Lints as everywhere, and the random numbers that [`IN_A_BROWSER`] asks for.
const FLAGS: &str = "-D warnings --cfg getrandom_backend=\"wasm_js\"";

/// Returns a step for each platform that this machine can check, and prints the reason for each that
/// it cannot.
pub fn steps() -> Vec<Step> {
    if !nightly::has_source() {
        println!("other platforms: skipped: no nightly with rust-src");
        return Vec::new();
    }
    let can_be = |platform: &&Platform| {
        let missing = platform.needs.filter(|program| !is_there(program));
        if let Some(program) = missing {
            println!("{}: skipped: there is no {program}", platform.target);
        }
        missing.is_none()
    };
    let steps = PLATFORMS.iter().filter(can_be).map(Platform::step);
    steps.chain([without_a_clock()]).collect()
}

/// Builds a program with scopes and profilers for [`WITHOUT_A_CLOCK`], and runs it.
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
        println!("a program without a clock: built, and not run: there is no node");
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
