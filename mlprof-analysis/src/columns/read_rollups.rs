//! Conversion of tables to sums per step.

use super::ColumnsError;
use super::file;
use super::info::{info, natural};
use super::paths::TraceFiles;
use super::read::read;
use super::schema::{MODULES, OPS, SLICES, STAGES, STEPS};
use crate::rollups::{ModuleSum, OpSum, Rollups, StageSum, StepSum};
use crate::trace::{Category, Names};

/// Reads the sums of a trace that was found by [`find_rollups`](super::find_rollups). Slices are
/// read only for tables of the first version, which had no module sums.
///
/// # Errors
///
/// Returns an error if a table cannot be read or contains no ops.
pub fn read_rollups(files: &TraceFiles) -> Result<Rollups, ColumnsError> {
    if !files.of(&MODULES).exists() && files.of(&SLICES).exists() {
        return Ok(Rollups::of(&read(files)?));
    }
    let mut names = Names::default();
    let (mut steps, mut stages) = (Vec::new(), Vec::new());
    let (mut ops, mut modules) = (Vec::new(), Vec::new());
    let columns = ["step", "ts", "dur", "waiting_for_data"];
    file::read(&files.of(&STEPS), &STEPS, &columns, |rows| {
        let [number, ts, dur, waiting] = columns.map(|name| rows.integer(name));
        steps.extend((0..rows.count).map(|row| StepSum {
            number: natural(number(row)),
            start: ts(row),
            duration: dur(row),
            waiting_for_data: waiting(row),
        }));
    })?;
    let columns = ["step", "ord", "dur"];
    file::read(&files.of(&STAGES), &STAGES, &[&columns[..], &["action"]].concat(), |rows| {
        let [step, order, dur] = columns.map(|name| rows.integer(name));
        let action = rows.text("action");
        stages.extend((0..rows.count).map(|row| StageSum {
            step: natural(step(row)),
            order: natural(order(row)),
            action: names.intern(action(row).unwrap_or_default()),
            duration: dur(row),
        }));
    })?;
    let columns = ["n", "sum", "self", "min", "max", "device"];
    let wanted = [&columns[..], &["step", "category", "name"]].concat();
    file::read(&files.of(&OPS), &OPS, &wanted, |rows| {
        let [count, total, own, min, max, device] = columns.map(|name| rows.integer(name));
        let (step, category, name) = (rows.maybe("step"), rows.text("category"), rows.text("name"));
        ops.extend((0..rows.count).map(|row| OpSum {
            step: step(row).map(natural),
            category: Category::of(category(row).unwrap_or_default()),
            name: names.intern(name(row).unwrap_or_default()),
            count: count(row),
            total: total(row),
            own: own(row),
            min: min(row),
            max: max(row),
            device: device(row),
        }));
    })?;
    let columns = ["n", "self", "device"];
    let wanted = [&columns[..], &["step", "module"]].concat();
    file::read(&files.of(&MODULES), &MODULES, &wanted, |rows| {
        let [calls, own, device] = columns.map(|name| rows.integer(name));
        let (step, module) = (rows.maybe("step"), rows.text("module"));
        modules.extend((0..rows.count).map(|row| ModuleSum {
            step: step(row).map(natural),
            module: names.intern(module(row).unwrap_or_default()),
            calls: calls(row),
            own: own(row),
            device: device(row),
        }));
    })?;
    if ops.is_empty() {
        return Err(ColumnsError::Empty { path: files.of(&OPS) });
    }
    Ok(Rollups { info: info(files)?, names, steps, stages, ops, modules })
}
