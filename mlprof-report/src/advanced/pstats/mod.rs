//! Advanced report as text, in the format of Python's `pstats` and of Lightning's Advanced
//! profiler.
//!
//! The output differs from `pstats` in these points:
//!
//! - Actions are ordered by total time, including calls that are still running.
//! - Functions with the same label in different folders, such as every `mod.rs`, keep their folder
//!   and are not merged.
//! - Control characters in names are escaped, and names are truncated to 200 characters.
//! - Running actions and notes follow at the end, if there are any.

mod options;

use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt::Write;

pub use self::options::{PstatsOptions, Restriction, SortKey};
use crate::LineCountRestriction;
use crate::advanced::{ActionProfile, AdvancedReport, FunctionKey, FunctionStatistics};
use crate::label;
use crate::line_count_restriction::restricted;
use crate::regions;
use crate::simple::lightning::{append_remarks, title};
use crate::simple::selection::{Running, Selection};
use mlprof_events::OrderExt;

/// Renders the report: one table per action, ordered by cumulative time, with at most as many lines
/// as `restriction` allows.
pub fn paint(report: &AdvancedReport, restriction: LineCountRestriction) -> String {
    let sort_by = &[SortKey::Cumulative];
    let restrictions = &[Restriction::Count(restriction)];
    paint_with(report, &PstatsOptions { sort_by, restrictions })
}

/// Renders the report for the console. It hides actions below 0.1 % of the wall time and prints how
/// many are hidden.
pub fn paint_on_console(report: &AdvancedReport, restriction: LineCountRestriction) -> String {
    let sort_by = &[SortKey::Cumulative];
    let restrictions = &[Restriction::Count(restriction)];
    let rows = Selection::on_console(&report.header);
    paint_actions(report, &PstatsOptions { sort_by, restrictions }, &rows)
}

/// Renders the report with another order or other restrictions.
pub fn paint_with(report: &AdvancedReport, options: &PstatsOptions<'_>) -> String {
    paint_actions(report, options, &Selection::default())
}

/// Returns the profiles of actions to show, the longest total first.
fn select<'rows>(
    profiles: &'rows [ActionProfile],
    rows: &Selection<'_>,
    running: &Running<'_>,
) -> Vec<&'rows ActionProfile> {
    let total = |profile: &&ActionProfile| profile.total_seconds + running.seconds(&profile.action);
    let mut profiles: Vec<_> = profiles.iter().collect();
    rows.retain_long(&mut profiles, total);
    profiles.order_by(|one, other| total(other).total_cmp(&total(one)));
    profiles
}

fn paint_actions(
    report: &AdvancedReport,
    options: &PstatsOptions<'_>,
    rows: &Selection<'_>,
) -> String {
    let header = &report.header;
    let mut text = title(header);
    let shown = select(&report.actions, rows, &Running::of(&report.open));
    for profile in &shown {
        let _ = write!(text, "\nProfile stats for: {}", label::shown(&profile.label()));
        // Lightning prints the rank as soon as a trainer has set one, even with a single process.
        if header.stage.is_some() {
            let _ = write!(text, " rank: {}", header.rank);
        }
        text.push('\n');
        text.push_str(&paint_functions(profile, options));
        if let Some(samples) = &report.samples {
            crate::advanced::samples::append_below(&mut text, samples, profile);
        }
    }
    if let Some(samples) = &report.samples {
        crate::advanced::samples::append_rest(&mut text, samples, &report.actions);
    } else if report.actions.is_empty() {
        text.push('\n');
    }
    let devices = shown.iter().map(|profile| (profile.label(), profile.device.as_ref()));
    regions::append_actions(&mut text, devices);
    regions::append(&mut text, &report.device_regions);
    if let Some(note) = rows.note(shown.len(), report.actions.len()) {
        text.push_str(&note);
        text.push('\n');
    }
    append_remarks(&mut text, &report.open, &header.notes);
    text
}

