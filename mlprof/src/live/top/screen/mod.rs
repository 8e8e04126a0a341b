//! Draws the screen of `mlprof top` from the view state alone.

use mlprof_events::live::{ProcessState, TrainingState};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Clear, Paragraph, Sparkline};

use super::super::table::{clock, devices, epoch, number, stage};
use super::view::{Body, View, Watched, is_also_inside, rows, without_small};

mod others;

const HELP: &str = "\
Tab, left, right  next or previous process
up, down          scroll the list
s                 sort actions by time, calls or name
a                 show all actions, even below 0.1 % of the steps
t                 show the threads and their actions
p                 show all processes
f                 show findings, which are avoidable costs
r                 record 5 steps into the current folder
?                 show this help
q, Ctrl-C         quit; the training continues

STEP is the share of the time of the last steps. An action
that spans several steps is shown next to its children.
Rows below \"also inside other actions\" have another row:
they were open when top began, or have several callers.";

/// Heading of the rows that also appear inside other actions.
const ALSO_INSIDE: &str = "also inside other actions:";

/// Draws the whole screen. Parts without enough space are omitted.
pub(super) fn draw(view: &View, frame: &mut Frame<'_>) {
    let several = u16::from(view.processes.len() > 1);
    let heights = [
        Constraint::Length(several),
        Constraint::Length(3),
        Constraint::Length(if frame.area().height >= 16 { 3 } else { 1 }),
        Constraint::Min(0),
        Constraint::Length(1),
    ];
    let [tabs, head, steps, body, foot] = frame.area().layout(&Layout::vertical(heights));
    frame.render_widget(Line::from(processes(view)), tabs);
    match view.chosen() {
        Some(watched) => {
            frame.render_widget(Paragraph::new(summary(watched)), head);
            draw_steps(&watched.state, frame, steps);
            match view.body {
                Body::Actions => draw_actions(view, &watched.state, frame, body),
                Body::Threads => others::draw_threads(view, &watched.state, frame, body),
                Body::Processes => others::draw_processes(view, frame, body),
                Body::Findings => others::draw_findings(view, watched, frame, body),
            }
        }
        None if view.unanswered > 0 => {
            let text = format!("processes that have not answered yet: {}", view.unanswered);
            frame.render_widget(text, head);
        }
        None => frame.render_widget("no training of this user can be inspected", head),
    }
    let keys = format!("q quit  ? help  s sort: {}  r record  {}", view.order.name(), view.message);
    frame.render_widget(Line::styled(keys, Modifier::REVERSED), foot);
    if view.shows_help {
        let area = frame.area();
        let (width, height) = (60.min(area.width), 16.min(area.height));
        let middle = Rect::new((area.width - width) / 2, (area.height - height) / 2, width, height);
        frame.render_widget(Clear, middle);
        frame.render_widget(Paragraph::new(HELP).style(Modifier::REVERSED), middle);
    }
}

fn processes(view: &View) -> String {
    let name = |(number, watched): (usize, &Watched)| {
        let state = &watched.state;
        let rank = state.trainings.first().filter(|it| it.world_size > 1);
        let rank = rank.map_or_else(String::new, |it| format!(" rank {}", it.rank));
        let text = format!("{} {}{rank}", watched.name, state.program);
        if number == view.chosen { format!("[{text}]") } else { format!(" {text} ") }
    };
    // The selected process comes first, because there may not be space for all.
    let (before, after) = view.processes.split_at(view.chosen.min(view.processes.len()));
    let numbered = after.iter().enumerate().map(|(it, watched)| (it + before.len(), watched));
    numbered.chain(before.iter().enumerate()).map(name).collect()
}

/// Formats the state of a process in three lines.
fn summary(watched: &Watched) -> String {
    let state = &watched.state;
    let mut first = format!("{} ({})", state.program, watched.name);
    if watched.has_ended {
        first += ": ended (last known state)";
    } else if watched.is_silent {
        first += ": not answering (last known state)";
    } else if state.is_recording {
        first += ": recording";
    }
    let memory = state.memory.map_or_else(String::new, |memory| {
        let mebibytes = |bytes: u64| bytes >> 20;
        format!(
            "memory {} MiB, at most {} MiB",
            mebibytes(memory.resident_bytes),
            mebibytes(memory.peak_bytes)
        )
    });
    let threads = state.activity.as_ref().map(|it| it.threads.len());
    // Only threads that have opened an action are counted, not all threads of the process.
    let mut more = threads.map_or_else(String::new, |count| match count {
        1 => "  1 thread with actions".to_owned(),
        count => format!("  {count} threads with actions"),
    });
    devices(state).iter().for_each(|device| more += &format!("  {device}"));
    let Some(training) = state.trainings.first() else {
        return format!("{first}\nno stage is running\n{memory}{more}");
    };
    format!("{first}\n{}\n{memory}{more}", of_training(training))
}

