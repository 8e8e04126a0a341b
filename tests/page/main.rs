//! Tests the HTML report page in a real browser: Debian's Chromium, controlled by puppeteer.

mod comparison;
#[path = "../../xtask/src/npm.rs"]
mod npm;
mod pages;
mod traces;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use mlprof_core::Report;
use mlprof_core::report::page;

#[test]
fn everything_is_sorted_searched_grouped_and_zoomed() {
    seen("everything", &pages::everything());
}

#[test]
fn steps_are_a_strip_whose_long_ones_are_told() {
    seen("steps", &pages::everything());
}

#[test]
fn actions_stand_inside_of_what_is_around_them() {
    seen("nesting", &pages::everything());
}

#[test]
fn ops_are_put_together_by_any_of_their_keys() {
    seen("grouping", &pages::everything());
}

#[test]
fn small_rows_are_folded_and_long_names_shortened() {
    seen("folding", &pages::small_rows());
}

#[test]
fn memory_over_time_is_an_area_whose_peak_is_explained() {
    seen("memory", &pages::everything());
}

#[test]
fn the_slowest_rank_is_on_top_with_a_way_to_what_it_loses_by() {
    seen("ranks", &pages::ranks());
}

#[test]
fn the_page_is_accessible() {
    seen("accessibility", &pages::everything());
}

#[test]
fn all_of_it_is_on_paper() {
    seen("paper", &pages::everything());
}

#[test]
fn tables_are_whole_without_scripts() {
    seen("without_scripts", &pages::everything());
}

#[test]
fn hostile_names_are_harmless() {
    seen("hostile", &pages::hostile());
}

#[test]
fn ten_million_ops_fit_into_three_megabytes() {
    let reports = pages::large();
    let html = page::html(&reports);
    assert!(html.len() <= page::LARGEST, "{} bytes", html.len());
    println!("{} bytes; {}", html.len(), seen("large", &reports));
}

/// Takes screenshots for developers of the page: `MLPROF_TEST_PICTURES=folder cargo test -p tests
/// --test page pictures`.
#[test]
fn pictures_are_taken_where_they_are_asked_for() {
    if std::env::var_os("MLPROF_TEST_PICTURES").is_some() {
        seen("pictures", &pages::everything());
    }
}

/// Opens the page of these reports in a browser, runs a scenario, and returns the scenario's
/// output.
fn seen(scenario: &str, reports: &[Report]) -> String {
    seen_page(scenario, &page::html(reports))
}

/// Opens any page in a browser, runs a scenario, and returns the scenario's output.
fn seen_page(scenario: &str, html: &str) -> String {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = folder.path().join("reports.html");
    fs::write(&file, html).expect("written");
    let mut node = Command::new("node");
    let output = node.arg(driver()).arg(scenario).arg(&file).stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("cannot run node: {error}"));
    let (printed, said) = (&output.stdout, &output.stderr);
    let (printed, said) = (String::from_utf8_lossy(printed), String::from_utf8_lossy(said));
    assert!(output.status.success() && printed.contains("passed"), "{scenario}: {printed}{said}");
    printed.into_owned()
}

/// Returns the script that controls the browser. It is in the build folder, next to its packages.
fn driver() -> &'static Path {
    static DRIVER: OnceLock<PathBuf> = OnceLock::new();
    const FILES: [&str; 7] = [
        "package.json",
        "package-lock.json",
        "browser.mjs",
        "page.mjs",
        "reports.mjs",
        "comparison.mjs",
        "traces.mjs",
    ];
    DRIVER.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("page");
        let folder = tests::target_directory().join("page-browser");
        fs::create_dir_all(&folder).expect("a folder");
        for file in FILES {
            fs::copy(source.join(file), folder.join(file)).expect("copied");
        }
        npm::install(&folder).unwrap_or_else(|message| panic!("{message}"));
        folder.join("browser.mjs")
    })
}
