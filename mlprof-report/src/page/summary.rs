//! Runs of a page: the summary and the properties that several reports share.

use std::fmt::Write;

use super::steps::{self, SAME_START};
use super::table::parts_bar;
use super::{run, text};
use crate::number::{bytes, duration, grouped, percent};
use crate::{Report, ReportHeader};

/// Maximum pause between two stages of one run, in seconds. Other ranks may also start this late.
const LONGEST_PAUSE: f64 = 60.0;

/// Reports of one run: several profilers, stages and ranks of one program.
pub(super) struct Run {
    /// Name as HTML: the program, with the start time if several runs have this program.
    name: String,
    /// Name of the program as HTML, which begins the titles of the reports.
    program: String,
    /// Indices of the reports in the page.
    pub(super) reports: Vec<usize>,
    /// Facts of the header, with their names. Reports omit the facts of their run.
    facts: Vec<(&'static str, String)>,
    /// Facts that the numbers of the stages already contain.
    in_tiles: Vec<(&'static str, String)>,
    /// Notes that several reports have in common, as HTML.
    notes: Vec<String>,
}

impl Run {
    /// Returns `true` if the header of the run shows this fact.
    pub(super) fn has_fact(&self, fact: &(&'static str, String)) -> bool {
        self.facts.contains(fact) || self.in_tiles.contains(fact)
    }

    /// Returns `true` if the header of the run shows this note.
    pub(super) fn has_note(&self, note: &String) -> bool {
        self.notes.contains(note)
    }

    /// Returns a report's title without the program.
    pub(super) fn short_title<'title>(&self, title: &'title str) -> &'title str {
        title.strip_prefix(&*self.program).and_then(|it| it.strip_prefix(" · ")).unwrap_or(title)
    }
}

/// Groups the reports by run, in the order of their first reports. A second report of the same
/// stage and rank with another start time belongs to another run.
pub(super) fn runs(reports: &[Report]) -> Vec<Run> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (index, report) in reports.iter().enumerate() {
        let belongs = |group: &&mut Vec<usize>| {
            let mut headers = group.iter().map(|other| reports[*other].header());
            headers.clone().all(|other| is_compatible(report.header(), other))
                && headers.any(|other| pause(report.header(), other) <= LONGEST_PAUSE)
        };
        match groups.iter_mut().find(belongs) {
            Some(group) => group.push(index),
            None => groups.push(vec![index]),
        }
    }
    let mut runs: Vec<Run> = groups.into_iter().map(|it| described(it, reports)).collect();
    let programs: Vec<String> = runs.iter().map(|run| run.program.clone()).collect();
    for run in &mut runs {
        if programs.iter().filter(|program| **program == run.program).count() > 1 {
            let started = reports[run.reports[0]].header().started_at.time_of_day();
            let _ = write!(run.name, " · {started}");
        }
    }
    runs
}

/// Returns `true` if the reports can be of one run.
fn is_compatible(one: &ReportHeader, other: &ReportHeader) -> bool {
    let apart = one.started_at.seconds_since(other.started_at).abs();
    let is_same_stage = (one.stage, one.rank) == (other.stage, other.rank);
    one.program == other.program && (!is_same_stage || apart < SAME_START)
}

/// Returns the time between two stages in seconds, which is negative if they overlap.
fn pause(one: &ReportHeader, other: &ReportHeader) -> f64 {
    let later = one.started_at.seconds_since(other.started_at);
    if later >= 0.0 { later - other.wall_seconds } else { -later - one.wall_seconds }
}

fn described(group: Vec<usize>, reports: &[Report]) -> Run {
    let all: Vec<Vec<_>> = group.iter().map(|index| run::facts(&reports[*index])).collect();
    let mut facts: Vec<(&'static str, String)> = Vec::new();
    for (name, value) in all.iter().flatten().filter(|(name, _)| run::SHARED.contains(name)) {
        let is_known = facts.iter().any(|(known, _)| known == name);
        let mut values = all.iter().flatten().filter(|(other, _)| other == name);
        // All reports have a start time, and each stage has its own. The first one is that of the
        // run.
        if !is_known && (*name == "Started" || values.all(|(_, other)| other == value)) {
            facts.push((name, value.clone()));
        }
    }
    // The tiles of a stage contain the wall time of its first report and the waiting time.
    let stages = stages(&group, reports);
    let walls = stages.iter().map(|stage| ("Wall time", duration(stage[0].header().wall_seconds)));
    let others = stages.iter().flatten().flat_map(|report| run::facts(report));
    let in_tiles = walls.chain(others.filter(|fact| fact.0 == "Waiting for data")).collect();
    let mut notes: Vec<String> = Vec::new();
    let of_reports: Vec<Vec<String>> =
        group.iter().map(|index| run::notes(&reports[*index])).collect();
    for note in of_reports.iter().flatten() {
        let count = of_reports.iter().filter(|notes| notes.contains(note)).count();
        if count > 1 && !notes.contains(note) {
            notes.push(note.clone());
        }
    }
    let program = reports[group[0]].header().program.as_ref();
    let program = program.map_or_else(String::new, |program| text::name(program, 80));
    let name = if program.is_empty() { "Run".to_owned() } else { program.clone() };
    Run { name, program, reports: group, facts, in_tiles, notes }
}

/// Writes the header of a run: the numbers at first glance, the shared facts and the shared notes.
/// `findings` are the numbers of findings with advice and of hints.
pub(super) fn write(
    html: &mut String,
    number: usize,
    run: &Run,
    reports: &[Report],
    findings: [usize; 2],
) {
    // Writing into a string cannot fail, so the results are ignored here and below.
    let _ = writeln!(html, "<section class=run id=run{number}><h2>{}</h2>", run.name);
    let of_stages = stages(&run.reports, reports);
    let has_several = of_stages.len() > 1;
    for (place, stage) in of_stages.iter().enumerate() {
        html.push_str("<dl class=tiles>");
        let of_run = if place == 0 { findings } else { [0, 0] };
        write_tiles(html, stage, has_several, of_run);
        html.push_str("</dl>\n");
    }
    run::write_facts(html, &run.facts);
    run.notes.iter().for_each(|note| html.push_str(note));
    html.push_str("</section>\n");
}

/// Returns the reports of each stage. Of several ranks, only the lowest one is included.
fn stages<'page>(run: &[usize], reports: &'page [Report]) -> Vec<Vec<&'page Report>> {
    let mut stages: Vec<Vec<&Report>> = Vec::new();
    for report in run.iter().map(|index| &reports[*index]) {
        let header = report.header();
        match stages.iter_mut().find(|stage| stage[0].header().stage == header.stage) {
            Some(stage) if header.rank < stage[0].header().rank => *stage = vec![report],
            Some(stage) if header.rank == stage[0].header().rank => stage.push(report),
            Some(_) => {}
            None => stages.push(vec![report]),
        }
    }
    stages
}

