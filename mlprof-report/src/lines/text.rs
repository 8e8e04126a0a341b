//! Line report with hits and times, in the format of Python's `line_profiler` (version 5, byte for
//! byte).
//!
//! The output differs from `line_profiler` in these points:
//!
//! - Functions are ordered by file and line, unless sorted by time.
//! - Control characters in names are escaped.
//! - Notes follow at the end, if there are any.
//! - If the source is missing, at most [`MOST_BLANK_LINES`] lines without numbers are listed. A
//!   line reports the number of omitted lines.
//!
//! Times are whole nanoseconds, as in `line_profiler`.

use std::fmt::Write;

use crate::label;
use crate::lines::{FunctionLines, LinesReport};
use crate::number::{general, grouped};
use mlprof_events::OrderExt;

/// Options for printing the line report.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinesOptions {
    /// Unit of the printed times, in seconds: 1e-6 for microseconds. Corresponds to kernprof's
    /// `--unit`.
    pub unit: f64,
    /// Omits functions that never ran. Corresponds to kernprof's `--skip-zero`.
    pub skip_zero: bool,
    /// Orders functions by total time, longest last, instead of by file and line. Corresponds to
    /// kernprof's `--sort`.
    pub sort: bool,
    /// Adds one line per function at the end. Corresponds to kernprof's `--summarize`.
    pub summarize: bool,
}

impl Default for LinesOptions {
    fn default() -> Self {
        Self { unit: 1e-6, skip_zero: false, sort: false, summarize: false }
    }
}

/// Maximum number of consecutive lines that a table lists without numbers and without text.
pub const MOST_BLANK_LINES: u32 = 500;

/// Time unit of `line_profiler`, in seconds.
const NANOSECOND: f64 = 1e-9;

/// Renders the timer unit and a table per function.
pub fn paint(report: &LinesReport, options: &LinesOptions) -> String {
    // An invalid unit is replaced by the default.
    let unit = if options.unit.is_normal() && options.unit > 0.0 { options.unit } else { 1e-6 };
    let mut text = format!("Timer unit: {} s\n\n", general(unit, 6));
    let mut functions: Vec<_> = report
        .functions
        .iter()
        .filter(|function| !options.skip_zero || !function.lines.is_empty())
        .map(|function| (function, total(function)))
        .collect();
    if options.sort {
        functions.order_by(|(_, one), (_, other)| one.total_cmp(other));
    }
    for (function, total) in &functions {
        paint_function(&mut text, function, *total, unit);
    }
    if options.summarize {
        // As in `line_profiler`, the summary omits functions with zero time.
        let shown = functions.iter().filter(|(_, total)| !options.skip_zero || *total > 0.0);
        for (function, total) in shown {
            let (file, name) = (label::one_line(&function.file), label::one_line(&function.name));
            let seconds = total * NANOSECOND;
            let _ =
                writeln!(text, "{seconds:6.2} seconds - {file}:{} - {name}", function.first_line);
        }
    }
    crate::simple::lightning::append_remarks(&mut text, &[], &report.header.notes);
    text
}

fn nanoseconds(seconds: f64) -> f64 {
    (seconds * 1e9).round()
}

/// Returns the time of all lines in nanoseconds.
fn total(function: &FunctionLines) -> f64 {
    function.lines.iter().fold(0.0, |sum, line| sum + nanoseconds(line.seconds))
}

fn paint_function(text: &mut String, function: &FunctionLines, total: f64, unit: f64) {
    let (file, name) = (label::one_line(&function.file), label::one_line(&function.name));
    let _ = writeln!(text, "Total time: {} s", general(total * NANOSECOND, 6));
    if function.source.is_some() {
        let _ = writeln!(text, "File: {file}\nFunction: {name} at line {}\n", function.first_line);
    } else {
        let _ = writeln!(
            text,
            "\nCould not find file {file}\nAre you sure you are running this program from the same \
             directory\nthat you ran the profiler from?\nContinuing without the function's \
             contents.\n"
        );
    }
    let rows: Vec<_> = function.lines.iter().map(|line| cells(line, total, unit)).collect();
    let mut widths = [9, 12, 8, 8];
    for (_, cells) in &rows {
        // The last column keeps its width.
        for (width, cell) in widths.iter_mut().zip(cells).take(3) {
            *width = (*width).max(cell.len());
        }
    }
    let header = ["Hits", "Time", "Per Hit", "% Time"];
    let header = row("Line #", header, widths, "Line Contents");
    let _ = writeln!(text, "{header}\n{}", "=".repeat(header.len()));
    let mut rows = rows.into_iter().peekable();
    let mut listed = contents(function);
    for (number, content) in &mut listed {
        let cells = rows.next_if(|(line, _)| *line == number).map(|(_, cells)| cells);
        let cells = cells.unwrap_or_default();
        let cells = [&*cells[0], &*cells[1], &*cells[2], &*cells[3]];
        let _ = writeln!(text, "{}", row(&number.to_string(), cells, widths, content));
    }
    append_unlisted(text, listed.left_out, rows.count());
    text.push('\n');
}

