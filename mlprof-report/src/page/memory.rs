//! What was allocated, and who had it.

use std::fmt::Write;

use super::Part;
use super::tensor::word;
use crate::memory::{MemoryReport, MemoryTree, PathMemory};
use crate::table::{Cell, Table, Unit, bytes, count, table, words};

/// Everything that a report of memory has.
pub(super) fn write(html: &mut String, report: &MemoryReport, part: &Part) {
    let process = &report.process;
    let size = |bytes: i64| Unit::Bytes.write(bytes as f64);
    part.heading(html, "memory", "Memory");
    let _ = write!(
        html,
        "<dl class=facts><div><dt>Peak<dd>{}</div><div><dt>Alive at the start<dd>{}</div><div><dt>Alive at the end<dd>{}\
         </div><div><dt>Allocated<dd>{} in {} blocks</div><div><dt>Freed<dd>{} in {} blocks</div></dl>",
        size(process.peak_bytes),
        size(process.live_at_start_bytes),
        size(process.live_bytes),
        size(process.total.allocated_bytes as i64),
        Unit::Count.write(process.total.allocated_blocks as f64),
        size(process.total.freed_bytes as i64),
        Unit::Count.write(process.total.freed_blocks as f64),
    );
    let table = table!("What actions allocated and freed", &report.actions, |row| {
        words("Action", "What ran").key() => row.label(),
        words("Kind", "What it stands for").key() => word(&row.kind),
        count("Calls", "How many calls have ended").sum() => row.calls,
        bytes("Allocated", "With the actions inside").sum().bar() => row.total.allocated_bytes,
        bytes("Self allocated", "Without the actions inside: these add up").sum().bar() =>
            row.own.allocated_bytes,
        count("Self blocks", "How many blocks that were").sum() => row.own.allocated_blocks,
        bytes("Left behind", "Allocated less freed").sum() => row.total.net_bytes(),
        bytes("Peak of a call", "The most above what there was at its start").bar() =>
            row.peak_bytes,
    });
    table.sorted_by("Allocated").write(html, part.limits);
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
        words("Path", "Actions, each inside the one above"),
        bytes("Bytes", "With the paths inside").bar(),
        bytes("Self", "Without the paths inside").bar(),
        count("Blocks", "With the paths inside"),
    ])
    .caption("Call paths, the most bytes first")
    .tree();
    let mut left = part.limits.rows;
    add(&mut table, &tree.blocks, 0, &mut left);
    part.heading(html, id, title);
    part.icicle(html, id, "The width is bytes");
    table.write(html, part.limits);
}

fn add(table: &mut Table, path: &PathMemory, depth: usize, left: &mut usize) {
    if *left == 0 {
        return;
    }
    *left -= 1;
    let name = match depth {
        0 => Cell::Markup("<i>all</i>".to_owned()),
        _ => path.action.as_str().into(),
    };
    table.row_at(depth, [name, path.bytes.into(), path.own_bytes.into(), path.blocks.into()]);
    path.inside.iter().for_each(|inner| add(table, inner, depth + 1, left));
}
