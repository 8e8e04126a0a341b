//! Memory report as text.

use std::fmt::Write;

use super::{ActionMemory, MemoryReport, MemoryTree, PathMemory};
use crate::label::word;
use crate::number::{bytes, duration, grouped};
use crate::simple::lightning::{append_remarks, title};
use crate::simple::selection::ALL_ROWS_HINT;
use crate::table::{LEAST_SHARE, Table, bytes as sizes, count, share, small_rows, table, words};

/// Maximum number of rows shown of a tree. JSON contains all rows.
const PATHS_SHOWN: usize = 40;

/// Renders the report with its actions in descending order of allocated bytes.
pub fn paint(report: &MemoryReport) -> String {
    paint_rows_from(report, 0.0)
}

/// Renders the report for the console. One row stands for all actions that allocated less than
/// 0.1 % of all bytes and held less than 0.1 % of the peak.
pub fn paint_on_console(report: &MemoryReport) -> String {
    paint_rows_from(report, LEAST_SHARE)
}

fn paint_rows_from(report: &MemoryReport, least_share: f64) -> String {
    let mut text = format!("{}\n\n", title(&report.header));
    paint_process(&mut text, report);
    if report.actions.is_empty() {
        text.push_str("\nNo action has ended.\n");
    } else {
        let all = if report.threads.len() > 1 { "all threads, " } else { "" };
        let _ = writeln!(text, "\nActions, {all}most allocated first");
        let (rows, shown) = largest_first(report, least_share);
        let small = rows.len() - shown;
        text.push_str(&actions_table(&rows).rest(small_rows(small)).text(shown));
        if small > 0 {
            text.push_str(
                "A small row has less than 0.1 % of the allocated bytes and of the peak. ",
            );
            text.push_str(ALL_ROWS_HINT);
        }
        text.push_str(
            "Net: allocated minus freed bytes; below 0 if older blocks were freed. Peak: maximum \
             of the thread in a call,\nabove its level at the start of the call. Self: without the \
             actions inside.\n",
        );
    }
    text.push_str("\nAlive at the peak of the process\n");
    paint_tree(&mut text, &report.peak, least_share);
    text.push_str("\nStill alive, of the blocks allocated since the start\n");
    paint_tree(&mut text, &report.alive, least_share);
    if report.copies.blocks.blocks > 0 {
        text.push_str("\nLarge copies\n");
        let titles = ["Copies", "Self copies"];
        text.push_str(&tree_text(&report.copies, titles, least_share));
        let least = bytes(report.copies.least_block_bytes);
        let _ = writeln!(text, "Copies of {least} and more, by the actions that made them.");
    }
    if !report.open.is_empty() || !report.header.notes.is_empty() {
        text.push('\n');
        append_remarks(&mut text, &report.open, &report.header.notes);
    }
    text
}

/// Appends the memory of the process. Writing into a string cannot fail, so the results are
/// ignored.
fn paint_process(text: &mut String, report: &MemoryReport) {
    let process = &report.process;
    let _ = writeln!(
        text,
        "Wall time   {}, including an estimated {} for the measurement",
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
        "Alive       {} at most, {} at the end, {} at the start (± {} per other thread)",
        signed_bytes(process.peak_bytes),
        signed_bytes(process.live_bytes),
        signed_bytes(process.live_at_start_bytes),
        bytes(process.uncertainty_bytes_per_thread),
    );
}

/// Returns all actions, and how many of them to show. These come first: they allocated at least
/// this share of all bytes, or held at least this share of the peak. If none did, all are shown.
fn largest_first(report: &MemoryReport, least_share: f64) -> (Vec<&ActionMemory>, usize) {
    let process = &report.process;
    let allocated = least_share * process.total.allocated_bytes as f64;
    let peak = least_share * process.peak_bytes as f64;
    let is_large = |row: &&ActionMemory| {
        row.total.allocated_bytes as f64 >= allocated || row.peak_bytes as f64 >= peak
    };
    let (mut rows, small): (Vec<_>, Vec<_>) = report.actions.iter().partition(is_large);
    let shown = if rows.is_empty() { small.len() } else { rows.len() };
    rows.extend(small);
    (rows, shown)
}

/// Returns a table of the allocations and frees of actions.
pub(crate) fn actions_table(actions: &[&ActionMemory]) -> Table {
    let table = table!("Allocations by action", actions, |row| {
        words("Action", "Name of the action").key() => row.label(),
        words("Kind", "Kind of the action").key().on_page() => word(&row.kind),
        count("Calls", "Number of ended calls").sum().adds_up() => row.calls,
        sizes("Allocated", "Allocated bytes, including the actions inside").sum().bar() => row.total.allocated_bytes,
        count("Blocks", "").in_text() => row.total.allocated_blocks,
        sizes("Freed", "").in_text() => row.total.freed_bytes,
        sizes("Net", "Allocated minus freed bytes").sum() => row.total.net_bytes(),
        count("Net blocks", "").in_text() => row.total.net_blocks(),
        sizes("Peak", "Maximum of a call above the level at its start").bar() =>
            row.peak_bytes,
        sizes("Self allocated", "Allocated bytes without the actions inside: these values add up").sum().adds_up().bar() =>
            row.own.allocated_bytes,
        count("Self blocks", "Number of allocated blocks without the actions inside").sum().adds_up() => row.own.allocated_blocks,
        sizes("Self net", "").adds_up().in_text() => row.own.net_bytes(),
    });
    table.sorted_by("Allocated")
}

