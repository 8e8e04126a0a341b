//! A program whose own loops take long is found to be built for size, until it is not.

use std::path::Path;

use super::shop::{Finished, Shop};

/// What the program says that was built at this level, as it stands in TOML: the findings, and how long its quickest
/// loops took.
fn run(shop: &Shop, level: &str) -> (Vec<String>, f64) {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("own_loops");
    let of_program = format!("profile.release.opt-level={level}");
    let of_core = format!("profile.release.package.profiler-core.opt-level={level}");
    let finished: Finished = shop
        .command("cargo", &["run", "--release", "--quiet"])
        .args(["--config", &of_program, "--config", &of_core])
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

#[test]
fn a_build_for_size_is_found_until_it_is_one_for_speed_which_saves_what_was_promised() {
    let shop = Shop::with_core("own_loops");
    let (found, slow) = run(&shop, "'s'");
    let (mended, fast) = run(&shop, "3");
    assert!(mended.is_empty(), "{mended:?}");
    let [finding] = &found[..] else { panic!("one finding: {found:?}") };
    let share = finding.strip_prefix("unoptimized-build Likely ").expect("the rule");
    let promised: f64 = share.parse().expect("a number");
    // The quickest of thousands: other programs have not made it longer.
    let saved = 1.0 - fast / slow;
    println!("{promised} promised, {saved} saved");
    assert!((promised - saved).abs() <= 0.3 * saved, "{promised} promised, {saved} saved");
}
