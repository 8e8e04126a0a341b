//! Memory timeline as a picture with stacked areas.

use std::fmt::Write;

use super::{CATEGORIES, DeviceTimeline, MemoryTimeline};
use mlprof_events::{MemoryCategory, MemoryDevice};
use mlprof_report::tensor::memory_over_time::highest_moments;

const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 420.0;
/// Frame of the areas: left, top, right, bottom.
const FRAME: (f64, f64, f64, f64) = (90.0, 46.0, 790.0, 360.0);

/// Returns a colour that is distinguishable with colour vision deficiencies, on white and on black.
fn colour(category: MemoryCategory) -> &'static str {
    match category {
        MemoryCategory::Parameter => "#4477aa",
        MemoryCategory::OptimizerState => "#66ccee",
        MemoryCategory::Unknown => "#999999",
        MemoryCategory::Input => "#228833",
        MemoryCategory::Activation => "#ccbb44",
        MemoryCategory::Gradient => "#ee6677",
        MemoryCategory::Temporary => "#aa3377",
    }
}

fn device_name(device: MemoryDevice) -> String {
    match device {
        MemoryDevice::Cpu => "in host memory".to_owned(),
        MemoryDevice::Accelerator(number) => format!("on device {number}"),
    }
}

/// Formats bytes with a unit, in powers of 1024.
pub(super) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let (mut value, mut unit) = (bytes as f64, "B");
    for next in UNITS {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, next);
    }
    let decimals = usize::from(unit != "B" && value < 100.0);
    format!("{value:.decimals$} {unit}")
}

/// Returns the unit of a time axis, and the length of a microsecond in that unit.
pub(super) fn time_unit(duration_us: f64) -> (&'static str, f64) {
    match duration_us {
        duration if duration >= 2e6 => ("s", 1e-6),
        duration if duration >= 2e3 => ("ms", 1e-3),
        _ => ("µs", 1.0),
    }
}

/// Returns the distance of about five ticks on an axis: 1, 2 or 5 times a power of ten.
fn tick_distance(range: f64) -> f64 {
    let rough = range / 5.0;
    let power = 10_f64.powf(rough.log10().floor());
    let times = [1.0, 2.0, 5.0, 10.0].into_iter().find(|times| times * power >= rough);
    times.unwrap_or(10.0) * power
}

/// Returns the distance of about five ticks on an axis as a power of two.
fn byte_tick_distance(range: f64) -> f64 {
    2_f64.powf((range / 5.0).max(1.0).log2().ceil())
}

/// Scale of the picture.
struct Scale {
    start: f64,
    duration: f64,
    highest: f64,
}

impl Scale {
    fn of(timeline: &MemoryTimeline, device: &DeviceTimeline) -> Self {
        let start = device.times_us.first().copied().unwrap_or(0.0).min(0.0);
        let end = device.times_us.last().copied().unwrap_or(0.0).max(timeline.duration_us);
        let highest = (device.peak.bytes as f64 * 1.08).max(1.0);
        Self { start, duration: (end - start).max(0.001), highest }
    }

    fn x(&self, time_us: f64) -> f64 {
        FRAME.0 + (time_us - self.start) / self.duration * (FRAME.2 - FRAME.0)
    }

    fn y(&self, bytes: f64) -> f64 {
        FRAME.3 - bytes / self.highest * (FRAME.3 - FRAME.1)
    }
}

/// Draws one device's picture. Its text has the colour of the surrounding text.
pub(super) fn svg(timeline: &MemoryTimeline, device: &DeviceTimeline) -> String {
    let scale = Scale::of(timeline, device);
    let mut svg = String::new();
    // Writing to a string cannot fail.
    let _ = write!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"12\" fill=\"currentColor\" role=\"img\">\
         <text x=\"{}\" y=\"20\" font-size=\"15\">Allocated {}</text>",
        FRAME.0,
        device_name(device.device),
    );
    axes(&mut svg, &scale);
    areas(&mut svg, &scale, device);
    steps(&mut svg, &scale, timeline);
    peak(&mut svg, &scale, device);
    legend(&mut svg, device);
    svg.push_str("</svg>");
    svg
}

fn axes(svg: &mut String, scale: &Scale) {
    let (left, top, right, bottom) = FRAME;
    let distance = byte_tick_distance(scale.highest);
    let mut level = 0.0;
    while level <= scale.highest {
        let y = scale.y(level);
        let _ = write!(
            svg,
            "<line x1=\"{left}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"currentColor\" \
             stroke-opacity=\"0.2\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            left - 8.0,
            y + 4.0,
            bytes(level as u64),
        );
        level += distance;
    }
    let (unit, per_us) = time_unit(scale.duration);
    let distance = tick_distance(scale.duration * per_us);
    let decimals = if distance < 1.0 { (-distance.log10().floor()) as usize } else { 0 };
    let mut time = (scale.start * per_us / distance).ceil() * distance;
    while time <= (scale.start + scale.duration) * per_us {
        let x = scale.x(time / per_us);
        let _ = write!(
            svg,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{bottom}\" y2=\"{}\" stroke=\"currentColor\"/>\
             <text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{time:.decimals$}</text>",
            bottom + 5.0,
            bottom + 19.0,
        );
        time += distance;
    }
    let _ = write!(
        svg,
        "<path d=\"M{left} {top}V{bottom}H{right}\" fill=\"none\" stroke=\"currentColor\"/>\
         <text x=\"{}\" y=\"{}\" text-anchor=\"middle\">time since the recording began ({unit})</text>",
        (left + right) / 2.0,
        bottom + 42.0,
    );
}

