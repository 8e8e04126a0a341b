//! Tests two findings about compiler settings with a program that spends its time in its own loops.
//! The first applies to builds optimised for size, the second to builds for a generic processor.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::shop::{Finished, TestProject};
use super::tries::assert_promise_is_kept;

/// Builds and runs the program with these settings. Returns its findings and the time of its
/// fastest loop.
fn run(project: &TestProject, settings: &[&str], arguments: &[&str]) -> (Vec<String>, f64) {
    // Builds with other settings overwrite each other in the same folder.
    static RUNNING: Mutex<()> = Mutex::new(());
    let _running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("own_loops");
    let finished: Finished = project
        .command("cargo", &["run", "--release", "--quiet"])
        .args(settings.iter().flat_map(|setting| ["--config", setting]))
        .arg("--")
        .args(arguments)
        .env("CARGO_TARGET_DIR", target)
        .output()
        .expect("cargo runs")
        .into();
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let said = |what: &str| -> Vec<String> {
        let lines = finished.stdout.lines().filter_map(|line| line.strip_prefix(what));
        lines.map(str::to_owned).collect()
    };
    (said("found "), said("quickest ")[0].parse().expect("a number"))
}

/// Returns the settings for an optimisation level, which is written as in TOML.
fn of_level(level: &str) -> [String; 2] {
    let of = |what: &str| format!("profile.release.{what}opt-level={level}");
    [of(""), of("package.mlprof-core.")]
}

/// Returns the share that the finding predicts, and the share that was actually saved. The fastest
/// of thousands of calls are compared, because other programs cannot slow those down.
fn promised_and_saved(found: &[String], rule: &str, slow: f64, fast: f64) -> (f64, f64) {
    let [finding] = found else { panic!("one finding: {found:?}") };
    let share = finding.strip_prefix(rule).unwrap_or_else(|| panic!("{rule}: {finding}"));
    (share.trim().parse().expect("a number"), 1.0 - fast / slow)
}

#[test]
fn a_build_for_size_is_found_until_it_is_one_for_speed_which_saves_what_was_promised() {
    let project = TestProject::with_core("own_loops");
    let of_level = |level| {
        let settings = of_level(level);
        run(&project, &settings.each_ref().map(String::as_str), &[])
    };
    assert_promise_is_kept(
        |_, saved| saved,
        || {
            let ((found, slow), (mended, fast)) = (of_level("'s'"), of_level("3"));
            assert!(mended.is_empty(), "{mended:?}");
            promised_and_saved(&found, "unoptimized-build Likely", slow, fast)
        },
    );
}

/// If the processor has no wider vectors than the generic one, the same program has no finding.
#[test]
fn a_build_for_any_processor_is_found_until_it_is_one_for_this_which_saves_what_was_promised() {
    let project = TestProject::with_core("own_loops");
    let settings = of_level("3");
    let [of_program, of_core] = settings.each_ref().map(String::as_str);
    let native = "build.rustflags=['-Ctarget-cpu=native']";
    assert_promise_is_kept(
        |_, saved| saved,
        || {
            let (found, slow) = run(&project, &[of_program, of_core], &["neurons"]);
            let (mended, fast) = run(&project, &[of_program, of_core, native], &["neurons"]);
            assert!(mended.is_empty(), "{mended:?}");
            if found.is_empty() {
                assert!(fast > 0.8 * slow, "nothing is found, and {slow} s became {fast} s");
                return (0.0, 0.0);
            }
            promised_and_saved(&found, "baseline-cpu Hint", slow, fast)
        },
    );
}
