//! Answers as tables for a console.

pub(crate) mod cell;
pub(crate) mod device;
pub(crate) mod kernels;

use std::fmt::Write;

use mlprof_report::findings::text::line;
use mlprof_report::internals::{Table, notes, shown, shown_within};
use mlprof_report::number::{duration, grouped, share};

use self::cell::LastCell;

use crate::analysis::Analysis;
use crate::answers::StepPart;

/// Findings that have a line each.
const FINDINGS: usize = 5;
/// What stands for an action where there is none.
const NO_ACTION: &str = "(in no action)";
/// The most characters of a name in a column before the last one.
const MIDDLE: usize = 32;

pub(crate) fn time(nanoseconds: i64) -> String {
    duration(nanoseconds as f64 / 1e9)
}

pub(crate) fn part_of(part: i64, whole: i64) -> String {
    share(part as f64, whole as f64)
}

pub(crate) fn action(action: Option<&String>) -> String {
    action.map_or_else(|| NO_ACTION.to_owned(), |action| shown(action))
}

/// A heading, a table and what was left out of it. The last cells are cut to what there is room
/// for.
pub(crate) fn section<const COLUMNS: usize>(
    text: &mut String,
    heading: &str,
    header: [&str; COLUMNS],
    rows: impl ExactSizeIterator<Item = [String; COLUMNS]>,
    limit: usize,
) {
    let rows = rows.map(|mut cells| {
        let last = cells.last_mut().map(std::mem::take).unwrap_or_default();
        (cells, LastCell::Text(last))
    });
    section_of_names(text, heading, header, rows, limit);
}

/// The same, with rows whose last cells are empty and stand beside them.
pub(crate) fn section_of_names<'a, const COLUMNS: usize>(
    text: &mut String,
    heading: &str,
    header: [&str; COLUMNS],
    rows: impl ExactSizeIterator<Item = ([String; COLUMNS], LastCell<'a>)>,
    limit: usize,
) {
    let count = rows.len();
    if count == 0 {
        return;
    }
    let rows: Vec<_> = rows.take(limit).collect();
    let mut others = Table::new(header);
    rows.iter().for_each(|(cells, _)| others.row(cells.clone()));
    let room = others.room();
    let mut table = Table::new(header);
    for (mut cells, last) in rows {
        if let Some(cell) = cells.last_mut() {
            *cell = last.fit(room);
        }
        table.row(cells);
    }
    // Writing into a string cannot fail, here and below.
    let _ = write!(text, "\n{heading}\n{}", table.paint());
    if count > limit {
        let _ = writeln!(text, "… and {} more", grouped((count - limit) as u64));
    }
}

/// A name in a column before the last one.
pub(crate) fn middle(name: &str) -> String {
    shown_within(name, MIDDLE)
}

impl Analysis {
    /// Tables for a console, of so many rows each.
    pub fn text(&self, limit: usize) -> String {
        let mut text = self.head();
        text.push_str(&self.findings_text());
        self.steps_table(&mut text, limit);
        let all = self.steps.iter().map(|step| step.duration_ns).sum();
        let parts = self.all_steps.iter().map(|part| part_row(part, all));
        let of = if self.has_steps() { "steps" } else { "the trace" };
        let header = ["Time", "Share", "What", "Action"];
        let heading = format!("What the time of {of} went into{}", self.thread_of_parts());
        section(&mut text, &heading, header, parts, limit);
        self.outliers_text(&mut text);
        self.path_table(&mut text, limit, all);
        self.thread_tables(&mut text, limit);
        for device in &self.devices {
            device::write(&mut text, device, limit);
        }
        let _ = write!(text, "{}", notes(&self.notes));
        text
    }

    /// The first findings, a line for each; without any the names of the rules that found nothing.
    fn findings_text(&self) -> String {
        if self.findings.is_empty() && self.checked_rules.is_empty() {
            return String::new();
        }
        if self.findings.is_empty() {
            return format!("\nNothing was found by {}.\n", self.checked_rules.join(", "));
        }
        let lines: String = self.findings.iter().take(FINDINGS).map(line).collect();
        format!("\n{lines}")
    }

