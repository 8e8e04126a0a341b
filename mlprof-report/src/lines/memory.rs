//! Line report with memory, in the format of Python's `memory_profiler` (version 0.61, byte for
//! byte).
//!
//! The output differs from `memory_profiler` in these points:
//!
//! - *Mem usage* is the memory that the program has allocated and not freed. It is not the memory
//!   that the operating system gave to the process.
//! - *Increment* contains only the allocations of the thread itself.
//! - Functions that never ran and trailing blanks of the source are omitted.
//! - Notes follow at the end, if there are any.

use std::fmt::Write;

use crate::label;
use crate::lines::text::{append_unlisted, contents};
use crate::lines::{FunctionLines, LineMemory, LinesReport};

/// Renders a table per function with `precision` decimals (`memory_profiler` uses 1).
pub fn paint(report: &LinesReport, precision: usize) -> String {
    let mut text = String::new();
    for function in &report.functions {
        if function.entry_memory.is_some()
            || function.lines.iter().any(|line| line.memory.is_some())
        {
            paint_function(&mut text, function, precision);
        }
    }
    crate::simple::lightning::append_remarks(&mut text, &[], &report.header.notes);
    text
}

fn paint_function(text: &mut String, function: &FunctionLines, precision: usize) {
    let header = row("Line #", ["Mem usage", "Increment", "Occurrences"], "Line Contents");
    let file = label::one_line(&function.file);
    let _ = write!(text, "Filename: {file}\n\n{header}{}\n", "=".repeat(header.len() - 1));
    let mut lines = function.lines.iter().peekable();
    let mut listed = contents(function);
    for (number, content) in &mut listed {
        let line = lines.next_if(|line| line.line == number).and_then(|line| line.memory);
        // A function on one line has both entry memory and line memory. The line memory takes
        // precedence.
        let entry = function.entry_memory.filter(|_| number == function.first_line);
        let cells = line.or(entry).map(|memory| cells(&memory, precision)).unwrap_or_default();
        let cells = [&*cells[0], &*cells[1], &*cells[2]];
        text.push_str(&row(&number.to_string(), cells, content));
    }
    append_unlisted(text, listed.left_out, lines.filter(|line| line.memory.is_some()).count());
    text.push_str("\n\n");
}

fn row(line: &str, cells: [&str; 3], content: &str) -> String {
    let [usage, increment, occurrences] = cells;
    format!("{line:>6} {usage:>12} {increment:>12}  {occurrences:>10}   {content}\n")
}

fn cells(memory: &LineMemory, precision: usize) -> [String; 3] {
    let mebibytes = |bytes: i64| {
        let (value, width) = (bytes as f64 / f64::from(1 << 20), precision + 4);
        format!("{value:width$.precision$} MiB")
    };
    [mebibytes(memory.max_bytes), mebibytes(memory.increment_bytes), memory.occurrences.to_string()]
}
