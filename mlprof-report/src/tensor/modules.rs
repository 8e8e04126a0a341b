//! The modules of a model as an indented table.

use std::fmt::Write;

use crate::label;
use crate::number::{bytes, duration, grouped};
use crate::table::Grid;
use crate::tensor::{ModuleCost, ModuleStatistics};

/// So many modules are shown; JSON has them all.
const MODULES_SHOWN: usize = 200;

/// The tree; empty without modules.
pub fn paint(modules: &[ModuleStatistics]) -> String {
    if modules.is_empty() {
        return String::new();
    }
    let mut rows = Vec::new();
    modules.iter().for_each(|module| flatten(module, 0, &mut rows));
    let mut table = Grid::new([
        "Calls", "Forward", "Self fwd", "Backward", "Device", "Memory", "FLOPs", "FLOP/s", "Module",
    ]);
    for (module, depth) in rows.iter().take(MODULES_SHOWN) {
        table.row(cells(module, *depth));
    }
    let mut text = String::from("Modules, in the order in which they first ran\n");
    text.push_str(&table.paint());
    if rows.len() > MODULES_SHOWN {
        let more = grouped((rows.len() - MODULES_SHOWN) as u64);
        // Writing into a string cannot fail.
        let _ = writeln!(text, "{more} more modules are only in the JSON report.");
    }
    text.push_str(
        "Forward: host time of what ran inside the module's calls, whatever other modules it called; \
         Self fwd: without\nthose. Backward: of ops that the framework ties to forward ops that ran \
         there. Memory: allocated in forward.\nFLOP/s: by device time if there is any, else by host \
         time. The tree goes by paths, the numbers by calls: a module\nthat is called elsewhere than \
         its path says counts there.\n",
    );
    text
}

fn flatten<'report>(
    module: &'report ModuleStatistics,
    depth: usize,
    rows: &mut Vec<(&'report ModuleStatistics, usize)>,
) {
    rows.push((module, depth));
    module.children.iter().for_each(|child| flatten(child, depth + 1, rows));
}

fn cells(module: &ModuleStatistics, depth: usize) -> [String; 9] {
    let ModuleStatistics { total, own, .. } = module;
    let time = |seconds: f64| if seconds > 0.0 { duration(seconds) } else { "-".to_owned() };
    let name = label::shown(&module.name);
    let kind = match module.type_name.as_str() {
        "" => String::new(),
        kind if kind == module.name => String::new(),
        kind => format!(": {}", label::shown(kind)),
    };
    [
        if module.calls > 0 { grouped(module.calls) } else { "-".to_owned() },
        time(total.forward_seconds),
        time(own.forward_seconds),
        time(total.backward_seconds),
        time(total.device_seconds()),
        memory(total),
        total_flops(total),
        total.flops_per_second().map_or_else(|| "-".to_owned(), |rate| thousands(rate, "FLOP/s")),
        format!("{}{name}{kind}", "  ".repeat(depth)),
    ]
}

fn memory(cost: &ModuleCost) -> String {
    if cost.allocated_bytes > 0 { bytes(cost.allocated_bytes) } else { "-".to_owned() }
}

fn total_flops(cost: &ModuleCost) -> String {
    match cost.flops() {
        0 => "-".to_owned(),
        flops => thousands(flops as f64, "FLOPs"),
    }
}

/// Three digits or four and a unit: `12.3 GFLOPs`.
fn thousands(number: f64, unit: &str) -> String {
    const LETTERS: [&str; 6] = ["", "K", "M", "G", "T", "P"];
    let power = (number.log10() / 3.0).clamp(0.0, LETTERS.len() as f64 - 1.0) as usize;
    let number = number / 1e3_f64.powi(power as i32);
    let decimals = if number < 9.995 {
        2
    } else if number < 99.95 {
        1
    } else {
        0
    };
    format!("{number:.decimals$} {}{unit}", LETTERS[power])
}
