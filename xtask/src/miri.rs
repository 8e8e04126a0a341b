//! `cargo xtask miri`: the core's `unsafe` code, looked at by Miri, where a nightly toolchain has it.

use crate::nightly;
use crate::steps::{Step, run_all};

/// Tests of what has pointers of its own and is read by other threads. Others ask the system for what
/// Miri does not know, or would take it an hour.
const TESTS: &str = "recorder:: several::tests::parts_are_asked simple::histogram simple::summarize \
                     simple::tests::a_leaked_guard advanced::tests::a_leaked_guard \
                     advanced::tests::large::an_action_that_calls_itself";

/// Runs them, or says why not.
pub fn run() -> Result<(), String> {
    run_all(&steps())
}

/// The steps, beside each other and beside whatever comes before: Miri keeps one processor busy. None where it
/// is missing: it comes with nightly toolchains only.
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
        // Of the races between threads one model sees as much as the other, and this takes minutes.
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
