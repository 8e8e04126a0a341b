//! Formats a report as text, with the requested order and row limit.

use std::path::Path;

use mlprof_report::LineCountRestriction;
use mlprof_report::Report;
use mlprof_report::advanced::pstats::{self, PstatsOptions, Restriction};
use mlprof_report::advanced::samples as samples_page;
use mlprof_report::advanced::samples::SampleOrder;
use mlprof_report::lines::memory as lines_memory;
use mlprof_report::lines::text as lines_text;
use mlprof_report::lines::text::LinesOptions;
use mlprof_report::simple::detailed;
use mlprof_report::simple::lightning;
use mlprof_report::simple::rows::Rows;
use mlprof_report::tensor::page as tensor_page;
use mlprof_report::tensor::{SortKey, TableOptions};
use mlprof_report::{AdvancedReport, LinesReport, SimpleReport, TensorReport, memory, numerics};

use super::findings;
use super::group::describe;
use super::{Arguments, Error, Layout, Limit, json};

/// Default number of rows in a table of ops, the same as during recording.
const OPS: usize = 20;

/// Formats the report as text or JSON.
pub(super) fn of(report: &Report, file: &Path, arguments: &Arguments) -> Result<String, Error> {
    if arguments.json {
        return json(report.to_json()).map(|json| json + "\n");
    }
    if arguments.findings || arguments.explain_rules {
        let rules = findings::rules(&arguments.threshold)?;
        return Ok(match arguments.explain_rules {
            true => findings::explained(report, &rules),
            false => findings::found(report, &rules),
        });
    }
    let what = "tables";
    let instead = "use it with --findings or --explain-rules";
    refuse("--threshold", !arguments.threshold.is_empty(), what, instead)?;
    let verdict = report.verdict().map_or_else(String::new, |verdict| verdict + "\n");
    let tables = tables(report, file, arguments)?;
    // The brief findings are those stored in the report when it was recorded.
    Ok(verdict + &tables + &mlprof_report::findings::text::brief(report.findings()))
}

fn tables(report: &Report, file: &Path, arguments: &Arguments) -> Result<String, Error> {
    match report {
        Report::Simple(report) => simple(report, arguments),
        Report::Advanced(report) => advanced(report, arguments),
        Report::Tensor(report) => tensor(report, file, arguments),
        Report::Lines(report) => lines(report, arguments),
        Report::Memory(report) => {
            refuse_all("a memory report", arguments)?;
            Ok(memory::paint(report))
        }
        Report::Numerics(report) => {
            refuse_all("a numerics report", arguments)?;
            Ok(numerics::paint(report))
        }
        Report::Samples(report) => {
            let order = match arguments.sort.as_deref().map(str::trim) {
                None | Some("self") => SampleOrder::Own,
                Some("total") => SampleOrder::Total,
                Some("waiting") => SampleOrder::Waiting,
                Some(key) => return Err(Error::SamplesKey { key: key.to_owned() }),
            };
            refuse_all_but_sort("samples", arguments)?;
            Ok(samples_page::paint_ordered(report, order))
        }
        _ => Err(Error::NotForThis {
            option: "mlprof report",
            what: "a report of this kind".to_owned(),
            instead: "this version prints it only as JSON (--json)".to_owned(),
        }),
    }
}

fn simple(report: &SimpleReport, arguments: &Arguments) -> Result<String, Error> {
    let what = "a Simple report";
    let instead = "it has one table";
    refuse("--group-by", arguments.group_by.is_some(), what, instead)?;
    refuse("--action", arguments.action.is_some(), what, "use --filter")?;
    let sort_by = arguments.sort.as_deref().map(str::parse).transpose()?;
    let filter = arguments.filter.as_ref();
    let matches = filter.map(|filter| move |label: &str| filter.is_match(label));
    let rows = Rows {
        sort_by,
        limit: restriction(arguments),
        is_shown: matches.as_ref().map(|matches| matches as &dyn Fn(&str) -> bool),
    };
    let is_counted = report.actions.iter().any(|row| row.io.is_some() || row.cpu.is_some());
    let own = if is_counted { Layout::Detailed } else { Layout::Lightning };
    Ok(match arguments.layout.unwrap_or(own) {
        Layout::Lightning => lightning::paint_rows(report, true, &rows),
        Layout::Short => lightning::paint_rows(report, false, &rows),
        Layout::Detailed => detailed::paint_rows(report, &rows),
    })
}

fn advanced(report: &AdvancedReport, arguments: &Arguments) -> Result<String, Error> {
    let what = "an Advanced report";
    refuse("--group-by", arguments.group_by.is_some(), what, "it has a table per action")?;
    refuse("--layout", arguments.layout.is_some(), what, "it has one layout, that of pstats")?;
    let keys = arguments.sort.as_deref().unwrap_or("cumulative").split(',');
    let sort_by = keys.map(str::parse).collect::<Result<Vec<_>, mlprof_report::Error>>()?;
    let filter = arguments.filter.as_ref();
    let matches = filter.map(|filter| move |label: &str| filter.is_match(label));
    let mut restrictions = Vec::new();
    if let (Some(filter), Some(is_match)) = (filter, &matches) {
        restrictions.push(Restriction::Matching { pattern: filter.as_str(), is_match });
    }
    restrictions.push(Restriction::Count(restriction(arguments)));
    let options = PstatsOptions { sort_by: &sort_by, restrictions: &restrictions };
    let Some(action) = &arguments.action else { return Ok(pstats::paint_with(report, &options)) };
    let mut chosen = report.clone();
    chosen.actions.retain(|profile| action.is_match(&profile.label()));
    if chosen.actions.is_empty() {
        let names: Vec<_> = report.actions.iter().map(|profile| profile.label()).collect();
        return Err(Error::NotForThis {
            option: "--action",
            what: "this report".to_owned(),
            instead: format!(
                "no action matches {:?}; its actions are {}",
                action.as_str(),
                names.join(", ")
            ),
        });
    }
    Ok(pstats::paint_with(&chosen, &options))
}