fn paint_tree(text: &mut String, tree: &MemoryTree, least_share: f64) {
    let least = bytes(tree.least_block_bytes);
    if tree.blocks.blocks == 0 {
        let _ = writeln!(text, "No blocks of {least} and more.");
        return;
    }
    text.push_str(&tree_text(tree, ["Blocks", "Self blocks"], least_share));
    let _ = match tree.process_bytes {
        Some(all) => writeln!(
            text,
            "Blocks of {least} and more, by the actions that allocated them; including smaller \
             blocks, the process had {}.",
            signed_bytes(all)
        ),
        None => writeln!(text, "Blocks of {least} and more, by the actions that allocated them."),
    };
}

fn tree_text(tree: &MemoryTree, titles: [&'static str; 2], least_share: f64) -> String {
    let table = tree_table(tree, usize::MAX, titles);
    let table = if least_share > 0.0 { table.fold_small("Share") } else { table };
    table.text(PATHS_SHOWN)
}

/// Returns a table of call paths with at most `most` rows. `titles` are the headings of the count
/// columns.
pub(crate) fn tree_table(tree: &MemoryTree, most: usize, titles: [&'static str; 2]) -> Table {
    let mut rows = Vec::new();
    flatten(&tree.blocks, 0, most, &mut rows);
    let depths: Vec<usize> = rows.iter().map(|(depth, _)| *depth).collect();
    let all = tree.blocks.bytes as f64;
    let table = table!("Call paths, most bytes first", rows, |(depth, path)| {
        words("Action", "Actions, each inside the one above") =>
            if depth == 0 { "(all)" } else { path.action.as_str() },
        sizes("Bytes", "Including the paths inside").bar() => path.bytes,
        share("Share", "Share of all paths") => (all > 0.0).then(|| path.bytes as f64 / all),
        count(titles[0], "Including the paths inside") => path.blocks,
        sizes("Self bytes", "Without the paths inside").adds_up().bar() => path.own_bytes,
        count(titles[1], "Without the paths inside").adds_up() => path.own_blocks,
    });
    table.depths(depths).tree().rest("{} more rows, only in the JSON report")
}

/// Adds the paths in pre-order. Recursive calls add no levels to the tree, which limits the depth
/// of this recursion.
fn flatten<'tree>(
    path: &'tree PathMemory,
    depth: usize,
    most: usize,
    rows: &mut Vec<(usize, &'tree PathMemory)>,
) {
    if rows.len() < most {
        rows.push((depth, path));
        path.inside.iter().for_each(|inside| flatten(inside, depth + 1, most, rows));
    }
}

fn signed_bytes(count: i64) -> String {
    let sign = if count < 0 { "-" } else { "" };
    format!("{sign}{}", bytes(count.unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::samples::remembered;
    use mlprof_events::{ActionKind, Tallies};

    fn path(action: &str, bytes: u64, inside: Vec<PathMemory>) -> PathMemory {
        let own_bytes = bytes - inside.iter().map(|path| path.bytes).sum::<u64>();
        let action = action.to_owned();
        PathMemory { action, bytes, blocks: 1, own_bytes, own_blocks: 1, inside }
    }

    #[test]
    fn the_console_has_one_row_for_small_rows_and_sums_what_adds_up() {
        let tallies = |allocated_bytes| Tallies { allocated_bytes, ..Tallies::default() };
        let mut report = remembered(tallies(1 << 20));
        report.process.peak_bytes = 1 << 20;
        let row = |action: &str, bytes| ActionMemory {
            action: action.to_owned(),
            kind: ActionKind::Action,
            sub_stage: None,
            calls: 3,
            total: tallies(bytes),
            own: tallies(bytes),
            peak_bytes: bytes,
        };
        report.actions = vec![row("small", 512), row("large", 1 << 19), row("smaller", 256)];
        let tiny = vec![path("a", 300, Vec::new()), path("b", 200, Vec::new())];
        report.peak.blocks = path("", 1 << 20, vec![path("step", 1 << 19, tiny)]);
        let text = paint_on_console(&report);
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let lines: Vec<_> = text.lines().map(words).collect();
        let small: Vec<_> = lines.iter().filter(|line| line.contains("below 0.1 %")).collect();
        assert_eq!(small[0], "6 768 B 0 768 B 2 rows below 0.1 %", "{text}");
        assert_eq!(small[1], "500 B 2 2 rows below 0.1 %", "{text}");
        assert!(!text.contains("smaller") && text.contains(ALL_ROWS_HINT), "{text}");
        let whole = paint(&report);
        assert!(whole.contains("smaller") && !whole.contains("below 0.1 %"), "{whole}");
    }
}
