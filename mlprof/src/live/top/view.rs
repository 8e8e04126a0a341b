//! View state of the screen: the selected process, the sort order and the scroll position.

use std::time::{Duration, Instant};

use mlprof_events::live::{ActionState, Activity, ProcessState};
use mlprof_report::internals::table::LEAST_SHARE;

use super::super::ProcessName;

/// Sort order of actions that have the same parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Order {
    #[default]
    Time,
    Calls,
    Name,
}

impl Order {
    pub(super) fn next(self) -> Self {
        match self {
            Self::Time => Self::Calls,
            Self::Calls => Self::Name,
            Self::Name => Self::Time,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Calls => "calls",
            Self::Name => "name",
        }
    }
}

/// Content below a training's steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Body {
    /// Nested actions and modules of the training.
    #[default]
    Actions,
    /// Innermost open action of each thread.
    Threads,
    /// All processes side by side.
    Processes,
    /// Findings in the current report.
    Findings,
}

/// State that determines the content of the screen.
#[derive(Debug, Default)]
pub(super) struct View {
    /// All listening processes. A process that has ended keeps its last state.
    pub(super) processes: Vec<Watched>,
    pub(super) chosen: usize,
    pub(super) body: Body,
    pub(super) order: Order,
    /// Number of action rows above the visible area.
    pub(super) scrolled: usize,
    pub(super) shows_help: bool,
    /// Set when actions with a negligible share of the time are also shown.
    pub(super) shows_all: bool,
    /// Result of the last user request.
    pub(super) message: String,
    /// Number of processes that have not answered yet.
    pub(super) unanswered: usize,
}

/// Process with its latest state.
#[derive(Debug, Clone)]
pub(super) struct Watched {
    pub(super) name: ProcessName,
    pub(super) state: ProcessState,
    pub(super) has_ended: bool,
    /// Set when the process has not answered for a long time; it may be stopped.
    pub(super) is_silent: bool,
    /// Time of the latest answer.
    pub(super) last_reply: Instant,
    /// Latest findings, one paragraph each, or the reason why they are unknown. `None` before the
    /// first request completes.
    pub(super) findings: Option<Result<Vec<String>, String>>,
}

impl View {
    pub(super) fn chosen(&self) -> Option<&Watched> {
        self.processes.get(self.chosen)
    }

    /// Selects the next or the previous process.
    pub(super) fn turn(&mut self, forward: bool) {
        let count = self.processes.len().max(1);
        self.chosen = (self.chosen + if forward { 1 } else { count - 1 }) % count;
        self.scrolled = 0;
    }

    /// Switches to another body, or back to the actions if that body is already shown.
    pub(super) fn show(&mut self, body: Body) {
        self.body = if self.body == body { Body::Actions } else { body };
        self.scrolled = 0;
    }

    /// Scrolls the list down or up by one row.
    pub(super) fn scroll(&mut self, down: bool) {
        let chosen = self.chosen();
        let activity = chosen.and_then(|it| it.state.activity.as_ref());
        let count = match self.body {
            Body::Actions => activity.map_or(0, |it| it.actions.len()),
            Body::Threads => activity.map_or(0, |it| it.threads.len()),
            Body::Processes => self.processes.len(),
            Body::Findings => match chosen.and_then(|it| it.findings.as_ref()) {
                Some(Ok(findings)) => findings.len(),
                Some(Err(_)) | None => 0,
            },
        };
        let last = count.saturating_sub(1);
        self.scrolled = match down {
            true => (self.scrolled + 1).min(last),
            false => self.scrolled.saturating_sub(1),
        };
    }

    /// Stores a new state of a process.
    pub(super) fn hear(&mut self, name: ProcessName, state: ProcessState) {
        let findings = self.watched(name).and_then(|known| known.findings.take());
        let (has_ended, is_silent, last_reply) = (false, false, Instant::now());
        let watched = Watched { name, state, has_ended, is_silent, last_reply, findings };
        match self.watched(name) {
            Some(known) => *known = watched,
            None => self.processes.push(watched),
        }
    }

    fn watched(&mut self, name: ProcessName) -> Option<&mut Watched> {
        self.processes.iter_mut().find(|it| it.name == name)
    }

