//! Table of ops in torch's format, byte for byte.
//!
//! The output differs from torch only in cases that torch does not have or handles inconsistently:
//!
//! - Control characters in names are escaped.
//! - The number of polls of an async function follows its name.
//! - Columns of module and phase are added if the rows are grouped by them.
//! - The achieved FLOP/s follow the FLOPs, and then bytes, the achieved rate, and FLOPs per byte.
//! - The source location is always below `Source Location`. With FLOPs, torch swaps these two
//!   columns.
//!
//! Shares of device time refer to all rows that ran on a device.

pub(crate) mod kernel_name;
mod number;
mod options;

use std::fmt::Write;

use self::number::{mean, memory, microseconds, scaled, share, time, unit};
pub use self::options::{SortKey, TableOptions, TimeUnit};
use super::{KeyAverage, KeyAverages, device_seconds};
use crate::label;
use mlprof_events::OrderExt;
use mlprof_events::TensorShape;

/// Default width of a column, in characters.
const WIDTH: usize = 12;
/// Width of the columns about bytes.
const NARROW: usize = 10;
const GAP: &str = "  ";

struct Column {
    title: String,
    width: usize,
    is_left: bool,
}

/// Columns of a table, and the totals for its shares.
struct Layout<'table> {
    options: &'table TableOptions,
    has_device_time: bool,
    has_memory: bool,
    has_device_memory: bool,
    has_modules: bool,
    has_phases: bool,
    has_shapes: bool,
    has_stacks: bool,
    /// Unit of FLOPs: its scale and its letter.
    flops: Option<(f64, &'static str)>,
    rate: Option<(f64, &'static str)>,
    has_moved_bytes: bool,
    has_intensity: bool,
    self_cpu: f64,
    self_device: f64,
    columns: Vec<Column>,
}

/// Renders the table, see [`KeyAverages::table`].
pub(super) fn paint(averages: &KeyAverages, options: &TableOptions) -> String {
    if averages.rows.is_empty() {
        return String::new();
    }
    let mut rows: Vec<&KeyAverage> = averages.rows.iter().collect();
    if let Some(key) = options.sort_by {
        rows.order_by(|one, other| key.of(other).total_cmp(&key.of(one)));
    }
    let layout = Layout::new(averages, &rows, options);
    let mut text = String::new();
    layout.paint_head(&mut text);
    rows.retain(|row| !options.top_level_events_only || row.is_top_level);
    for row in rows.iter().take(options.row_limit.unwrap_or(usize::MAX)) {
        layout.paint_row(&mut text, row);
    }
    layout.paint_rule(&mut text);
    // Writing into a string cannot fail.
    let _ = writeln!(text, "Self CPU time total: {}", time(layout.self_cpu, options.time_unit));
    if layout.has_device_time {
        let device = &averages.device_name;
        let _ = writeln!(
            text,
            "Self {device} time total: {}",
            time(layout.self_device, options.time_unit)
        );
    }
    text
}

fn widest(lengths: impl Iterator<Item = usize>, limit: Option<usize>) -> usize {
    (lengths.max().unwrap_or(0) + 4).min(limit.unwrap_or(usize::MAX))
}

impl<'table> Layout<'table> {
    fn new(averages: &KeyAverages, rows: &[&KeyAverage], options: &'table TableOptions) -> Self {
        let flops = rows.iter().map(|row| row.flops).filter(|flops| *flops > 0).min();
        let rates = rows.iter().filter_map(|row| row.flops_per_second());
        let rates = rates.filter(|_| options.flops_per_second);
        let mut layout = Self {
            options,
            has_device_time: averages.has_device_time(),
            has_memory: averages.has_memory,
            has_device_memory: rows.iter().any(|row| row.self_device_memory_bytes > 0),
            has_modules: averages.group_by.module,
            has_phases: averages.group_by.phase,
            has_shapes: rows
                .iter()
                .any(|row| row.input_shapes.as_ref().is_some_and(|shapes| !shapes.is_empty())),
            has_stacks: rows.iter().any(|row| !row.stack.is_empty()),
            flops: flops.map(|flops| unit(flops as f64)),
            rate: rates.min_by(f64::total_cmp).map(unit),
            has_moved_bytes: options.bytes && rows.iter().any(|row| row.moved_bytes > Some(0)),
            has_intensity: options.bytes && rows.iter().any(|row| row.flops_per_byte().is_some()),
            self_cpu: rows.iter().fold(0.0, |sum, row| sum + microseconds(row.self_cpu_seconds)),
            self_device: microseconds(device_seconds(rows.iter().copied())),
            columns: Vec::new(),
        };
        layout.add_columns(averages);
        layout
    }

    fn add(&mut self, title: impl Into<String>, width: usize, is_left: bool) {
        self.columns.push(Column { title: title.into(), width, is_left });
    }

    fn add_columns(&mut self, averages: &KeyAverages) {
        let (rows, options, device) = (&averages.rows, self.options, &averages.device_name);
        let names = rows
            .iter()
            .map(|row| label::shown(&row.name).chars().count() + label::polls(row.polls).len());
        self.add("Name", widest(names, options.max_name_column_width), false);
        let mut titles: Vec<String> =
            ["Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg"]
                .map(str::to_owned)
                .into();
        if self.has_device_time {
            titles.extend([
                format!("Self {device}"),
                format!("Self {device} %"),
                format!("{device} total"),
                format!("{device} time avg"),
            ]);
        }
        if self.has_memory {
            titles.extend(["CPU Mem", "Self CPU Mem"].map(str::to_owned));
            if self.has_device_memory {
                titles.extend([format!("{device} Mem"), format!("Self {device} Mem")]);
            }
        }
        titles.push("# of Calls".to_owned());
        titles.extend(self.has_phases.then(|| "Phase".to_owned()));
        for title in titles {
            self.add(title, WIDTH, false);
        }
        if self.has_modules {
            let modules = rows.iter().filter_map(|row| row.module.as_deref());
            let lengths = modules.map(|module| label::shown(module).chars().count());
            self.add("Module", widest(lengths, options.max_name_column_width).max(WIDTH), true);
        }
        if self.has_shapes {
            let lengths = rows.iter().map(|row| shapes_of(row).chars().count());
            self.add("Input Shapes", widest(lengths, options.max_shapes_column_width), false);
        }
        if self.has_stacks {
            let places = rows.iter().flat_map(|row| &row.stack);
            let lengths = places.map(|place| label::shown(place).chars().count());
            self.add("Source Location", widest(lengths, options.max_src_column_width), true);
        }
        if let Some((_, letter)) = self.flops {
            self.add(format!("Total {letter}FLOPs"), WIDTH, false);
        }
        if let Some((_, letter)) = self.rate {
            self.add(format!("{letter}FLOP/s"), WIDTH, false);
        }
        if self.has_moved_bytes {
            self.add("Bytes", NARROW, false);
            self.add("GB/s", NARROW, false);
        }
        if self.has_intensity {
            self.add("FLOP/byte", NARROW, false);
        }
    }

    fn paint_rule(&self, text: &mut String) {
        for column in &self.columns {
            let _ = write!(text, "{}{GAP}", "-".repeat(column.width));
        }
        text.push('\n');
    }

    fn paint_cells(&self, text: &mut String, cells: &[String]) {
        for (column, cell) in self.columns.iter().zip(cells) {
            let width = column.width;
            let _ = match column.is_left {
                true => write!(text, "{cell:<width$}{GAP}"),
                false => write!(text, "{cell:>width$}{GAP}"),
            };
        }
        text.push('\n');
    }

    fn paint_head(&self, text: &mut String) {
        let widths = self.columns.iter().map(|column| column.width + GAP.len());
        let double_rule = "=".repeat(widths.sum::<usize>().saturating_sub(GAP.len()));
        if let Some(header) = &self.options.header {
            let _ = writeln!(text, "{double_rule}\n{header}");
        }
        if self.options.top_level_events_only {
            let remark = "This report only display top-level ops statistics";
            let _ = writeln!(text, "{double_rule}\n{remark}");
        }
        self.paint_rule(text);
        let titles: Vec<_> = self.columns.iter().map(|column| column.title.clone()).collect();
        self.paint_cells(text, &titles);
        self.paint_rule(text);
    }

    fn paint_row(&self, text: &mut String, row: &KeyAverage) {
        let mut cells = vec![self.name(row)];
        self.times(&mut cells, row);
        self.memory(&mut cells, row);
        cells.push(row.calls.to_string());
        if self.has_phases {
            cells.push(row.phase.map_or("", |phase| phase.as_str()).to_owned());
        }
        if self.has_modules {
            let module = label::shown(row.module.as_deref().unwrap_or_default());
            cells.push(cut(&module, self.options.max_name_column_width));
        }
        if self.has_shapes {
            let width = self.columns[cells.len()].width;
            cells.push(shapes_of(row).chars().take(width).collect());
        }
        let place = cells.len();
        if self.has_stacks {
            cells.push(self.place(place, row.stack.first()));
        }
        if let Some((size, _)) = self.flops {
            cells.push(scaled((row.flops > 0).then_some(row.flops as f64), size));
        }
        if let Some((size, _)) = self.rate {
            cells.push(scaled(row.flops_per_second(), size));
        }
        if self.has_moved_bytes {
            let bytes =
                row.moved_bytes.map(|bytes| memory(i64::try_from(bytes).unwrap_or(i64::MAX)));
            cells.push(bytes.unwrap_or_else(|| "--".to_owned()));
            cells.push(scaled(row.bytes_per_second(), 1e-9));
        }
        if self.has_intensity {
            cells.push(scaled(row.flops_per_byte(), 1.0));
        }
        self.paint_cells(text, &cells);
        if self.has_stacks {
            // The remaining frames of the stack follow on separate lines, and then an empty line.
            let below = row.stack.iter().skip(1).map(Some).chain([None]);
            for entry in below {
                let mut cells = vec![String::new(); self.columns.len()];
                cells[place] = self.place(place, entry);
                self.paint_cells(text, &cells);
            }
        }
    }

    /// Returns the row's name within the column width. For a kernel, it keeps the part that
    /// distinguishes it from others.
    fn name(&self, row: &KeyAverage) -> String {
        let polls = label::polls(row.polls);
        // The poll count reduces the space for the name.
        let limit = self.options.max_name_column_width;
        let limit = limit.map(|width| width.saturating_sub(polls.len()));
        match limit {
            // The full name is required here, because its end determines the content of its
            // brackets.
            Some(width) if row.is_on_device && row.name.contains(['<', '(']) => {
                let short = kernel_name::short(&row.name, width.saturating_sub(4));
                cut(&label::shown(&short), limit)
            }
            _ => cut_action(&label::shown(&row.name), limit) + &polls,
        }
    }

    fn times(&self, cells: &mut Vec<String>, row: &KeyAverage) {
        let time = |microseconds: f64| time(microseconds, self.options.time_unit);
        let own = microseconds(row.self_cpu_seconds);
        let total = microseconds(row.cpu_seconds);
        cells.extend([
            share(own, self.self_cpu),
            time(own),
            share(total, self.self_cpu),
            time(total),
            time(mean(total, row.calls)),
        ]);
        if self.has_device_time {
            let own = microseconds(row.self_device_seconds);
            let total = microseconds(row.device_seconds);
            cells.extend([
                time(own),
                share(own, self.self_device),
                time(total),
                time(mean(total, row.calls)),
            ]);
        }
    }

    fn memory(&self, cells: &mut Vec<String>, row: &KeyAverage) {
        if self.has_memory {
            cells.extend([memory(row.cpu_memory_bytes), memory(row.self_cpu_memory_bytes)]);
            if self.has_device_memory {
                let own = memory(row.self_device_memory_bytes);
                cells.extend([memory(row.device_memory_bytes), own]);
            }
        }
    }

    /// Returns a source location, truncated at its start if it is too long.
    fn place(&self, column: usize, entry: Option<&String>) -> String {
        let shown = label::shown(entry.map_or("", String::as_str));
        let (length, width) = (shown.chars().count(), self.columns[column].width);
        if length <= width {
            return shown;
        }
        let end = shown.chars().skip(length - width);
        match width > 3 {
            true => "...".chars().chain(end.skip(3)).collect(),
            false => end.collect(),
        }
    }
}

/// Truncates a name. For a module, the type and the end of the path are kept, because the paths in
/// a deep model begin with the same parts.
fn cut_action(name: &str, limit: Option<usize>) -> String {
    const LEAST_OF_A_PATH: usize = 12;
    let module = name.split_once(": ").filter(|(kind, _)| kind.starts_with("[module]"));
    let (Some(limit), Some((kind, path))) = (limit, module) else {
        return cut(name, limit);
    };
    let room = limit.saturating_sub(kind.chars().count() + ": ...".len());
    if name.chars().count() <= limit {
        name.to_owned()
    } else if room < LEAST_OF_A_PATH {
        cut(name, Some(limit))
    } else {
        let end: String = path.chars().skip(path.chars().count() - room).collect();
        format!("{kind}: ...{end}")
    }
}

fn cut(name: &str, limit: Option<usize>) -> String {
    match limit.map(|limit| limit.saturating_sub(3)) {
        Some(limit) if name.chars().count() >= limit => {
            name.chars().take(limit).chain("...".chars()).collect()
        }
        _ => name.to_owned(),
    }
}

/// Returns the row's shapes as torch shows them. Returns an empty string if the rows are not
/// grouped by shapes.
fn shapes_of(row: &KeyAverage) -> String {
    row.input_shapes.as_ref().map_or_else(String::new, |shapes| shapes_text(shapes))
}

/// Formats shapes as Python prints nested lists. An input that is not a tensor is an empty list.
pub fn shapes_text(inputs: &[TensorShape]) -> String {
    let inputs: Vec<_> = inputs.iter().map(shape_text).collect();
    format!("[{}]", inputs.join(", "))
}

fn shape_text(input: &TensorShape) -> String {
    match input {
        TensorShape::Tensor(_, dimensions) => {
            let sizes: Vec<_> = dimensions.iter().map(i64::to_string).collect();
            format!("[{}]", sizes.join(", "))
        }
        TensorShape::List(inputs) => shapes_text(inputs),
        TensorShape::Integers(_) | TensorShape::NotATensor => "[]".to_owned(),
    }
}
