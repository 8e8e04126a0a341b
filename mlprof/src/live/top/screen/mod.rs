//! Draws the screen of `mlprof top` from the view state alone.

mod actions;
mod header;
mod others;

use mlprof_events::live::ProcessState;
use mlprof_report::internals::counted;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Modifier;
use ratatui::text::Line;
use ratatui::widgets::{Block, Clear, Paragraph, Sparkline, Wrap};

use super::view::{Body, View, Watched};

const HELP: &str = "\
Tab, left, right  next or previous process
up, down          scroll the list
s                 sort actions by time, calls or name
a                 show all actions, even below 0.1 % of the steps
t                 show the threads and their actions
p                 show all processes
f                 show findings, which are avoidable costs
r                 record 5 steps into the current folder
?                 show or hide this help
q, Ctrl-C         quit; the training continues

OF STEP     share of the time of the last steps; an action
            that spans several steps is next to its children
99% BELOW   1 of 100 calls takes longer
Rows below \"also inside other actions\" have another row:
they were open when top began, or have several callers.";

/// Minimum width of the screen for a second list beside the actions, in columns.
const WIDE: u16 = 160;

/// Draws the whole screen. Parts without enough space are omitted.
pub(super) fn draw(view: &View, frame: &mut Frame<'_>) {
    let screen = frame.area();
    let several = u16::from(view.processes.len() > 1);
    let header = match view.chosen() {
        Some(watched) => header::header(watched, usize::from(screen.width)),
        None => Vec::new(),
    };
    let has_steps = view.chosen().is_some_and(|it| !last_steps(&it.state).is_empty());
    let heights = [
        Constraint::Length(several),
        Constraint::Length((header.len() as u16).min(screen.height / 2)),
        Constraint::Length(if has_steps && screen.height >= 16 { 2 } else { 0 }),
        Constraint::Min(0),
        Constraint::Length(1),
    ];
    let [tabs, head, steps, body, foot] = screen.layout(&Layout::vertical(heights));
    frame.render_widget(Line::from(processes(view)), tabs);
    match view.chosen() {
        Some(watched) => {
            let lines: Vec<_> = header.into_iter().map(Line::from).collect();
            frame.render_widget(Paragraph::new(lines), head);
            draw_steps(&watched.state, frame, steps);
            draw_body(view, watched, frame, body);
        }
        None => frame.render_widget(Paragraph::new(nothing(view)).wrap(Wrap { trim: true }), body),
    }
    frame
        .render_widget(Line::styled(keys(view, usize::from(foot.width)), Modifier::REVERSED), foot);
    if view.shows_help {
        let lines = HELP.lines().count() as u16;
        let (width, height) = (62.min(screen.width), (lines + 2).min(screen.height));
        let [left, top] = [(screen.width - width) / 2, (screen.height - height) / 2];
        let middle = Rect::new(left, top, width, height);
        frame.render_widget(Clear, middle);
        let help = Paragraph::new(HELP).block(Block::bordered()).style(Modifier::REVERSED);
        frame.render_widget(help, middle);
    }
}

fn draw_body(view: &View, watched: &Watched, frame: &mut Frame<'_>, area: Rect) {
    let state = &watched.state;
    match view.body {
        Body::Actions if area.width >= WIDE => {
            let widths = [Constraint::Fill(2), Constraint::Length(3), Constraint::Fill(1)];
            let [left, _, right] = area.layout(&Layout::horizontal(widths));
            actions::draw(view, state, frame, left);
            others::draw_threads(0, state, frame, right);
        }
        Body::Actions => actions::draw(view, state, frame, area),
        Body::Threads => others::draw_threads(view.scrolled, state, frame, area),
        Body::Processes => others::draw_processes(view, frame, area),
        Body::Findings => others::draw_findings(view, watched, frame, area),
    }
}

/// Returns the text of a screen without processes.
fn nothing(view: &View) -> String {
    match view.unanswered {
        0 => "No training of this user can be inspected. Start one with MLPROF_LIVE=1, or with \
              `mlprof run --live`: it then appears here."
            .to_owned(),
        count => format!(
            "Waiting for the first answer of {}.",
            counted(count as u64, "process", "processes")
        ),
    }
}

/// Returns the line of keys. The result of the last request replaces the less important ones.
fn keys(view: &View, width: usize) -> String {
    let mut keys = vec!["q quit".to_owned(), "? help".to_owned()];
    if view.message.is_empty() {
        keys.push(format!("s sort: {}", view.order.name()));
        keys.push(if view.shows_all { "a fewer" } else { "a all" }.to_owned());
        let more = ["t threads", "f findings", "r record", "p compare", "Tab next"];
        let shown = if view.processes.len() > 1 { 5 } else { 3 };
        keys.extend(more[..shown].iter().map(|key| (*key).to_owned()));
    } else {
        keys.push(view.message.clone());
    }
    let mut text = String::new();
    for key in keys {
        let gap = if text.is_empty() { "" } else { "  " };
        // A message is cut by the screen. Keys that do not fit are omitted, except the first.
        if !text.is_empty() && text.len() + gap.len() + key.len() > width && view.message.is_empty()
        {
            break;
        }
        text += gap;
        text += &key;
    }
    text
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

fn last_steps(state: &ProcessState) -> &[f64] {
    state.trainings.first().map_or(&[], |training| &training.last_steps)
}

/// Draws the durations of the last steps as a sparkline.
fn draw_steps(state: &ProcessState, frame: &mut Frame<'_>, area: Rect) {
    let all = last_steps(state);
    let label = format!("last {:<7}", all.len());
    let widths = [Constraint::Length(label.len() as u16), Constraint::Min(0)];
    let [head, line] = area.layout(&Layout::horizontal(widths));
    frame.render_widget(Paragraph::new(format!("{label}\nsteps")), head);
    // If not all steps fit, only the last ones are drawn.
    let last = all.len().saturating_sub(usize::from(line.width));
    let microseconds = all[last..].iter().map(|seconds| (seconds * 1e6) as u64);
    frame.render_widget(Sparkline::default().data(microseconds.collect::<Vec<_>>()), line);
}

#[cfg(test)]
mod tests;
