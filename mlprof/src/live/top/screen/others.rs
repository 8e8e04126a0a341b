//! Views that can replace the list of actions below a training's steps.

use mlprof_events::live::{ProcessState, TrainingState};
use mlprof_report::internals::shown_within;
use mlprof_report::number::{duration, percent};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Wrap};

use super::super::super::table::{epoch, stage};
use super::super::view::{View, Watched};

/// Draws the innermost open action of each thread and the time since it began.
pub(super) fn draw_threads(
    scrolled: usize,
    state: &ProcessState,
    frame: &mut Frame<'_>,
    area: Rect,
) {
    let threads = state.activity.iter().flat_map(|it| &it.threads);
    let width = usize::from(area.width).saturating_sub(32).max(8);
    let head = format!("{:<20} {:<width$} {:>10}", "THREAD", "OPEN ACTION", "FOR");
    let lines = threads.map(|thread| {
        let action = match (&thread.action, thread.open) {
            (Some(action), 0 | 1) => action.clone(),
            (Some(action), open) => format!("{action}, inside {} more", open - 1),
            (None, _) => "-".to_owned(),
        };
        let seconds = thread.seconds.map_or_else(|| "-".to_owned(), duration);
        let name = shown_within(&thread.thread, 20);
        let action = shown_within(&action, width);
        format!("{name:<20} {action:<width$} {seconds:>10}")
    });
    draw_table(scrolled, head, lines, frame, area);
}

/// Draws one line per process. Each rank of a training is a process.
pub(super) fn draw_processes(view: &View, frame: &mut Frame<'_>, area: Rect) {
    let head = columns(
        [
            "RANK",
            "PID",
            "STAGE",
            "EPOCH",
            "STEP",
            "STEPS/S",
            "MEDIAN",
            "99% BELOW",
            "DATA WAIT",
            "MEMORY",
            "PROGRAM",
        ]
        .map(str::to_owned),
    );
    let mut processes: Vec<&Watched> = view.processes.iter().collect();
    processes.sort_by_key(|it| (&it.state.program, rank(it), it.name));
    let lines = processes.into_iter().map(line_of_process);
    draw_table(view.scrolled, head, lines, frame, area);
}

fn rank(watched: &Watched) -> Option<u32> {
    watched.state.trainings.first().map(|training| training.rank)
}

fn line_of_process(watched: &Watched) -> String {
    let state = &watched.state;
    let training = state.trainings.first();
    let of = |text: &dyn Fn(&TrainingState) -> Option<String>| {
        training.and_then(text).unwrap_or_else(|| "-".to_owned())
    };
    let quantile = |share: f64| of(&|it| it.quantile(share).map(duration));
    let doing = match (watched.has_ended, training) {
        (true, _) => "ended".to_owned(),
        _ if watched.is_silent => "no answer".to_owned(),
        (false, Some(training)) if training.is_paused => "validating".to_owned(),
        (false, Some(training)) => stage(training),
        (false, None) => "-".to_owned(),
    };
    columns([
        of(&|it| Some(format!("{}/{}", it.rank, it.world_size))),
        watched.name.to_string(),
        doing,
        of(&epoch),
        of(&|it| Some(it.steps.to_string())),
        of(&|it| it.steps_per_second().map(|rate| format!("{rate:.1}"))),
        quantile(0.5),
        quantile(0.99),
        of(&|it| it.waiting_for_data.map(percent)),
        state
            .memory
            .map_or_else(|| "-".to_owned(), |it| format!("{} MiB", it.resident_bytes >> 20)),
        state.program.clone(),
    ])
}

/// The program comes last, because 80 columns have no room for it.
fn columns(cells: [String; 11]) -> String {
    let [rank, process, stage, epoch, step, rate, median, slow, data, memory, program] = cells;
    format!(
        "{rank:>4} {process:>7} {stage:<10} {epoch:>5} {step:>6} {rate:>7} {median:>7} {slow:>9} \
         {data:>9} {memory:>7}  {program}"
    )
}

/// Draws the findings of the current report, one paragraph each.
pub(super) fn draw_findings(view: &View, watched: &Watched, frame: &mut Frame<'_>, area: Rect) {
    let text = match &watched.findings {
        None => "Requesting the current report.".to_owned(),
        Some(Err(why)) => why.clone(),
        Some(Ok(findings)) if findings.is_empty() => {
            "No findings in the current report.".to_owned()
        }
        Some(Ok(findings)) => findings[view.scrolled.min(findings.len() - 1)..].join("\n\n"),
    };
    frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), area);
}

fn draw_table(
    scrolled: usize,
    head: String,
    lines: impl Iterator<Item = String>,
    frame: &mut Frame<'_>,
    area: Rect,
) {
    let head = Line::styled(head, Modifier::BOLD);
    let lines = lines.skip(scrolled).map(Line::from);
    frame.render_widget(
        Paragraph::new(std::iter::once(head).chain(lines).collect::<Vec<_>>()),
        area,
    );
}
