//! A program whose own loops take long is found to be built for size, until it is not; and for any processor, until it is
//! for the one that it runs on.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::shop::{Finished, Shop};
use super::tries::assert_promise_is_kept;

/// What the program says that was built with these settings: the findings, and how long its quickest loops took.
fn run(shop: &Shop, settings: &[&str], arguments: &[&str]) -> (Vec<String>, f64) {
    // Builds of other settings take each other's place in the folder.
    static RUNNING: Mutex<()> = Mutex::new(());
    let _running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("own_loops");
    let finished: Finished = shop
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

/// The settings of this level, as it stands in TOML.
fn of_level(level: &str) -> [String; 2] {
    let of = |what: &str| format!("profile.release.{what}opt-level={level}");
    [of(""), of("package.mlprof-core.")]
}

/// The share that one finding, of this rule and this sure, promises, and the one that was saved. The quickest of thousands are compared:
/// other programs have not made them longer.
fn promised_and_saved(found: &[String], rule: &str, slow: f64, fast: f64) -> (f64, f64) {
    let [finding] = found else { panic!("one finding: {found:?}") };
    let share = finding.strip_prefix(rule).unwrap_or_else(|| panic!("{rule}: {finding}"));
    (share.trim().parse().expect("a number"), 1.0 - fast / slow)
}

#[test]
fn a_build_for_size_is_found_until_it_is_one_for_speed_which_saves_what_was_promised() {
    let shop = Shop::with_core("own_loops");
    let of_level = |level| {
        let settings = of_level(level);
        run(&shop, &settings.each_ref().map(String::as_str), &[])
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

/// Where the processor is no quicker than any of its kind, nothing is found, with the same program.
#[test]
fn a_build_for_any_processor_is_found_until_it_is_one_for_this_which_saves_what_was_promised() {
    let shop = Shop::with_core("own_loops");
    let settings = of_level("3");
    let [of_program, of_core] = settings.each_ref().map(String::as_str);
    let native = "build.rustflags=['-Ctarget-cpu=native']";
    assert_promise_is_kept(
        |_, saved| saved,
        || {
            let (found, slow) = run(&shop, &[of_program, of_core], &["neurons"]);
            let (mended, fast) = run(&shop, &[of_program, of_core, native], &["neurons"]);
            assert!(mended.is_empty(), "{mended:?}");
            if found.is_empty() {
                assert!(fast > 0.8 * slow, "nothing is found, and {slow} s became {fast} s");
                return (0.0, 0.0);
            }
            promised_and_saved(&found, "baseline-cpu Hint", slow, fast)
        },
    );
}
