//! HTML of memory over time by category, and of the memory at the peak.

use std::fmt::Write;

use mlprof_events::{MemoryCategory, MemoryDevice};

use super::Part;
use super::limits::Limits;
use super::text;
use crate::number::{bytes, duration, grouped};
use crate::table::{Cell, Unit, bytes as sizes, count, share, table, words};
use crate::tensor::MemoryOverTime;
use crate::tensor::memory_over_time::PeakMemory;

/// Size of the chart in pixels. The space above the chart holds the peak marker and the step
/// numbers.
const WIDTH: f64 = 1100.0;
const HEIGHT: f64 = 170.0;
const TOP: f64 = 16.0;
/// Maximum number of steps with a number in the chart. More numbers would overlap.
const MOST_STEPS: usize = 40;

/// Writes a chart and two tables for each memory.
pub(super) fn write(html: &mut String, memory: &[MemoryOverTime], cycles: u64, part: &Part) {
    for (index, memory) in memory.iter().enumerate() {
        let (id, title) = match memory.device {
            MemoryDevice::Cpu => ("memory".to_owned(), "Memory over time".to_owned()),
            MemoryDevice::Accelerator(number) => {
                (format!("memory-{number}"), format!("Memory of device {number} over time"))
            }
        };
        part.heading(html, &id, &title);
        // Writing into a string cannot fail, so these results are ignored.
        let _ = writeln!(html, "<p>{}</p>", explained(memory, cycles, part));
        Picture::of(memory).write(html, index, part);
        write_categories(html, memory, part);
        write_peak(html, memory, part);
    }
}

/// Returns the CSS class of a category's colour. Categories use the colour of the corresponding
/// part in the step chart.
fn class_of(category: MemoryCategory) -> &'static str {
    match category {
        MemoryCategory::Input => "p0",
        MemoryCategory::Parameter => "p1",
        MemoryCategory::Gradient => "p2",
        MemoryCategory::OptimizerState => "p3",
        MemoryCategory::Unknown => "p4",
        MemoryCategory::Activation => "p5",
        MemoryCategory::Temporary => "p6",
    }
}

/// Returns a summary such as `The most was 12.0 MiB, 1.20 s after …, in step 3: activations 61.2 %,
/// …. The largest part, …`
fn explained(memory: &MemoryOverTime, cycles: u64, part: &Part) -> String {
    let peak = &memory.peak;
    let step = peak.step.map_or_else(String::new, |step| format!(", in step {}", grouped(step)));
    let mut categories: Vec<_> = memory.categories.iter().collect();
    categories.sort_by_key(|category| std::cmp::Reverse(category.at_peak_bytes));
    let categories: Vec<String> = categories
        .iter()
        .filter(|category| category.at_peak_bytes > 0)
        .map(|category| {
            let share = category.at_peak_bytes as f64 / peak.bytes.max(1) as f64;
            format!("{} {}", category.category.in_words(), Unit::Share.write(share))
        })
        .collect();
    let mut text = format!(
        "The peak was <b>{}</b>, {} after the start of the recording{step}: {}.",
        bytes(peak.bytes),
        duration(peak.time_seconds),
        categories.join(", ")
    );
    if let Some(row) = peak.rows.iter().find(|row| !row.is_from_before) {
        let _ = write!(
            text,
            " Most of the memory allocated since then belongs to {}: {} for {}.",
            allocated_by(row, part),
            bytes(row.bytes),
            row.category.in_words()
        );
    }
    if cycles > 1 {
        let _ = write!(
            text,
            " Of {} recordings this one has the highest peak, number {}.",
            grouped(cycles),
            grouped(memory.cycle)
        );
    }
    if memory.dropped > 0 {
        let _ = write!(
            text,
            " {} allocations and frees were dropped, so the levels are wrong.",
            grouped(memory.dropped)
        );
    }
    text
}

/// Returns the op and the module or action that allocated the memory, escaped for HTML.
fn allocated_by(row: &PeakMemory, part: &Part) -> String {
    let name = |name: &String| text::name(name, part.limits.name);
    match (&row.op, &row.inside) {
        _ if row.is_from_before => "<i>before the recording</i>".to_owned(),
        (Some(op), Some(inside)) => format!("{} in {}", name(op), name(inside)),
        (Some(one), None) | (None, Some(one)) => name(one),
        (None, None) => "<i>nothing recorded</i>".to_owned(),
    }
}

/// Coordinate system of the chart.
struct Picture<'memory> {
    memory: &'memory MemoryOverTime,
    start: f64,
    end: f64,
    highest: f64,
}

