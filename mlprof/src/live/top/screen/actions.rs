//! List of the actions and modules of the last steps.

use mlprof_events::live::{ActionState, Activity, ProcessState};
use mlprof_report::internals::table::small_rows;
use mlprof_report::internals::{counted, shown_within};
use mlprof_report::number::{duration, grouped};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Wrap};

use super::super::view::{Folded, View, is_also_inside, rows, without_small};
use super::header::seconds_of_steps;

/// Heading of the rows that also appear inside other actions.
const ALSO_INSIDE: &str = "also inside other actions:";

/// Width of the columns right of the names.
const NUMBERS: usize = 36;
/// Width of the additional columns of a wide list.
const MORE_NUMBERS: usize = 22;
/// Minimum width of a list with additional columns.
const WIDE: usize = 100;
/// Maximum width of the bars.
const WIDEST_BAR: usize = 40;
/// Minimum width of the bars.
const LEAST_BAR: usize = 8;

/// Widths of a list's parts, in columns.
struct Columns {
    name: usize,
    has_more: bool,
    bar: usize,
    /// Duration of the last steps in seconds, if it is known.
    of: Option<f64>,
}

impl Columns {
    fn head(&self, activity: &Activity) -> String {
        let name = format!("ACTION ({})", counted(activity.steps, "last step", "last steps"));
        let name = if activity.steps == 0 { "ACTION".to_owned() } else { name };
        let text = self.line(&name, ["CALLS", "MEDIAN", "99% BELOW", "OF STEP"].map(String::from));
        let more = format!(" {:>11} {:>9}", "STAGE CALLS", "TIME");
        if self.has_more { text + &more } else { text }
    }

    fn line(&self, name: &str, numbers: [String; 4]) -> String {
        let (name, width) = (shown_within(name, self.name), self.name);
        let [calls, median, slow, share] = numbers;
        // Names are padded by their width on the screen.
        let padding = width.saturating_sub(Line::raw(name.as_str()).width());
        format!("{name}{:padding$} {calls:>7} {median:>8} {slow:>9} {share:>8}", "")
    }

    fn row(&self, depth: usize, action: &ActionState) -> String {
        let time = |seconds: Option<f64>| seconds.map_or_else(|| "-".to_owned(), duration);
        // Deep rows keep room for their names.
        let indent = "  ".repeat(depth.min(self.name / 4));
        let room = self.name.saturating_sub(indent.len()).max(1);
        let name = indent + &shown_within(&action.name, room);
        let numbers = [
            grouped(action.calls),
            time(action.p50_seconds),
            time(action.p99_seconds),
            self.share(action.seconds),
        ];
        let mut text = self.line(&name, numbers);
        if self.has_more {
            let (calls, time) = (grouped(action.stage_calls), duration(action.stage_seconds));
            text += &format!(" {calls:>11} {time:>9}");
        }
        text + &self.bar(action.seconds)
    }

    fn folded(&self, folded: &Folded) -> String {
        let dash = || "-".to_owned();
        let numbers = [grouped(folded.calls), dash(), dash(), self.share(folded.seconds)];
        self.line(&small_rows(folded.rows), numbers)
    }

    fn share(&self, seconds: f64) -> String {
        self.of.map_or_else(|| "-".to_owned(), |of| format!("{:.1} %", seconds / of * 1e2))
    }

    fn bar(&self, seconds: f64) -> String {
        let Some(of) = self.of.filter(|_| self.bar > 0) else { return String::new() };
        let filled = (seconds / of).clamp(0.0, 1.0) * self.bar as f64;
        format!("  {}", "█".repeat(filled.round() as usize))
    }
}

pub(super) fn draw(view: &View, state: &ProcessState, frame: &mut Frame<'_>, area: Rect) {
    let activity = state.activity.as_ref().filter(|activity| !activity.actions.is_empty());
    let Some(activity) = activity else {
        let text = "Waiting for the first action. It appears when a call ends that began after \
                    mlprof top connected.";
        frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), area);
        return;
    };
    let of = state.trainings.first().and_then(|it| seconds_of_steps(it, activity));
    let all = rows(activity, view.order);
    let (shown, folded) = match of.filter(|_| !view.shows_all) {
        Some(of) => without_small(all, of),
        None => (all, Folded::default()),
    };
    let columns = columns(&shown, usize::from(area.width), of);
    let scrolled = view.scrolled.min(shown.len().saturating_sub(1));
    let mut has_heading = false;
    let mut lines = Vec::new();
    for (index, (depth, action)) in shown.into_iter().enumerate() {
        // The heading is also added if the section's first row is scrolled off the screen.
        if !has_heading && depth == 0 && is_also_inside(activity, action) {
            has_heading = true;
            lines.push(ALSO_INSIDE.to_owned());
        }
        if index >= scrolled {
            lines.push(columns.row(depth, action));
        }
    }
    if folded.rows > 0 {
        lines.push(columns.folded(&folded));
    }
    if activity.left_out > 0 {
        let calls = counted(activity.left_out, "call", "calls");
        lines.push(format!("{calls} of further actions, which are not listed"));
    }
    let room = usize::from(area.height).saturating_sub(1);
    if lines.len() > room {
        let more = lines.split_off(room.saturating_sub(1)).len() as u64;
        lines.push(format!("… {} below (down)", counted(more, "more line", "more lines")));
    }
    let head = Line::styled(columns.head(activity), Modifier::BOLD);
    let lines: Vec<_> = std::iter::once(head).chain(lines.into_iter().map(Line::from)).collect();
    frame.render_widget(Paragraph::new(lines), area);
}

/// Returns the widths for these rows. Names get the space that they need, and bars the rest.
fn columns(shown: &[(usize, &ActionState)], width: usize, of: Option<f64>) -> Columns {
    let has_more = width >= WIDE;
    let numbers = NUMBERS + if has_more { MORE_NUMBERS } else { 0 };
    let room = width.saturating_sub(numbers).max(8);
    let widest = |(depth, action): &(usize, &ActionState)| {
        2 * depth + Line::raw(action.name.as_str()).width()
    };
    let name = match has_more {
        true => shown.iter().map(widest).max().unwrap_or(0).clamp(24, room),
        false => room,
    };
    let bar = (room - name).saturating_sub(2).min(WIDEST_BAR);
    Columns { name, has_more, bar: if bar < LEAST_BAR { 0 } else { bar }, of }
}