    /// Marks the processes that have not answered for more than `longest`.
    pub(super) fn look_at_clock(&mut self, longest: Duration) {
        for watched in &mut self.processes {
            watched.is_silent = !watched.has_ended && watched.last_reply.elapsed() > longest;
        }
    }

    /// Stores the findings of a process.
    pub(super) fn found(&mut self, name: ProcessName, findings: Result<Vec<String>, String>) {
        if let Some(known) = self.watched(name) {
            known.findings = Some(findings);
        }
    }

    pub(super) fn has_ended(&mut self, name: ProcessName) {
        if let Some(known) = self.watched(name) {
            (known.has_ended, known.is_silent) = (true, false);
        }
    }
}

/// Returns the actions of a process in display order, each with its nesting depth. Rows that [also
/// appear inside another action](is_also_inside) come last.
pub(super) fn rows(activity: &Activity, order: Order) -> Vec<(usize, &ActionState)> {
    let mut rows = Vec::with_capacity(activity.actions.len());
    add(activity, order, None, 0, &mut rows);
    rows
}

/// Rows that are not shown because they are small.
#[derive(Debug, Default)]
pub(super) struct Folded {
    pub(super) rows: usize,
    pub(super) calls: u64,
    /// Total time in seconds. A row inside another one of them counts once.
    pub(super) seconds: f64,
}

/// Removes the rows that took less than [`LEAST_SHARE`] of `of` seconds. A row inside a removed row
/// never took longer than that row.
pub(super) fn without_small(
    rows: Vec<(usize, &ActionState)>,
    of: f64,
) -> (Vec<(usize, &ActionState)>, Folded) {
    // The rows are visited from the end, because the parents of a shown row are also shown.
    let mut shown_depth = 0;
    let is_kept = |(depth, action): &(usize, &ActionState)| {
        let is_around = shown_depth > *depth;
        let is_large = action.seconds >= LEAST_SHARE * of;
        if is_around || is_large {
            shown_depth = *depth;
        }
        is_around || is_large
    };
    let mut are_kept: Vec<bool> = rows.iter().rev().map(is_kept).collect();
    are_kept.reverse();
    // One small row needs no more space than a row that counts it.
    if are_kept.iter().filter(|is_kept| !**is_kept).count() <= 1 {
        return (rows, Folded::default());
    }
    let (mut kept, mut folded) = (Vec::new(), Folded::default());
    let mut folded_depth = usize::MAX;
    for ((depth, action), is_kept) in rows.into_iter().zip(are_kept) {
        if is_kept {
            folded_depth = usize::MAX;
            kept.push((depth, action));
            continue;
        }
        folded.rows += 1;
        folded.calls += action.calls;
        if depth <= folded_depth {
            folded_depth = depth;
            folded.seconds += action.seconds;
        }
    }
    (kept, folded)
}

/// Returns `true` if a top-level row also appears inside another action. Such an action was already
/// open when following began, so its parent is unknown, or it is called in two places.
pub(super) fn is_also_inside(activity: &Activity, action: &ActionState) -> bool {
    let is_same = |other: &ActionState| (&other.name, other.kind) == (&action.name, action.kind);
    action.around.is_none() && activity.actions.iter().any(|it| it.around.is_some() && is_same(it))
}

fn add<'a>(
    activity: &'a Activity,
    order: Order,
    around: Option<usize>,
    depth: usize,
    rows: &mut Vec<(usize, &'a ActionState)>,
) {
    let all = activity.actions.iter().enumerate();
    // A parent precedes its children in the list, so an action is never inside itself.
    let mut inside: Vec<_> = all
        .filter(|(number, it)| it.around == around && around.is_none_or(|outer| outer < *number))
        .collect();
    inside.sort_by(|(_, a), (_, b)| match order {
        Order::Time => b.seconds.total_cmp(&a.seconds).then_with(|| a.name.cmp(&b.name)),
        Order::Calls => b.calls.cmp(&a.calls).then_with(|| a.name.cmp(&b.name)),
        Order::Name => a.name.cmp(&b.name),
    });
    inside.sort_by_cached_key(|(_, action)| is_also_inside(activity, action));
    for (number, action) in inside {
        rows.push((depth, action));
        add(activity, order, Some(number), depth + 1, rows);
    }
}