impl<'memory> Picture<'memory> {
    fn of(memory: &'memory MemoryOverTime) -> Self {
        let start = memory.times_seconds.first().copied().unwrap_or(0.0).min(0.0);
        let end = memory.times_seconds.last().copied().unwrap_or(0.0);
        let end = end.max(memory.duration_seconds).max(start + f64::MIN_POSITIVE);
        Self { memory, start, end, highest: memory.peak.bytes.max(1) as f64 }
    }

    fn x(&self, seconds: f64) -> f64 {
        WIDTH * (seconds - self.start) / (self.end - self.start)
    }

    fn y(&self, bytes: u64) -> f64 {
        TOP + HEIGHT * (1.0 - (bytes as f64 / self.highest).min(1.0))
    }

    fn write(&self, html: &mut String, index: usize, part: &Part) {
        let (memory, bottom) = (self.memory, TOP + HEIGHT);
        let about = format!("Full height is {}", bytes(memory.peak.bytes));
        let _ = write!(
            html,
            "<figure class=\"strip areas\" data-report={} data-memory={index} data-start={} data-end={}>\
             <figcaption>",
            part.index, self.start, self.end
        );
        for category in memory.categories.iter().rev() {
            let (class, name) = (class_of(category.category), category.category.in_words());
            let _ = write!(html, "<span class=\"key {class}\">{name}</span>");
        }
        let _ = write!(
            html,
            "<span class=quiet>{about}, full width {}</span></figcaption><div class=scroll>\
             <svg width={WIDTH:.0} height={bottom:.0} viewBox=\"0 0 {WIDTH:.0} {bottom:.0}\" role=img \
             aria-label=\"{about}\"><g>",
            duration(self.end - self.start)
        );
        // The areas are drawn from the largest sum to the smallest, so each one covers the lower
        // part of the previous one.
        for (place, category) in memory.categories.iter().enumerate().rev() {
            let class = class_of(category.category);
            let _ = write!(html, "<path class={class} d=\"{}\"/>", self.area(place));
        }
        html.push_str("</g>");
        self.write_steps(html);
        let (x, y) = (self.x(memory.peak.time_seconds), self.y(memory.peak.bytes));
        let _ = writeln!(
            html,
            "<path class=mark d=\"M{x:.1} {:.1}l-4 -8h8z\"/></svg></div></figure>",
            y - 1.0
        );
    }

    /// Returns the SVG path of the area between 0 and the sum of all categories up to `last`. Each
    /// level holds until the next point in time.
    fn area(&self, last: usize) -> String {
        let categories = &self.memory.categories[..=last];
        let bottom = TOP + HEIGHT;
        let mut path = String::new();
        let mut height = String::new();
        for (moment, seconds) in self.memory.times_seconds.iter().enumerate() {
            let sum: u64 = categories.iter().filter_map(|one| one.bytes.get(moment)).sum();
            let (x, y) = (self.x(*seconds), format!("{:.1}", self.y(sum)));
            match path.is_empty() {
                true => _ = write!(path, "M{x:.1} {bottom}V{y}"),
                false if y == height => continue,
                false => _ = write!(path, "H{x:.1}V{y}"),
            }
            height = y;
        }
        let _ = write!(path, "H{WIDTH:.0}V{bottom}Z");
        path
    }

    /// Draws the start of each step.
    fn write_steps(&self, html: &mut String) {
        if self.memory.steps.len() > MOST_STEPS {
            return;
        }
        for step in &self.memory.steps {
            let x = self.x(step.start_seconds);
            let _ = write!(
                html,
                "<path class=begin d=\"M{x:.1} {TOP}V{:.0}\"/><text x={:.1} y=10>{}</text>",
                TOP + HEIGHT,
                x + 2.0,
                step.number
            );
        }
    }
}

fn write_categories(html: &mut String, memory: &MemoryOverTime, part: &Part) {
    let mut categories: Vec<_> = memory.categories.iter().collect();
    categories.sort_by_key(|category| std::cmp::Reverse(category.at_peak_bytes));
    let caption = "Memory by category: labelled by a hook, otherwise guessed from the time of \
                   allocation and the lifetime";
    let named = |of: MemoryCategory| {
        Cell::Markup(format!("<span class=\"key {}\">{}</span>", class_of(of), of.in_words()))
    };
    let all = memory.peak.bytes.max(1) as f64;
    let table = table!(caption, categories, |row| {
        words("Category", "Purpose of the memory, if known") => named(row.category),
        sizes("At the peak", "Bytes at the peak").bar() => row.at_peak_bytes,
        share("Share", "Share of the peak") => row.at_peak_bytes as f64 / all,
        sizes("Its own most", "Maximum of the category in the shown range").bar() =>
            row.bytes.iter().copied().max().unwrap_or(0),
        sizes("At the end", "Bytes at the end of the recording").bar() => row.at_end_bytes,
    });
    table.sorted_by("At the peak").write(html, part.limits);
}

