//! What was allocated, and who had it.

use std::fmt::Write;

use super::Part;
use super::table::{Column, Merge, Table, Unit};
use super::tensor::word;
use super::text;
use crate::memory::{MemoryReport, MemoryTree, PathMemory};

/// Everything that a report of memory has.
pub(super) fn write(html: &mut String, report: &MemoryReport, part: &Part) {
    let process = &report.process;
    let bytes = |bytes: i64| Unit::Bytes.write(bytes as f64);
    part.heading(html, "memory", "Memory");
    let _ = write!(
        html,
        "<dl class=facts><div><dt>Peak<dd>{}</div><div><dt>Alive at the start<dd>{}</div><div><dt>Alive at the end<dd>{}\
         </div><div><dt>Allocated<dd>{} in {} blocks</div><div><dt>Freed<dd>{} in {} blocks</div></dl>",
        bytes(process.peak_bytes),
        bytes(process.live_at_start_bytes),
        bytes(process.live_bytes),
        bytes(process.total.allocated_bytes as i64),
        Unit::Count.write(process.total.allocated_blocks as f64),
        bytes(process.total.freed_bytes as i64),
        Unit::Count.write(process.total.freed_blocks as f64),
    );
    let mut table = Table::new([
        Column::new("Action", Unit::Text, "What ran").merge(Merge::Key),
        Column::new("Kind", Unit::Text, "What it stands for").merge(Merge::Key),
        Column::new("Calls", Unit::Count, "How many calls have ended").merge(Merge::Sum),
        Column::new("Allocated", Unit::Bytes, "With the actions inside").merge(Merge::Sum).bar(),
        Column::new("Self allocated", Unit::Bytes, "Without the actions inside: these add up")
            .merge(Merge::Sum)
            .bar(),
        Column::new("Self blocks", Unit::Count, "How many blocks that were").merge(Merge::Sum),
        Column::new("Left behind", Unit::Bytes, "Allocated less freed").merge(Merge::Sum),
        Column::new("Peak of a call", Unit::Bytes, "The most above what there was at its start")
            .bar(),
    ])
    .sorted_by(3);
    for row in report.actions.iter().take(part.limits.rows) {
        table.row([
            text::name(&row.label(), part.limits.name).into(),
            word(&row.kind).into(),
            row.calls.into(),
            row.total.allocated_bytes.into(),
            row.own.allocated_bytes.into(),
            row.own.allocated_blocks.into(),
            row.total.net_bytes().into(),
            row.peak_bytes.into(),
        ]);
    }
    table.write(html, "What actions allocated and freed");
    for (id, title, tree) in [
        ("peak", "Who had what at the peak", &report.peak),
        ("alive", "What is still alive", &report.alive),
        ("copies", "Large copies", &report.copies),
    ] {
        write_tree(html, id, title, tree, part);
    }
}

fn write_tree(html: &mut String, id: &str, title: &str, tree: &MemoryTree, part: &Part) {
    if tree.blocks.blocks == 0 {
        return;
    }
    let mut table = Table::new([
        Column::new("Path", Unit::Text, "Actions, each inside the one above"),
        Column::new("Bytes", Unit::Bytes, "With the paths inside").bar(),
        Column::new("Self", Unit::Bytes, "Without the paths inside").bar(),
        Column::new("Blocks", Unit::Count, "With the paths inside"),
    ])
    .tree();
    let mut left = part.limits.rows;
    add(&mut table, &tree.blocks, 0, &mut left, part);
    part.heading(html, id, title);
    part.icicle(html, id, "The width is bytes");
    table.write(html, "Call paths, the most bytes first");
}

fn add(table: &mut Table, path: &PathMemory, depth: usize, left: &mut usize, part: &Part) {
    if *left == 0 {
        return;
    }
    *left -= 1;
    let name = match depth {
        0 => "<i>all</i>".to_owned(),
        _ => text::name(&path.action, part.limits.name),
    };
    let (bytes, own, blocks) = (path.bytes.into(), path.own_bytes.into(), path.blocks.into());
    table.row_at(depth, [name.into(), bytes, own, blocks]);
    path.inside.iter().for_each(|inner| add(table, inner, depth + 1, left, part));
}
