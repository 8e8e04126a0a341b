//! HTML of a Memory report: allocations, and the owners of live memory.

use std::fmt::Write;

use super::Part;
use crate::memory::{MemoryReport, MemoryTree, actions_table, tree_table};
use crate::table::Unit;

/// Writes all parts of a Memory report.
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
    actions_table(&report.actions.iter().collect::<Vec<_>>()).write(html, part.limits);
    for (id, title, tree) in [
        ("peak", "Holders of memory at the peak", &report.peak),
        ("alive", "Memory that is still alive", &report.alive),
        ("copies", "Large copies", &report.copies),
    ] {
        write_tree(html, id, title, tree, part);
    }
}

fn write_tree(html: &mut String, id: &str, title: &str, tree: &MemoryTree, part: &Part) {
    if tree.blocks.blocks == 0 {
        return;
    }
    part.heading(html, id, title);
    part.icicle(html, id, "The width is bytes");
    let blocks = if id == "copies" { ["Copies", "Self copies"] } else { ["Blocks", "Self blocks"] };
    tree_table(tree, part.limits.rows, blocks).write(html, part.limits);
}