/// Appends lines that count the omitted lines of a table.
pub(crate) fn append_unlisted(text: &mut String, blank: u64, with_numbers: usize) {
    if blank > 0 {
        let _ = writeln!(text, "{} lines without numbers are not listed.", grouped(blank));
    }
    if with_numbers > 0 {
        let count = grouped(with_numbers as u64);
        let _ = writeln!(text, "{count} lines with numbers are outside the function's text.");
    }
}

/// Returns the lines of the function. If the source is missing, the lines are empty and end at the
/// last line with numbers.
pub(crate) fn contents(function: &FunctionLines) -> Contents<'_> {
    let last_run = function.lines.last().map_or(function.first_line, |line| line.line);
    let first = u64::from(function.first_line);
    let end = match &function.source {
        Some(source) => first + source.len() as u64,
        None => u64::from(last_run).max(first) + 1,
    };
    // Line numbers are limited to 32 bits.
    let end = end.min(1 << u32::BITS);
    Contents { function, next: first, end, place: 0, blank: 0, left_out: 0 }
}

/// Iterator over the lines that a table lists: their numbers and their text.
pub(crate) struct Contents<'function> {
    function: &'function FunctionLines,
    next: u64,
    /// Line number after the last line.
    end: u64,
    /// Index of the function's next line with numbers.
    place: usize,
    /// Count of consecutive lines without numbers and text before the next line.
    blank: u32,
    /// Count of such lines that are not listed.
    pub(crate) left_out: u64,
}

impl Contents<'_> {
    /// Returns the line number of the next line with numbers, or the end.
    fn next_run(&mut self) -> u64 {
        let lines = &self.function.lines;
        while lines.get(self.place).is_some_and(|line| u64::from(line.line) < self.next) {
            self.place += 1;
        }
        lines.get(self.place).map_or(self.end, |line| u64::from(line.line).min(self.end))
    }
}

impl<'function> Iterator for Contents<'function> {
    type Item = (u32, &'function str);

    fn next(&mut self) -> Option<Self::Item> {
        let next_run = self.next_run();
        let source = self.function.source.as_ref();
        if source.is_none() && self.blank == MOST_BLANK_LINES {
            self.left_out += next_run - self.next;
            self.next = next_run;
        }
        if self.next >= self.end {
            return None;
        }
        self.blank = if self.next == next_run { 0 } else { self.blank + 1 };
        let place = (self.next - u64::from(self.function.first_line)) as usize;
        let text = source.and_then(|source| source.get(place)).map_or("", String::as_str);
        let number = self.next as u32; // less than `end`, so it fits
        self.next += 1;
        Some((number, text))
    }
}

fn row(line: &str, cells: [&str; 4], widths: [usize; 4], content: &str) -> String {
    let [hits, time, per_hit, percent] = cells;
    let [hits_width, time_width, per_hit_width, percent_width] = widths;
    format!(
        "{line:>6} {hits:>hits_width$} {time:>time_width$} {per_hit:>per_hit_width$} \
         {percent:>percent_width$}  {content}"
    )
}

/// Returns the line number and the cells: hits, time, time per hit and share.
fn cells(line: &crate::lines::LineStatistics, total: f64, unit: f64) -> (u32, [String; 4]) {
    let (time, scalar) = (nanoseconds(line.seconds), NANOSECOND / unit);
    let fitting = |value: f64, width: usize| {
        let fixed = format!("{value:5.1}");
        if fixed.len() > width { format!("{:>5}", general(value, 3)) } else { fixed }
    };
    let hits = line.hits.to_string();
    let hits = if hits.len() > 9 { general(line.hits as f64, 6) } else { hits };
    let share = if total == 0.0 { String::new() } else { format!("{:5.1}", 100.0 * time / total) };
    let per_hit = time * scalar / line.hits as f64;
    (line.line, [hits, fitting(time * scalar, 12), fitting(per_hit, 8), share])
}
