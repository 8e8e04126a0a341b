//! `cargo xtask miri`: runs tests of the core's `unsafe` code under Miri, if a nightly toolchain
//! with Miri is installed.

use crate::nightly;
use crate::steps::{Step, run_all};

/// Tests of code with raw pointers and with data that other threads read. The other tests make
/// unsupported system calls or would take an hour.
const TESTS: &str = "recorder:: several::tests::parts_are_asked simple::histogram simple::summarize \
                     simple::tests::a_leaked_guard advanced::tests::a_leaked_guard \
                     advanced::tests::large::an_action_that_calls_itself";

/// Runs the tests, or prints the reason why they cannot run.
pub fn run() -> Result<(), String> {
    run_all(&steps())
}

/// Returns the steps, which run in parallel with each other and with earlier steps, because Miri
/// uses one core. Returns no steps without Miri, which only nightly toolchains contain.
pub fn steps() -> Vec<Step> {
    if !is_there() {
        println!("core under Miri: skipped: no nightly with miri and rust-src");
        return Vec::new();
    }
    let step = |title: &'static str, flags: &str| {
        let arguments = "run nightly cargo miri test -p mlprof-core --lib --";
        let step = Step::rustup(title, arguments).env("MIRIFLAGS", flags);
        TESTS.split_whitespace().fold(step, |step, test| step.argument(test))
    };
    vec![
        // Both aliasing models detect the same data races, and this run takes minutes, so data race
        // detection is left to the other one.
        step("core under Miri, Stacked Borrows", "-Zmiri-disable-isolation")
            .argument("simple::tests::a_report_may_be_made")
            .beside(),
        step("core under Miri, Tree Borrows", "-Zmiri-disable-isolation -Zmiri-tree-borrows")
            .beside(),
    ]
}

fn is_there() -> bool {
    nightly::has_source() && nightly::answer(&["cargo", "miri", "--version"]).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_models_of_borrowing_are_asked_where_miri_is() {
        let steps = steps();
        assert_eq!(steps.len(), if is_there() { 2 } else { 0 });
    }
}