fn tensor(report: &TensorReport, file: &Path, arguments: &Arguments) -> Result<String, Error> {
    let what = "a Tensor report";
    refuse("--filter", arguments.filter.is_some(), what, "its shares refer to all rows")?;
    refuse("--action", arguments.action.is_some(), what, "it has one table")?;
    refuse("--layout", arguments.layout.is_some(), what, "it has one layout")?;
    let there = &report.key_averages.group_by;
    if let Some(wanted) = arguments.group_by.filter(|wanted| wanted.0 != *there) {
        return Err(Error::Grouping {
            path: file.to_owned(),
            there: describe(there),
            wanted: describe(&wanted.0),
        });
    }
    let own_key = match report.key_averages.has_device_time() {
        true => SortKey::SelfDeviceTimeTotal,
        false => SortKey::SelfCpuTimeTotal,
    };
    let sort_by = arguments.sort.as_deref().map(str::parse).transpose()?;
    let limit = arguments.limit.unwrap_or(Limit(LineCountRestriction::Lines(OPS)));
    let options = TableOptions {
        sort_by: Some(sort_by.unwrap_or(own_key)),
        row_limit: Some(limit.of(report.key_averages.rows.len())),
        ..TableOptions::default()
    };
    Ok(tensor_page::paint(report, &options))
}

fn lines(report: &LinesReport, arguments: &Arguments) -> Result<String, Error> {
    let what = "a lines report";
    refuse("--limit", arguments.limit.is_some(), what, "use --filter")?;
    refuse("--group-by", arguments.group_by.is_some(), what, "it has a table per function")?;
    refuse("--action", arguments.action.is_some(), what, "use --filter")?;
    refuse("--layout", arguments.layout.is_some(), what, "it has one layout")?;
    let sort = match arguments.sort.as_deref().map(str::trim) {
        None | Some("file") => false,
        Some("time") => true,
        Some(key) => return Err(Error::LinesKey { key: key.to_owned() }),
    };
    let mut report = report.clone();
    if let Some(filter) = &arguments.filter {
        report.functions.retain(|function| filter.is_match(&function.name));
    }
    let own = LinesOptions::default();
    let options = LinesOptions {
        unit: arguments.unit.unwrap_or(own.unit),
        skip_zero: arguments.skip_zero,
        sort,
        ..own
    };
    let mut text = lines_text::paint(&report, &options);
    let has_memory = report.functions.iter().any(|function| {
        function.entry_memory.is_some() || function.lines.iter().any(|line| line.memory.is_some())
    });
    if has_memory {
        text.push('\n');
        // One decimal, as in Python's memory_profiler.
        text.push_str(&lines_memory::paint(&report, 1));
    }
    Ok(text)
}

/// Refuses all table options, for reports with a fixed format.
fn refuse_all(what: &str, arguments: &Arguments) -> Result<(), Error> {
    let instead = "it has a fixed format";
    refuse("--sort", arguments.sort.is_some(), what, instead)?;
    refuse_all_but_sort(what, arguments)
}

fn refuse_all_but_sort(what: &str, arguments: &Arguments) -> Result<(), Error> {
    let instead = "it has a fixed format";
    refuse("--limit", arguments.limit.is_some(), what, instead)?;
    refuse("--filter", arguments.filter.is_some(), what, instead)?;
    refuse("--action", arguments.action.is_some(), what, instead)?;
    refuse("--group-by", arguments.group_by.is_some(), what, instead)?;
    refuse("--layout", arguments.layout.is_some(), what, instead)
}

fn restriction(arguments: &Arguments) -> LineCountRestriction {
    arguments.limit.map_or_else(LineCountRestriction::default, |limit| limit.0)
}

/// Refuses an option that does not apply to this report.
fn refuse(option: &'static str, is_given: bool, what: &str, instead: &str) -> Result<(), Error> {
    match is_given {
        true => {
            Err(Error::NotForThis { option, what: what.to_owned(), instead: instead.to_owned() })
        }
        false => Ok(()),
    }
}

/// Returns `true` if the line is the heading of a section.
pub(super) fn is_heading(line: &str) -> bool {
    const BEGINNINGS: [&str; 7] = [
        "Before and after: ",
        "Profile stats for: ",
        "Actions, ",
        "CPU time, ",
        "Bytes read and written",
        "Thread ",
        "Modules, ",
    ];
    let is_title = line == "Profiler Report" || line.ends_with(" Profiler Report");
    is_title || BEGINNINGS.iter().any(|beginning| line.starts_with(beginning))
}
