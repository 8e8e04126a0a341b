//! `cargo xtask test sanitizers`: code with pointers and threads of its own, watched by the compiler's
//! AddressSanitizer and ThreadSanitizer, which take what Miri cannot: signals, timers, processes, real threads.

use crate::nightly;
use crate::steps::{Step, target_directory};

/// A sanitizer, and what it is to watch.
struct Sanitizer {
    title: &'static str,
    /// As the compiler calls it.
    name: &'static str,
    /// What `cargo test` is asked for.
    tests: &'static str,
    options: (&'static str, &'static str),
    /// Tests that are left out, and why: those whose names contain this.
    left_out: &'static [(&'static str, &'static str)],
}

const ADDRESS: Sanitizer = Sanitizer {
    title: "AddressSanitizer",
    name: "address",
    tests: "-p mlprof-core -p mlprof-sampler --features mlprof-core/sampling --lib \
            --test sampler --test interrupt --test spliced",
    // It would put what functions have on the stack elsewhere, where the sampler, which looks at the
    // place of its own, takes the thread to be on another stack. And tests leak what must live on.
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

/// The steps; for what this machine lacks, a line that says so.
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
        // With a target that is named, build scripts and macros are not watched.
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