fn write_peak(html: &mut String, memory: &MemoryOverTime, part: &Part) {
    let peak = &memory.peak;
    let of_row = |row: &PeakMemory| {
        (allocated_by(row, part), row.category.in_words(), row.bytes, row.allocations)
    };
    let others = ("<i>others</i>".to_owned(), "", peak.others_bytes, peak.others_allocations);
    let rows = peak.rows.iter().take(part.limits.rows).map(of_row);
    let rows: Vec<_> = rows.chain((peak.others_bytes > 0).then_some(others)).collect();
    let at = duration(peak.time_seconds);
    let caption = format!("Memory at the peak, {} at {at}", bytes(peak.bytes));
    let all = peak.bytes.max(1) as f64;
    let table = table!(caption, rows, |(by, category, bytes, allocations)| {
        words("Allocated by", "Op, with the module or action around it").key() =>
            Cell::Markup(by),
        words("For", "Purpose of the memory").key() => category,
        sizes("Memory", "Bytes alive at the peak").sum().bar() => bytes,
        share("Share", "Share of the peak").sum() => bytes as f64 / all,
        count("Allocations", "Number of allocations").sum() =>
            (allocations > 0).then_some(allocations as f64),
    });
    let limits = Limits { rows: part.limits.rows + 1, ..part.limits };
    table.sorted_by("Memory").write(html, limits);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::tensor::memory_over_time::{CategoryOverTime, MemoryPeak, MemoryStep};

    fn memory() -> MemoryOverTime {
        let category = |category, bytes: [u64; 3]| CategoryOverTime {
            category,
            at_peak_bytes: bytes[1],
            at_end_bytes: bytes[2],
            bytes: bytes.to_vec(),
        };
        let row = |op: Option<&str>, is_from_before, bytes| PeakMemory {
            category: MemoryCategory::Activation,
            op: op.map(str::to_owned),
            inside: op.map(|_| "conv<1>".to_owned()),
            is_from_before,
            allocations: 7,
            bytes,
        };
        MemoryOverTime {
            device: MemoryDevice::Cpu,
            cycle: 1,
            duration_seconds: 2.0,
            before_bytes: 1024,
            allocations: 9,
            allocated_bytes: 5000,
            dropped: 0,
            steps: vec![MemoryStep { number: 30, start_seconds: 0.5 }],
            times_seconds: vec![0.0, 1.0, 2.0],
            categories: vec![
                category(MemoryCategory::Parameter, [1024, 1024, 1024]),
                category(MemoryCategory::Activation, [0, 3072, 0]),
            ],
            peak: MemoryPeak {
                time_seconds: 1.0,
                step: Some(30),
                bytes: 4096,
                rows: vec![row(None, true, 1024), row(Some("aten::conv2d"), false, 2048)],
                others_allocations: 3,
                others_bytes: 1024,
            },
        }
    }

    #[test]
    fn the_peak_is_drawn_and_said_in_words() {
        let mut html = String::new();
        write(&mut html, &[memory()], 3, &Part { index: 2, limits: Limits::FIRST });
        let words = "The peak was <b>4.00 KiB</b>, 1.00 s after the start of the recording, in step 30: \
                     activations 75.0 %, parameters 25.0 %. Most of the memory allocated since then \
                     belongs to aten::conv2d in conv&lt;1&gt;: 2.00 KiB for activations. Of 3 recordings this \
                     one has the highest peak, number 1.";
        assert!(html.contains(words), "{html}");
        // In the first half the path is at a quarter of the height, the level of parameters. At the
        // middle it reaches the full height.
        assert!(html.contains("class=p5 d=\"M0.0 186V143.5H550.0V16.0H1100.0V143.5H1100V186Z\""));
        assert!(html.contains("class=p1 d=\"M0.0 186V143.5H1100V186Z\""), "{html}");
        assert!(html.contains("class=mark d=\"M550.0 15.0l"), "{html}");
        assert!(html.contains("class=begin d=\"M275.0 16V186\""), "{html}");
        let table = "<th scope=row><span class=\"key p5\">activations</span>\
                     <td class=\"n b50\" data-v=3072>3.00 KiB<td class=n data-v=0.75>75.0 %";
        assert!(html.contains(table), "{html}");
        assert!(html.contains("<i>before the recording</i>") && html.contains("<i>others</i>"));
    }
}
