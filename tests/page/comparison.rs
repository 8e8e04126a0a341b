//! Tests the page of a comparison.

use mlprof_core::Report;
use mlprof_core::report::comparison::compare;
use mlprof_core::report::page;
use mlprof_core::report::simple::MedianLimits;

use super::pages::{everything, hostile};
use super::seen_page;

/// Returns the reports with the median durations of Simple reports multiplied by `factor`. Their
/// actions get the highest possible confidence.
fn times(mut reports: Vec<Report>, factor: f64) -> Vec<Report> {
    for report in &mut reports {
        let Report::Simple(report) = report else { continue };
        // Without the step series, the variation between steps does not affect the actions'
        // confidence.
        report.step_series.clear();
        // The copies provide enough rows for the search.
        let first = report.actions[0].clone();
        report.actions.extend(('a'..='t').map(|letter| {
            let mut row = first.clone();
            row.action = format!("action {letter}");
            row
        }));
        for row in &mut report.actions {
            let Some(rest) = &mut row.rest else { continue };
            rest.p50_seconds *= factor;
            row.calls = 10_000;
            let seconds = rest.p50_seconds;
            rest.p50_limits = Some(MedianLimits { low_seconds: seconds, high_seconds: seconds });
        }
    }
    reports
}

fn page_of(reports: &dyn Fn() -> Vec<Report>) -> String {
    let comparison = compare(&times(reports(), 1.0), &times(reports(), 8.0));
    page::comparison(&comparison.expect("of one program"))
}

#[test]
fn two_runs_are_compared_in_a_browser() {
    seen_page("comparison", &page_of(&everything));
}

#[test]
fn a_comparison_is_whole_without_scripts() {
    seen_page("comparison_without_scripts", &page_of(&everything));
}

#[test]
fn hostile_names_are_harmless_in_a_comparison() {
    seen_page("hostile_comparison", &page_of(&hostile));
}

/// Takes screenshots for developers of the page, as `pictures_are_taken_where_they_are_asked_for`
/// does.
#[test]
fn pictures_of_a_comparison_are_taken_where_they_are_asked_for() {
    if std::env::var_os("MLPROF_TEST_PICTURES").is_some() {
        seen_page("pictures", &page_of(&everything));
    }
}