/// Draws one area per category on top of the previous ones. A level lasts until the next moment.
fn areas(svg: &mut String, scale: &Scale, device: &DeviceTimeline) {
    // At most one moment is drawn per unit of width.
    let width = (FRAME.2 - FRAME.0) as usize;
    let moments = highest_moments(&device.times_us, |moment| device.total(moment), width);
    let mut floor = vec![0.0; moments.len()];
    for category in CATEGORIES {
        let Some(levels) = device.levels.iter().find(|levels| levels.category == category) else {
            continue;
        };
        let level = |moment: &usize| levels.bytes.get(*moment).map_or(0.0, |bytes| *bytes as f64);
        let ceiling: Vec<f64> =
            floor.iter().zip(&moments).map(|(floor, moment)| floor + level(moment)).collect();
        let _ = write!(svg, "<path fill=\"{}\" fill-opacity=\"0.85\" d=\"", colour(category));
        let x = |moment: usize| scale.x(device.times_us.get(moment).copied().unwrap_or(0.0));
        for (index, (moment, level)) in moments.iter().zip(&ceiling).enumerate() {
            let command = if index == 0 { "M" } else { "H" };
            let y = scale.y(*level);
            match index {
                0 => _ = write!(svg, "{command}{:.1} {y:.1}", x(*moment)),
                _ => _ = write!(svg, "{command}{:.1}V{y:.1}", x(*moment)),
            }
        }
        // The path returns along the lower edge.
        for (index, (moment, level)) in moments.iter().zip(&floor).enumerate().rev() {
            let y = scale.y(*level);
            match index + 1 == moments.len() {
                true => _ = write!(svg, "V{y:.1}"),
                false => _ = write!(svg, "V{y:.1}H{:.1}", x(*moment)),
            }
        }
        let _ = write!(svg, "Z\"><title>{}</title></path>", category.in_words());
        floor = ceiling;
    }
}

/// Draws a line at the beginning of each step.
fn steps(svg: &mut String, scale: &Scale, timeline: &MemoryTimeline) {
    let (_, top, _, bottom) = FRAME;
    // More lines would cover the picture.
    if timeline.steps.len() > 24 {
        return;
    }
    for step in &timeline.steps {
        let x = scale.x(step.start_us);
        let _ = write!(
            svg,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top}\" y2=\"{bottom}\" stroke=\"currentColor\" \
             stroke-opacity=\"0.6\" stroke-dasharray=\"2 3\"/>\
             <text x=\"{:.1}\" y=\"{}\" font-size=\"11\">step {}</text>",
            x + 3.0,
            top - 4.0,
            step.step,
        );
    }
}

fn peak(svg: &mut String, scale: &Scale, device: &DeviceTimeline) {
    let (x, y) = (scale.x(device.peak.time_us), scale.y(device.peak.bytes as f64));
    // The text is placed on the side of the mark with more space.
    let (anchor, beside) =
        if x > (FRAME.0 + FRAME.2) / 2.0 { ("end", -8.0) } else { ("start", 8.0) };
    let _ = write!(
        svg,
        "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"none\" stroke=\"currentColor\" \
         stroke-width=\"1.5\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\" \
         font-weight=\"bold\">peak {}</text>",
        x + beside,
        y - 6.0,
        bytes(device.peak.bytes),
    );
}

fn legend(svg: &mut String, device: &DeviceTimeline) {
    let left = FRAME.2 + 20.0;
    let _ = write!(
        svg,
        "<text x=\"{left}\" y=\"{}\" font-weight=\"bold\">at the peak</text>",
        FRAME.1 + 4.0
    );
    let mut y = FRAME.1 + 24.0;
    for category in CATEGORIES.into_iter().rev() {
        if !device.levels.iter().any(|levels| levels.category == category) {
            continue;
        }
        let rows = device.peak.alive.iter().filter(|row| row.category == category);
        let at_peak: u64 = rows.map(|row| row.bytes).sum();
        let _ = write!(
            svg,
            "<rect x=\"{left}\" y=\"{:.1}\" width=\"12\" height=\"12\" fill=\"{}\"/>\
             <text x=\"{}\" y=\"{y:.1}\">{}</text>\
             <text x=\"{}\" y=\"{y:.1}\" text-anchor=\"end\">{}</text>",
            y - 10.0,
            colour(category),
            left + 18.0,
            category.in_words(),
            WIDTH - 4.0,
            bytes(at_peak),
        );
        y += 20.0;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        let sizes = [0, 1023, 1024, 150 << 10, 3 << 29, u64::MAX];
        let expected = ["0 B", "1023 B", "1.0 KiB", "150 KiB", "1.5 GiB", "16.0 EiB"];
        assert_eq!(sizes.map(bytes), expected);
    }

    #[test]
    fn axes_have_a_handful_of_round_steps() {
        for range in [0.003, 1.0, 7.0, 49.0, 5e9] {
            let steps = range / tick_distance(range);
            assert!((2.0..=5.0).contains(&steps), "{range}: {steps}");
        }
        for range in [1.0, 7.0, 1e3, 3e11] {
            let distance = byte_tick_distance(range);
            assert!(range / distance <= 5.0 && distance.log2().fract() == 0.0, "{range}");
        }
    }
}