    fn head(&self) -> String {
        let stage = self.stage.as_ref().map_or_else(String::new, |stage| format!("{stage}, "));
        let steps = match self.has_steps() {
            true => format!("{} steps", self.steps.len()),
            false => "no steps".to_owned(),
        };
        format!(
            "Trace: {stage}rank {} of {}, {steps}, {} slices, {}\n",
            self.rank,
            self.world_size,
            grouped(self.slices),
            time(self.trace_ns)
        )
    }

    fn steps_table(&self, text: &mut String, limit: usize) {
        let rows = self.steps.iter().map(|step| {
            let device: i64 = step
                .parts
                .iter()
                .filter(|part| part.activity == crate::answers::Activity::WaitingForDevice)
                .map(|part| part.duration_ns)
                .sum();
            [
                time(step.duration_ns),
                time(step.waiting_for_data_ns),
                time(device),
                middle(&step.thread),
                step.number.map_or_else(|| "all of it".to_owned(), |number| number.to_string()),
            ]
        });
        let header = ["Time", "Waiting for data", "Waiting for device", "Thread", "Step"];
        section(text, "Steps", header, rows, limit);
    }

    fn outliers_text(&self, text: &mut String) {
        if self.outliers.is_empty() {
            return;
        }
        let _ = writeln!(text, "\nSteps that took much longer than the others");
        for step in &self.outliers {
            let (took, usual) = (time(step.duration_ns), time(step.median_ns));
            let _ = writeln!(text, "Step {}: {took}, where others take {usual}", step.number);
            for part in &step.differences {
                let more = time(part.duration_ns - part.median_ns);
                let name = action(part.action.as_ref());
                let _ = writeln!(text, "    {more} more in {name}, {}", part.activity.text());
            }
        }
    }

    fn path_table(&self, text: &mut String, limit: usize, all: i64) {
        let parts = self.path_parts();
        let rows = parts.iter().map(|part| {
            let cells = [
                time(part.duration_ns),
                part_of(part.duration_ns, all),
                grouped(part.count),
                part.kind.text().to_owned(),
                String::new(),
            ];
            let name = part.name.as_deref().unwrap_or("-");
            let last = match part.kind.names_device_work() {
                true => LastCell::Kernel(name),
                false => LastCell::Text(name.to_owned()),
            };
            (cells, last)
        });
        let header = ["Time", "Share", "Count", "What", "Name"];
        let of = if self.has_steps() { "all steps" } else { "the trace" };
        section_of_names(text, &format!("Critical path of {of}"), header, rows, limit);
    }

    fn thread_tables(&self, text: &mut String, limit: usize) {
        let threads = self.threads.iter().map(|thread| {
            let of = |part| part_of(part, thread.window_ns);
            [
                of(thread.busy_ns),
                of(thread.waiting_for_device_ns),
                of(thread.waiting_for_data_ns),
                of(thread.idle_ns),
                shown(&thread.thread),
            ]
        });
        let header = ["Busy", "Waiting for device", "Waiting for data", "Idle", "Thread"];
        section(text, "Threads", header, threads, limit);
        let has_device = !self.devices.is_empty();
        let device = |time_ns| if has_device { time(time_ns) } else { "-".to_owned() };
        let names = self.names.iter().map(|row| {
            [
                time(row.self_ns),
                time(row.total_ns),
                device(row.device_ns),
                grouped(row.calls),
                row.category_text().to_owned(),
                shown(&row.name),
            ]
        });
        let header = ["Self", "Total", "Device", "Calls", "Category", "Name"];
        section(text, "By name", header, names, limit);
        let modules = self.modules.iter().map(|row| {
            [
                time(row.self_ns),
                time(row.backward_ns),
                time(row.total_ns),
                device(row.device_ns),
                grouped(row.calls),
                shown(&row.module),
            ]
        });
        let header = ["Self", "Of it backward", "Total", "Device", "Calls", "Module"];
        section(text, "By module", header, modules, limit);
    }
}

fn part_row(part: &StepPart, all: i64) -> [String; 4] {
    [
        time(part.duration_ns),
        part_of(part.duration_ns, all),
        part.activity.text().to_owned(),
        action(part.action.as_ref()),
    ]
}
