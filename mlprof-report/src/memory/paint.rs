//! The report as text.

use std::fmt::Write;

use super::{ActionMemory, MemoryReport, MemoryTree, PathMemory};
use crate::label;
use crate::number::{bytes, duration, grouped, share};
use crate::selection::LEAST_SHARE_ON_CONSOLE;
use crate::simple::lightning::{append_remarks, title};
use crate::table::Grid;

/// Rows of a tree that are shown; JSON has them all.
const PATHS_SHOWN: usize = 40;

/// The report. Rows stand in the order of what they allocated.
pub fn paint(report: &MemoryReport) -> String {
    paint_rows_from(report, 0.0)
}

/// The report for the console: without the actions that allocated less than 0.1 % of all bytes and held less than
/// 0.1 % of the peak, which a line counts.
pub fn paint_on_console(report: &MemoryReport) -> String {
    paint_rows_from(report, LEAST_SHARE_ON_CONSOLE)
}

fn paint_rows_from(report: &MemoryReport, least_share: f64) -> String {
    let mut text = format!("{}\n\n", title(&report.header));
    paint_process(&mut text, report);
    if report.actions.is_empty() {
        text.push_str("\nNo action has ended.\n");
    } else {
        let all = if report.threads.len() > 1 { "all threads, " } else { "" };
        let _ = writeln!(text, "\nActions, {all}most allocated first");
        let shown = from_share(report, least_share);
        paint_actions(&mut text, &shown);
        if let Some(left_out @ 1..) = report.actions.len().checked_sub(shown.len()) {
            let _ = writeln!(
                text,
                "{} more {} below {} % of the bytes allocated and of the peak; .all_rows(true) or \
                 MLPROF_ALL_ROWS=1 prints all rows, and report files have them.",
                grouped(left_out as u64),
                if left_out == 1 { "row is" } else { "rows are each" },
                100.0 * least_share,
            );
        }
        text.push_str(
            "Net: allocated and not freed; below 0 where blocks from before were freed. Peak: the \
             most that a call's\nthread had above what it had at the call's start. Self: without \
             the actions inside.\n",
        );
    }
    text.push_str("\nAlive when the process had most\n");
    paint_tree(&mut text, &report.peak);
    text.push_str("\nStill alive, of what was allocated since the beginning\n");
    paint_tree(&mut text, &report.alive);
    if report.copies.blocks.blocks > 0 {
        text.push_str("\nLarge copies\n");
        paint_rows(&mut text, &report.copies, "Copies");
        let least = bytes(report.copies.least_block_bytes);
        let _ = writeln!(text, "Copies of {least} and more, by the actions that made them.");
    }
    if !report.open.is_empty() || !report.header.notes.is_empty() {
        text.push('\n');
        append_remarks(&mut text, &report.open, &report.header.notes);
    }
    text
}

/// Writing into a string cannot fail.
fn paint_process(text: &mut String, report: &MemoryReport) {
    let process = &report.process;
    let _ = writeln!(
        text,
        "Wall time   {}, of which measuring took {}, estimated",
        duration(report.header.wall_seconds),
        duration(report.header.overhead.total_seconds()),
    );
    let total = &process.total;
    let _ = writeln!(
        text,
        "Allocated   {} in {} blocks, freed {} in {}",
        bytes(total.allocated_bytes),
        grouped(total.allocated_blocks),
        bytes(total.freed_bytes),
        grouped(total.freed_blocks),
    );
    let _ = writeln!(
        text,
        "Alive       {} at most, {} at the end, {} at the beginning (± {} per other thread)",
        signed_bytes(process.peak_bytes),
        signed_bytes(process.live_bytes),
        signed_bytes(process.live_at_start_bytes),
        bytes(process.uncertainty_bytes_per_thread),
    );
}

/// The actions that allocated at least this share of all bytes, or held it of the peak; all if none
/// did.
fn from_share(report: &MemoryReport, least_share: f64) -> Vec<&ActionMemory> {
    let process = &report.process;
    let allocated = least_share * process.total.allocated_bytes as f64;
    let peak = least_share * process.peak_bytes as f64;
    let is_large = |row: &&ActionMemory| {
        row.total.allocated_bytes as f64 >= allocated || row.peak_bytes as f64 >= peak
    };
    let large: Vec<_> = report.actions.iter().filter(is_large).collect();
    if large.is_empty() { report.actions.iter().collect() } else { large }
}

fn paint_actions(text: &mut String, actions: &[&ActionMemory]) {
    let mut table = Grid::new([
        "Calls",
        "Allocated",
        "Blocks",
        "Freed",
        "Net",
        "Net blocks",
        "Peak",
        "Self allocated",
        "Self blocks",
        "Self net",
        "Action",
    ]);
    for row in actions {
        table.row([
            grouped(row.calls),
            bytes(row.total.allocated_bytes),
            grouped(row.total.allocated_blocks),
            bytes(row.total.freed_bytes),
            signed_bytes(row.total.net_bytes()),
            signed(row.total.net_blocks()),
            bytes(row.peak_bytes),
            bytes(row.own.allocated_bytes),
            grouped(row.own.allocated_blocks),
            signed_bytes(row.own.net_bytes()),
            label::shown(&row.label()),
        ]);
    }
    text.push_str(&table.paint());
}

fn paint_tree(text: &mut String, tree: &MemoryTree) {
    let least = bytes(tree.least_block_bytes);
    if tree.blocks.blocks == 0 {
        let _ = writeln!(text, "No blocks of {least} and more.");
        return;
    }
    paint_rows(text, tree, "Blocks");
    let _ = match tree.process_bytes {
        Some(all) => writeln!(
            text,
            "Blocks of {least} and more, by the actions that allocated them; with smaller ones the \
             process had {}.",
            signed_bytes(all)
        ),
        None => writeln!(text, "Blocks of {least} and more, by the actions that allocated them."),
    };
}

fn paint_rows(text: &mut String, tree: &MemoryTree, blocks: &str) {
    let own_blocks = format!("Self {}", blocks.to_lowercase());
    let header = ["Bytes", "Share", blocks, "Self bytes", &own_blocks, "Action"];
    let mut table = Grid::new(header);
    let mut rows = Vec::new();
    flatten(&tree.blocks, 0, &mut rows);
    for (depth, path) in rows.iter().take(PATHS_SHOWN) {
        let name = if *depth == 0 { "(all)".to_owned() } else { label::shown(&path.action) };
        table.row([
            bytes(path.bytes),
            share(path.bytes as f64, tree.blocks.bytes as f64),
            grouped(path.blocks),
            bytes(path.own_bytes),
            grouped(path.own_blocks),
            format!("{}{name}", "  ".repeat(*depth)),
        ]);
    }
    text.push_str(&table.paint());
    if rows.len() > PATHS_SHOWN {
        let more = grouped((rows.len() - PATHS_SHOWN) as u64);
        let _ = writeln!(text, "{more} more rows are only in the JSON report.");
    }
}

/// The tree from top to bottom. It is as deep as calls nest without recursion.
fn flatten<'tree>(
    path: &'tree PathMemory,
    depth: usize,
    rows: &mut Vec<(usize, &'tree PathMemory)>,
) {
    rows.push((depth, path));
    for inside in &path.inside {
        flatten(inside, depth + 1, rows);
    }
}

fn signed_bytes(count: i64) -> String {
    let sign = if count < 0 { "-" } else { "" };
    format!("{sign}{}", bytes(count.unsigned_abs()))
}

fn signed(count: i64) -> String {
    let sign = if count < 0 { "-" } else { "" };
    format!("{sign}{}", grouped(count.unsigned_abs()))
}
