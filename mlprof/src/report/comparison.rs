//! `mlprof report FILE… --against FILE…`: compares reports from before and after a change.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;

use mlprof_report::comparison::{Comparison, TextOptions, compare};
use mlprof_report::output;
use regex::Regex;

use super::{Arguments, Error, Limit, all_of, json, print, write_html};

/// Exit code of a comparison with a regression above the threshold.
pub const REGRESSION: u8 = 1;

/// Accepted regression as a share: `5%` or `0.05`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FailAbove(pub f64);

/// The threshold cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected a percentage such as 5%, or a share from 0 to 1 such as 0.05")]
pub struct InvalidFailAbove;

impl FromStr for FailAbove {
    type Err = InvalidFailAbove;

    fn from_str(text: &str) -> Result<Self, InvalidFailAbove> {
        let (number, whole, most) = match text.trim().strip_suffix('%') {
            Some(percent) => (percent.trim_end(), 100.0, f64::MAX),
            // A bare `5` is ambiguous: it could mean 5 % or 500 %.
            None => (text.trim(), 1.0, 1.0),
        };
        let number: f64 = number.parse().map_err(|_| InvalidFailAbove)?;
        match (0.0..=most).contains(&number) {
            true => Ok(Self(number / whole)),
            false => Err(InvalidFailAbove),
        }
    }
}

/// Compares the reports, prints or writes the result, and returns the exit code.
pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, Error> {
    let [before, after] = [&arguments.against, &arguments.files].map(|files| all_of(files));
    let comparison = compare(&before?, &after?)?;
    let files: Vec<_> = arguments.files.iter().chain(&arguments.against).collect();
    let shown = Shown {
        json: arguments.json,
        html: arguments.html.as_deref(),
        filter: arguments.filter.as_ref(),
        limit: arguments.limit,
    };
    show(&comparison, &files, &shown, arguments.fail_above)
}

/// Output options of a comparison.
pub(crate) struct Shown<'a> {
    /// Enables JSON output.
    pub(crate) json: bool,
    /// Path of the HTML page to write.
    pub(crate) html: Option<&'a Path>,
    /// Filter for the names of rows.
    pub(crate) filter: Option<&'a Regex>,
    /// Maximum number of rows per table.
    pub(crate) limit: Option<Limit>,
}

/// Prints or writes a comparison of the given files, and returns the exit code.
pub(crate) fn show(
    comparison: &Comparison,
    files: &[&PathBuf],
    shown: &Shown<'_>,
    fail_above: Option<FailAbove>,
) -> Result<ExitCode, Error> {
    match shown.html {
        Some(page) => {
            write_html(files, page, || mlprof_report::page::comparison(comparison))?;
        }
        None => print(&text(comparison, shown)?, shown.json)?,
    }
    match fail_above {
        Some(FailAbove(threshold)) => judge(comparison, threshold),
        None => Ok(ExitCode::SUCCESS),
    }
}

fn text(comparison: &Comparison, shown: &Shown<'_>) -> Result<String, Error> {
    if shown.json {
        return json(serde_json::to_string_pretty(comparison)).map(|json| json + "\n");
    }
    let filter = shown.filter;
    let matches = filter.map(|filter| move |name: &str| filter.is_match(name));
    let rows = comparison.parts.iter().flat_map(|part| &part.tables).map(|table| table.rows.len());
    let own = TextOptions::default().limit;
    let limit = shown.limit.map_or(own, |limit| limit.of(rows.max().unwrap_or(0)));
    let is_shown = matches.as_ref().map(|matches| matches as &dyn Fn(&str) -> bool);
    Ok(comparison.text_with(&TextOptions { limit, is_shown }))
}

/// Prints a line on standard error for each row that got worse by more than `threshold`. Returns
/// the exit code.
fn judge(comparison: &Comparison, threshold: f64) -> Result<ExitCode, Error> {
    if !comparison.is_judged() {
        return Err(Error::NothingJudged);
    }
    let regressions = comparison.regressions(threshold);
    for regression in &regressions {
        output::say(format_args!("regression: {regression}"));
    }
    Ok(match regressions.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(REGRESSION),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_and_shares_are_told_apart() {
        for (text, expected) in
            [("5%", 0.05), (" 5 % ", 0.05), ("0.05", 0.05), ("0", 0.0), ("150%", 1.5), ("1", 1.0)]
        {
            assert_eq!(text.parse(), Ok(FailAbove(expected)), "{text}");
        }
        for text in ["", "%", "5", "1.5", "-1%", "-0.05", "NaN", "NaN%", "inf%", "five%"] {
            assert_eq!(text.parse::<FailAbove>(), Err(InvalidFailAbove), "{text}");
        }
    }
}