/// Formats one action's table as `pstats.Stats(…).strip_dirs().sort_stats(…).print_stats(…)` does.
fn paint_functions(profile: &ActionProfile, options: &PstatsOptions<'_>) -> String {
    let mut text = totals(&profile.functions);
    let mut functions: Vec<_> = profile.functions.iter().collect();
    let labels = Labels::new(&functions);
    functions.order_by(|one, other| {
        let by_key = |key: &SortKey| key.compare(&labels, one, other);
        // The sort is stable, like Python's.
        options.sort_by.iter().map(by_key).fold(Ordering::Equal, Ordering::then)
    });
    let reductions: Vec<String> = options
        .restrictions
        .iter()
        .filter_map(|restriction| restrict(&mut functions, &labels, restriction))
        .collect();
    if functions.is_empty() {
        return text;
    }
    let titles: Vec<_> = options.sort_by.iter().map(|key| key.title()).collect();
    let _ = match titles.is_empty() {
        true => writeln!(text, "   Random listing order was used"),
        false => writeln!(text, "   Ordered by: {}", titles.join(", ")),
    };
    text.extend(reductions);
    text.push_str("\n   ncalls  tottime  percall  cumtime  percall filename:lineno(function)\n");
    for statistics in functions {
        let label = labels.of(&statistics.function);
        let polls = label::polls(statistics.calls.polls);
        let _ = writeln!(text, "{} {label}{polls}", numbers(statistics));
    }
    text.push_str("\n\n");
    text
}

/// Applies one restriction to the functions. Returns a note if it removed any.
fn restrict(
    functions: &mut Vec<&FunctionStatistics>,
    labels: &Labels<'_>,
    restriction: &Restriction<'_>,
) -> Option<String> {
    let all = functions.len();
    let restriction = match restriction {
        Restriction::Count(count) => {
            let (shown, restriction) = restricted(all, *count);
            functions.truncate(shown);
            restriction
        }
        Restriction::Matching { pattern, is_match } => {
            functions.retain(|statistics| is_match(&labels.of(&statistics.function)));
            format!("'{}'", label::one_line(pattern))
        }
    };
    let left = functions.len();
    (left < all).then(|| {
        format!("   List reduced from {all} to {left} due to restriction <{restriction}>\n")
    })
}

fn totals(functions: &[FunctionStatistics]) -> String {
    let sum = |pick: fn(&FunctionStatistics) -> u64| functions.iter().map(pick).sum::<u64>();
    let total = sum(|function| function.calls.total_calls);
    let primitive = sum(|function| function.calls.primitive_calls);
    // `sum()` would return -0 for an empty list.
    let own = functions.iter().fold(0.0, |sum, function| sum + function.calls.self_seconds);
    let primitive =
        if primitive == total { String::new() } else { format!("({primitive} primitive calls) ") };
    format!("         {total} function calls {primitive}in {own:.3} seconds\n\n")
}

fn numbers(statistics: &FunctionStatistics) -> String {
    let calls = &statistics.calls;
    let count = if calls.total_calls == calls.primitive_calls {
        calls.total_calls.to_string()
    } else {
        format!("{}/{}", calls.total_calls, calls.primitive_calls)
    };
    let per_call = |seconds: f64, calls: u64| match calls {
        0 => " ".repeat(8),
        calls => format!("{:8.3}", seconds / calls as f64),
    };
    format!(
        "{count:>9} {:8.3} {} {:8.3} {}",
        calls.self_seconds,
        per_call(calls.self_seconds, calls.total_calls),
        calls.cumulative_seconds,
        per_call(calls.cumulative_seconds, calls.primitive_calls),
    )
}

/// Function labels of the last column: `file:line(name)`. The folder is omitted where the short
/// label is unambiguous.
struct Labels<'report> {
    /// Number of functions with this short file name, line and name.
    uses: HashMap<(&'report str, u32, &'report str), usize>,
}

impl<'report> Labels<'report> {
    fn new(functions: &[&'report FunctionStatistics]) -> Self {
        let mut uses = HashMap::new();
        for FunctionStatistics { function, .. } in functions {
            *uses.entry(Self::short(function)).or_default() += 1;
        }
        Self { uses }
    }

    fn short(function: &FunctionKey) -> (&str, u32, &str) {
        let separator = |character| character == '/' || (cfg!(windows) && character == '\\');
        let file = function.file.rsplit(separator).next().unwrap_or_default();
        (file, function.line, &function.name)
    }

    fn of(&self, function: &FunctionKey) -> String {
        let name = label::shown(&function.name);
        if function.file == "~" && function.line == 0 {
            let inside = name.strip_prefix('<').and_then(|name| name.strip_suffix('>'));
            return inside.map_or_else(|| name.clone(), |inside| format!("{{{inside}}}"));
        }
        let short = Self::short(function);
        let alone = self.uses.get(&short).is_none_or(|uses| *uses == 1);
        let file = if alone { short.0 } else { &function.file };
        format!("{}:{}({name})", label::shown(file), function.line)
    }
}
