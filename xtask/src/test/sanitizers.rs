//! `cargo xtask test sanitizers`: runs code with raw pointers and threads under AddressSanitizer
//! and ThreadSanitizer. Unlike Miri, they support signals, timers, processes and real threads.

use crate::nightly;
use crate::steps::{Step, target_directory};

/// A sanitizer and its tests.
struct Sanitizer {
    title: &'static str,
    /// Name of the sanitizer in the compiler.
    name: &'static str,
    /// Arguments of `cargo test`.
    tests: &'static str,
    options: (&'static str, &'static str),
    /// Excluded tests with reasons. Each entry is a part of the test name.
    left_out: &'static [(&'static str, &'static str)],
}

const ADDRESS: Sanitizer = Sanitizer {
    title: "AddressSanitizer",
    name: "address",
    tests: "-p mlprof-core -p mlprof-sampler --features mlprof-core/sampling --lib \
            --test sampler --test interrupt --test spliced",
    // With use-after-return detection, stack variables are stored elsewhere. The sampler compares
    // such an address with the stack bounds and would assume another stack. Leak detection is off,
    // because tests leak data that must live forever.
    options: ("ASAN_OPTIONS", "detect_stack_use_after_return=0:detect_leaks=0"),
    left_out: &[
        ("shared libraries", "AddressSanitizer brings a qsort of its own"),
        ("small alternate stacks", "watched functions need more stack than there is"),
        ("forked children", "each of 30 works for seconds when watched"),
        ("advanced::tests::large", "minutes each when watched"),
    ],
};

const THREAD: Sanitizer = Sanitizer {
    title: "ThreadSanitizer",
    name: "thread",
    tests: "-Zbuild-std -p mlprof-core --no-default-features --lib --test active_stress \
            --test trainings_at_once",
    options: ("TSAN_OPTIONS", "halt_on_error=1"),
    left_out: &[("advanced::tests::large", "minutes each when watched")],
};

/// Returns the steps. Prints a message for each requirement that is missing on this machine.
pub fn steps() -> Vec<Step> {
    let host = nightly::answer(&["rustc", "--print", "host-tuple"]).unwrap_or_default();
    let step = |sanitizer: &Sanitizer| match sanitizer.is_missing(&host) {
        Some(what) => {
            println!("{}: skipped: {what}", sanitizer.title);
            None
        }
        None => Some(sanitizer.step(&host)),
    };
    [ADDRESS, THREAD].iter().filter_map(step).collect()
}

impl Sanitizer {
    fn is_missing(&self, host: &str) -> Option<&'static str> {
        match host {
            "" => Some("no nightly"),
            _ if !host.ends_with("linux-gnu") => Some("not Linux with glibc"),
            _ if self.tests.contains("-Zbuild-std") && !nightly::has_source() => {
                Some("no nightly with rust-src")
            }
            _ => None,
        }
    }

    fn step(&self, host: &str) -> Step {
        for (test, reason) in self.left_out {
            println!("left out of {}: {test}: {reason}", self.title);
        }
        // With an explicit target, build scripts and macros are not sanitized.
        let arguments = format!("run nightly cargo test --target {host} {}", self.tests);
        let (variable, options) = self.options;
        let step = Step::rustup(self.title, &arguments)
            .env("CARGO_TARGET_DIR", &target_directory().join(self.name).to_string_lossy())
            .env("RUSTFLAGS", &format!("-Zsanitizer={}", self.name))
            .env(variable, options)
            .argument("--");
        self.left_out.iter().fold(step, |step, (name, _)| step.argument("--skip").argument(*name))
    }
}