/// Writes the numbers of one stage. The name of the stage is added if there are several.
fn write_tiles(html: &mut String, stage: &[&Report], has_several: bool, findings: [usize; 2]) {
    let mut tile = |name: &str, value: &str, more: &str| {
        let _ = write!(html, "<div><dt>{name}<dd><b>{value}</b>{more}</div>");
    };
    let header = stage[0].header();
    let mut of = match header.stage.filter(|_| has_several) {
        Some(stage) => format!(" of {stage}"),
        None => String::new(),
    };
    if let Some(rank) = header.rank_of_several() {
        let _ = write!(of, ", rank {rank}");
    }
    let wall = duration(header.wall_seconds);
    tile(&format!("Wall time{of}"), &wall, "");
    let series = stage.iter().filter_map(|report| report.step_series().first());
    if let Some(series) = series.max_by_key(|series| series.steps) {
        let series = series.steady();
        let median = series.quantile(0.5).map_or_else(String::new, duration);
        let parts = steps::part_sums(&series);
        let all: f64 = parts.iter().map(|part| part.2).sum();
        let named = parts.iter().filter(|part| part.2 > 0.0).map(|(name, class, seconds)| {
            format!("<span class=\"key {class}\">{name} {}</span>", percent(seconds / all))
        });
        let named = named.collect::<String>();
        let bar = if all > 0.0 { parts_bar(&parts) } else { String::new() };
        let more = format!(" median of {} steps{bar}{named}", grouped(series.steps));
        tile("Step", &median, &more);
    }
    let waiting = stage.iter().find_map(|report| match report {
        Report::Simple(report) => report.data_waiting.as_ref(),
        _ => None,
    });
    if let Some(waiting) = waiting {
        let more = format!(" of {}", duration(waiting.waiting_seconds / waiting.share.max(1e-12)));
        let more = if waiting.share > 0.0 { more } else { String::new() };
        let share = format!("{:.1} %", 100.0 * waiting.share);
        tile("Waiting for data", &share, &format!(" {}{more}", duration(waiting.waiting_seconds)));
    }
    if let Some((peak, of)) = peak_bytes(stage) {
        tile("Peak memory", &bytes(peak), of);
    }
    let [advice, hints] = findings;
    if advice + hints > 0 {
        let link = |count: usize, id: &str, what: &str| match count {
            0 => String::new(),
            count => format!(" <a href=\"#{id}\">{count} {what}</a>"),
        };
        let more = link(advice, "findings", "to do") + &link(hints, "hints", "to look at");
        tile("Findings", &grouped((advice + hints) as u64), &more);
    }
}

/// Returns the highest memory of a stage and its description: that of the process, otherwise that
/// of the recorded allocations.
fn peak_bytes(stage: &[&Report]) -> Option<(u64, &'static str)> {
    let of_process = stage.iter().find_map(|report| match report {
        Report::Memory(report) => u64::try_from(report.process.peak_bytes).ok(),
        _ => None,
    });
    let recorded = stage.iter().filter_map(|report| match report {
        Report::Tensor(report) => report.memory_over_time.iter().map(|it| it.peak.bytes).max(),
        _ => None,
    });
    let of_process = of_process.filter(|bytes| *bytes > 0).map(|bytes| (bytes, " allocated"));
    of_process.or_else(|| recorded.max().map(|bytes| (bytes, " in recorded steps")))
}

/// Writes the links to the runs and their reports. A link names the profiler and the stage; the
/// program is in front of the group, and in the label of each link.
pub(super) fn navigation(runs: &[Run], titles: &[String]) -> String {
    let mut html = String::new();
    for (number, run) in runs.iter().enumerate() {
        let name = &run.name;
        let _ = write!(html, "<span class=group><a class=program href=\"#run{number}\">{name}</a>");
        for index in &run.reports {
            let title = &titles[*index];
            let short = run.short_title(title);
            let _ = write!(html, " <a href=\"#r{index}\" aria-label=\"{title}\">{short}</a>");
        }
        html.push_str("</span>");
    }
    html
}