fn of_training(training: &TrainingState) -> String {
    let mut text = stage(training);
    if let Some(epoch) = epoch(training) {
        text += &format!("  epoch {epoch}");
    }
    match (training.epoch_step, training.epoch_steps) {
        (Some(step), Some(of)) => text += &format!("  step {step}/{of}"),
        _ => text += &format!("  step {}", training.steps),
    }
    if let Some(seconds) = training.seconds_left() {
        text += &format!("  {} left", clock(seconds));
    }
    if let Some(loss) = training.loss {
        text += &format!("  loss {}", number(loss));
    }
    if let Some(share) = training.waiting_for_data {
        text += &format!("  waiting for data {:.0}%", share * 1e2);
    }
    if training.is_paused {
        text += "  validating";
    }
    text
}

/// Draws the durations of the last steps as a sparkline.
fn draw_steps(state: &ProcessState, frame: &mut Frame<'_>, area: Rect) {
    let Some(training) = state.trainings.first() else { return };
    let [head, line] = area.layout(&Layout::vertical([Constraint::Length(1), Constraint::Min(0)]));
    let mut text = "steps".to_owned();
    if let Some(rate) = training.steps_per_second() {
        text += &format!("  {rate:.1}/s");
    }
    if let Some(rate) = training.samples_per_second {
        text += &format!("  {rate:.0} samples/s");
    }
    if let (Some(median), Some(slow)) = (training.quantile(0.5), training.quantile(0.99)) {
        text += &format!("  p50 {:.3} ms  p99 {:.3} ms", median * 1e3, slow * 1e3);
    }
    frame.render_widget(Line::from(text), head);
    // If not all steps fit, only the last ones are drawn.
    let last = training.last_steps.len().saturating_sub(usize::from(line.width));
    let microseconds = training.last_steps[last..].iter().map(|seconds| (seconds * 1e6) as u64);
    frame.render_widget(Sparkline::default().data(microseconds.collect::<Vec<_>>()), line);
}

fn draw_actions(view: &View, state: &ProcessState, frame: &mut Frame<'_>, area: Rect) {
    let Some(activity) = &state.activity else { return };
    let steps = state.trainings.first().map(|it| it.last_steps.iter().rev());
    let of = steps.map(|it| it.take(activity.steps as usize).sum::<f64>()).filter(|it| *it > 0.0);
    let width = usize::from(area.width).saturating_sub(36).max(8);
    let mut lines = vec![Line::styled(
        format!(
            "{:<width$} {:>7} {:>10} {:>10} {:>5}",
            "ACTION", "CALLS", "p50 ms", "p99 ms", "STEP"
        ),
        Style::from(Modifier::BOLD),
    )];
    let milliseconds = |seconds: Option<f64>| {
        seconds.map_or_else(|| "-".to_owned(), |seconds| format!("{:.3}", seconds * 1e3))
    };
    let all = rows(activity, view.order);
    let (shown, small) = match of.filter(|_| !view.shows_all) {
        Some(of) => without_small(all, of),
        None => (all, 0),
    };
    let scrolled = view.scrolled.min(shown.len().saturating_sub(1));
    let mut has_heading = false;
    for (index, (depth, action)) in shown.into_iter().enumerate() {
        // The heading is also added if the section's first row is scrolled off the screen.
        if !has_heading && depth == 0 && is_also_inside(activity, action) {
            has_heading = true;
            lines.push(Line::from(ALSO_INSIDE));
        }
        if index < scrolled {
            continue;
        }
        let name = "  ".repeat(depth.min(width / 4)) + &action.name;
        let name = others::cut(&name, width);
        let share =
            of.map_or_else(|| "-".to_owned(), |of| format!("{:.0}%", action.seconds / of * 1e2));
        lines.push(Line::from(format!(
            "{name:<width$} {:>7} {:>10} {:>10} {share:>5}",
            action.calls,
            milliseconds(action.p50_seconds),
            milliseconds(action.p99_seconds),
        )));
    }
    if small > 0 {
        lines.push(Line::from(format!(
            "{small} more below 0.1 % of the steps (press a to show them)"
        )));
    }
    if activity.left_out > 0 {
        lines.push(Line::from(format!("{} calls of other actions", activity.left_out)));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

#[cfg(test)]
mod tests;
