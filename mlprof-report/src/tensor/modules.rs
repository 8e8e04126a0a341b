//! Modules of a model as an indented table.

use crate::table::{Table, bytes, count, large, seconds, table, words};
use crate::tensor::ModuleStatistics;

/// Maximum number of modules shown. JSON contains all modules.
const MODULES_SHOWN: usize = 200;

/// Returns the tree of modules with at most `most` rows.
pub(crate) fn modules_table(modules: &[ModuleStatistics], most: usize) -> Table {
    let mut rows = Vec::new();
    modules.iter().for_each(|module| flatten(module, 0, most, &mut rows));
    let depths: Vec<usize> = rows.iter().map(|(_, depth)| *depth).collect();
    let caption = "Modules, in the order of their first call";
    let table = table!(caption, rows, |(module, _)| {
        let total = &module.total;
        let flops = (total.flops() > 0).then(|| total.flops() as f64);
        let rate = total.flops_per_second();
        let with_unit = |number: Option<f64>, unit| {
            number.map_or_else(|| "-".to_owned(), |number| thousands(number, unit))
        };
        words("Module", "Last part of the module's path, and its type") => label(module),
        count("Calls", "Number of calls").no_zero() => module.calls,
        seconds("Forward", "Host time of forward, including the modules that it called").bar()
            .no_zero() => total.forward_seconds,
        seconds("Self fwd", "Host time of forward without called modules: these values add up").bar().no_zero() =>
            module.own.forward_seconds,
        seconds("Backward", "Host time of backward").bar().no_zero() => total.backward_seconds,
        seconds("Device", "Device time of forward and backward").bar().no_zero() => total.device_seconds(),
        bytes("Memory", "Bytes allocated in forward, on all devices").no_zero() => total.allocated_bytes,
        large("FLOPs", "").in_text() => with_unit(flops, "FLOPs"),
        large("FLOP/s", "").in_text() => with_unit(rate, "FLOP/s"),
        large("FLOPs", "Floating-point operations of forward and backward").on_page() => flops,
        large("FLOP/s", "FLOPs per device time if there is any, otherwise per host time").on_page() => rate,
    });
    table.depths(depths).tree().rest("{} more modules are only in the JSON report.")
}

/// Returns the tree as text, or an empty string without modules.
pub fn paint(modules: &[ModuleStatistics]) -> String {
    if modules.is_empty() {
        return String::new();
    }
    let table = modules_table(modules, usize::MAX);
    table.caption.clone()
        + "\n"
        + &table.text(MODULES_SHOWN)
        + "Forward: host time inside the module's calls, including other modules that it called; \
           Self fwd: without\nthose. Backward: ops that the framework ties to forward ops of these \
           calls. Memory: allocated in forward.\nFLOP/s: by device time if there is any, otherwise \
           by host time. The tree shows paths, the numbers follow\ncalls: a call from outside of a \
           module's path counts at its caller.\n"
}

fn flatten<'report>(
    module: &'report ModuleStatistics,
    depth: usize,
    most: usize,
    rows: &mut Vec<(&'report ModuleStatistics, usize)>,
) {
    if rows.len() < most {
        rows.push((module, depth));
        module.children.iter().for_each(|child| flatten(child, depth + 1, most, rows));
    }
}

fn label(module: &ModuleStatistics) -> String {
    match module.type_name.as_str() {
        kind if kind.is_empty() || kind == module.name => module.name.clone(),
        kind => format!("{}: {kind}", module.name),
    }
}

/// Formats a number with at least three significant digits and a unit: `12.3 GFLOPs`.
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
